//! Recovery from arbitrary segment files, and from edited valid ones: `cargo +nightly fuzz run recovery`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| wal::sim::check_recovery(input));
