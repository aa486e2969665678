//! The fuzz target's corpus.

use std::fs;
use std::panic;
use std::path::Path;

use crate::sim::check_recovery;

#[test]
fn recovery_survives_the_fuzz_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/recovery");
    let mut n_inputs = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        let input = fs::read(&path).unwrap();
        let result = panic::catch_unwind(|| check_recovery(&input));
        assert!(result.is_ok(), "{}", path.display());
        n_inputs += 1;
    }
    assert!(n_inputs > 0);
}

/// What a fuzzer would try first: one edit of each kind in each file, at each 409th byte.
#[test]
fn recovery_survives_single_edits_of_each_kind() {
    for kind in 0..4 {
        for file in 0..4 {
            for offset in (0..4096_u16).step_by(409) {
                let [low, high] = offset.to_le_bytes();
                for value in [0, 1, 40, 255] {
                    check_recovery(&[1, kind, file, low, high, value]);
                }
            }
        }
    }
}
