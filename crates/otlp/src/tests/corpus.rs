//! The fuzz targets on their corpora, so that every test run covers what fuzzing found.

use super::{crate_path, files};
use crate::testing::{exercise_json, exercise_metrics, exercise_prometheus, exercise_traces};

#[test]
fn the_corpus_of_the_traces_target_passes() {
    let files = files(&crate_path("fuzz/corpus/traces"));
    assert!(!files.is_empty());
    for (_, body) in files {
        exercise_traces(&body);
    }
}

#[test]
fn the_corpus_of_the_json_target_passes() {
    let files = files(&crate_path("fuzz/corpus/json"));
    assert!(!files.is_empty());
    for (_, text) in files {
        exercise_json(&text);
    }
}

#[test]
fn the_corpus_of_the_metrics_target_passes() {
    let files = files(&crate_path("fuzz/corpus/metrics"));
    assert!(!files.is_empty());
    for (_, body) in files {
        exercise_metrics(&body);
    }
}

#[test]
fn the_corpus_of_the_prometheus_target_passes() {
    let files = files(&crate_path("fuzz/corpus/prometheus"));
    assert!(!files.is_empty());
    for (_, text) in files {
        exercise_prometheus(&text);
    }
}
