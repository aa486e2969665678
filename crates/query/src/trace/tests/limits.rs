//! Traces that are too large to be given whole.

use ::otlp::testing::{TimeSpan as _, tid, trace};
use tables::redact;

use super::super::Error;
use super::stored;
use crate::Config;
use crate::tests::support::{config, fixture, spans_with};

#[tokio::test]
async fn a_trace_of_more_spans_or_bytes_than_allowed_is_refused() {
    let limited = Config {
        trace_spans_max: 3,
        memory_mib: 64,
        ..config()
    };
    let fixture = fixture(&limited).await;
    let of = |n_spans: usize, number| {
        (0..n_spans)
            .fold(trace(number), |export, _| export.span("s", 1.ms()))
            .build()
    };
    let plain = redact::Config::default();
    fixture.append("spans", 1, spans_with(&plain, &of(3, 1)));
    fixture.append("spans", 2, spans_with(&plain, &of(4, 2)));
    assert_eq!(stored(&fixture, tid(1)).await.unwrap().n_spans, 3);
    let error = stored(&fixture, tid(2)).await.unwrap_err();
    assert!(
        matches!(error, Error::TooManySpans { spans_max: 3, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("trace_spans_max"), "{error}");
}
