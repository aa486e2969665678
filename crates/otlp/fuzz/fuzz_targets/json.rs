//! Any bytes as the JSON text of an export request of each signal.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| otlp::testing::exercise_json(text));
