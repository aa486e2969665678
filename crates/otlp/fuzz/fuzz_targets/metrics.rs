//! Any bytes as the body of a metrics export request: checked and walked.
#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| otlp::testing::exercise_metrics(body));
