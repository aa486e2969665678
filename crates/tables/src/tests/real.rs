//! Captured traffic of real programs.

use std::{io::Read, path::Path};

use arrow::array::{Array, AsArray};
use flate2::read::GzDecoder;

use super::spans;
use crate::redact::{Action, Config, Place, Redaction};

/// The export requests of a capture, in arrival order.
pub(super) fn bodies(capture: &str) -> impl Iterator<Item = Vec<u8>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    let files = std::fs::read_dir(data.join(capture).join("traces")).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| {
        let mut body = Vec::new();
        GzDecoder::new(std::fs::File::open(path).unwrap())
            .read_to_end(&mut body)
            .unwrap();
        body
    })
}

#[track_caller]
fn check(capture: &str, n_spans: usize) {
    let redaction = Redaction::new(&Config::default()).unwrap();
    let mut n_rows = 0;
    for body in bodies(capture) {
        let batch = spans(&body);
        n_rows += batch.num_rows();
        for column in ["attributes", "resource_attributes"] {
            let map = batch.column_by_name(column).unwrap().as_map();
            for key in map.keys().as_string::<i32>().iter().flatten() {
                assert_ne!(redaction.action(Place::Plain, key), Action::Drop, "{key}");
            }
            let lens = map
                .values()
                .as_string::<i32>()
                .iter()
                .flatten()
                .map(str::len);
            assert!(lens.max().unwrap_or_default() <= 2_048);
        }
        assert_eq!(
            batch.column_by_name("service_name").unwrap().null_count(),
            0
        );
        assert_eq!(batch.column_by_name("start_time").unwrap().null_count(), 0);
    }
    assert_eq!(n_rows, n_spans);
}

#[test]
fn every_span_of_the_connected_capture_is_a_row_without_content() {
    check("real-chain", 17_680);
}

#[test]
fn every_span_of_the_broken_capture_is_a_row_without_content() {
    check("real-broken", 6_593);
}
