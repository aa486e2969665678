//! Any bytes as the body of a trace export request: checked, walked, re-framed, through JSON and back.
#![no_main]

libfuzzer_sys::fuzz_target!(|body: &[u8]| otlp::testing::exercise_traces(body));
