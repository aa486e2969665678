//! Any bytes as the text of a Prometheus scrape.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| otlp::testing::exercise_prometheus(text));
