//! Tests of replies.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::{
    logs::v1::ExportLogsServiceResponse, metrics::v1::ExportMetricsServiceResponse,
    trace::v1::ExportTraceServiceResponse,
};
use prost::Message;

use super::{Encoding, MESSAGE_BYTES_MAX, export_response, status};
use crate::Signal;

fn json(signal: Signal, rejected: u64, message: Option<&str>) -> String {
    String::from_utf8(export_response(signal, Encoding::Json, rejected, message)).unwrap()
}

#[test]
fn full_success_leaves_partial_success_unset() {
    for signal in [Signal::Traces, Signal::Metrics, Signal::Logs] {
        assert!(export_response(signal, Encoding::Protobuf, 0, None).is_empty());
        assert_eq!(json(signal, 0, None), "{}");
    }
}

#[test]
fn rejected_items_and_their_reason_are_told_in_both_encodings() {
    let bytes = |signal| export_response(signal, Encoding::Protobuf, 5, Some("zero id"));
    let traces = ExportTraceServiceResponse::decode(bytes(Signal::Traces).as_slice()).unwrap();
    let partial = traces.partial_success.unwrap();
    assert_eq!(
        (partial.rejected_spans, partial.error_message.as_str()),
        (5, "zero id")
    );
    let metrics = ExportMetricsServiceResponse::decode(bytes(Signal::Metrics).as_slice()).unwrap();
    assert_eq!(metrics.partial_success.unwrap().rejected_data_points, 5);
    let logs = ExportLogsServiceResponse::decode(bytes(Signal::Logs).as_slice()).unwrap();
    assert_eq!(logs.partial_success.unwrap().rejected_log_records, 5);

    let check = |signal, want: &str| assert_eq!(json(signal, 5, Some("a \"b\"")), want);
    let rest = r#":"5","errorMessage":"a \"b\""}}"#;
    check(
        Signal::Traces,
        &format!("{{\"partialSuccess\":{{\"rejectedSpans\"{rest}"),
    );
    check(
        Signal::Metrics,
        &format!("{{\"partialSuccess\":{{\"rejectedDataPoints\"{rest}"),
    );
    check(
        Signal::Logs,
        &format!("{{\"partialSuccess\":{{\"rejectedLogRecords\"{rest}"),
    );
}

#[test]
fn a_message_without_rejections_is_a_warning() {
    let bytes = export_response(Signal::Traces, Encoding::Protobuf, 0, Some("slow down"));
    let response = ExportTraceServiceResponse::decode(bytes.as_slice()).unwrap();
    assert_eq!(response.partial_success.unwrap().error_message, "slow down");
    assert_eq!(
        json(Signal::Traces, 0, Some("slow down")),
        r#"{"partialSuccess":{"rejectedSpans":"0","errorMessage":"slow down"}}"#
    );
}

#[test]
fn long_texts_are_cut_at_a_character() {
    let long = "\u{20ac}".repeat(MESSAGE_BYTES_MAX);
    let text = json(Signal::Traces, 1, Some(&long));
    assert!(text.len() < MESSAGE_BYTES_MAX + 100);
    assert!(text.ends_with("\u{20ac}\"}}"));
    assert!(status(Encoding::Protobuf, 3, &long, None).len() < MESSAGE_BYTES_MAX + 10);
}

#[test]
fn a_status_says_when_to_try_again() {
    let after = |millis| Some(Duration::from_millis(millis));
    let protobuf = status(Encoding::Protobuf, 14, "full", after(1500));
    let want = [
        b"\x08\x0e\x12\x04full\x1a\x36".as_slice(),
        b"\x0a\x28type.googleapis.com/google.rpc.RetryInfo",
        // RetryInfo { retry_delay: Duration { seconds: 1, nanos: 500_000_000 } }
        b"\x12\x0a\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01",
    ]
    .concat();
    assert_eq!(protobuf, want);

    let check = |delay, want: &str| {
        let text = String::from_utf8(status(Encoding::Json, 14, "full", delay)).unwrap();
        assert_eq!(text, want);
    };
    check(None, r#"{"code":14,"message":"full"}"#);
    let detail = r#""details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"#;
    check(
        after(2000),
        &format!(r#"{{"code":14,"message":"full",{detail}"2s"}}]}}"#),
    );
    check(
        after(1500),
        &format!(r#"{{"code":14,"message":"full",{detail}"1.500000000s"}}]}}"#),
    );
}

#[test]
fn a_status_without_delay_has_no_details() {
    assert_eq!(
        status(Encoding::Protobuf, 3, "bad", None),
        b"\x08\x03\x12\x03bad"
    );
    assert!(status(Encoding::Protobuf, 0, "", None).is_empty());
}
