//! Rows that others have computed: `traces` and `requests`.

use std::sync::Arc;

use otlp::testing::{T0, sid, tid};

use super::{cell, check};
use crate::{
    requests::{Measure, Outcome, Quality, Reason, Request, RequestsBuilder},
    traces::{LossFlag, Trace, TracesBuilder},
};

fn request() -> Request {
    Request {
        parent_span_id: Some(sid(2)),
        request_id: Some("chatcmpl-1".into()),
        request_id_normalised: Some("1".into()),
        engine: Some("vllm"),
        operation: Some("chat".into()),
        model: Some("m".repeat(2_000)),
        k8s_pod_uid: Some("u".into()),
        start_time_unix_nano: T0,
        end_time_unix_nano: T0 + 2_000_000_000,
        e2e_s: Some(1.5),
        engine_ttft_s: Some(0.25),
        tpot_s: Some(f64::NAN),
        input_tokens: Some(4_000),
        output_tokens: Some(12),
        outcome: Outcome::NoOutput,
        quality: vec![
            Quality::Unusable(Measure::Queue, Reason::Negative),
            Quality::E2eOverSpan,
        ],
        decision: Some("sampled"),
        policy: Some(Arc::from("slow")),
        received_unix_nano: T0 + 3_000_000_000,
        ..Request::new(tid(1), sid(1))
    }
}

fn trace<'a>(services: &'a [Arc<str>], main_request: Option<&'a Request>) -> Trace<'a> {
    Trace {
        trace_id: tid(1),
        root_service_name: Some("gateway"),
        root_name: Some("POST /v1/chat"),
        start_time_unix_nano: T0,
        end_time_unix_nano: T0 + 2_500_000_000,
        n_spans: 3,
        n_error_spans: 1,
        n_roots: 1,
        n_orphans: 0,
        size_bytes: 2_070,
        services,
        decision: "sampled",
        policy: Some("slow"),
        trigger: "root_ended",
        adjusted_count: Some(1.0),
        n_requests: 1,
        main_request,
        first_seen_unix_nano: T0 + 2_600_000_000,
        decided_unix_nano: T0 + 5_000_000_000,
        loss_flags: &[],
    }
}

#[test]
fn a_request_row_says_what_the_request_says() {
    let mut builder = RequestsBuilder::new();
    builder.append(&request()).unwrap();
    let batch = builder.finish();
    check(
        &batch,
        0,
        &[
            ("date", "2026-03-01"),
            ("trace_id", "7c000001a1b2c3d4e5f60718293a4b5c"),
            ("span_id", "b0000001c0ffee11"),
            ("parent_span_id", "b0000002c0ffee11"),
            ("request_id_normalised", "1"),
            ("k8s_pod_uid", "u"),
            ("k8s_pod_name", "NULL"),
            ("duration_ns", "2000000000"),
            ("e2e_s", "1.5"),
            ("engine_ttft_s", "0.25"),
            ("client_ttft_s", "NULL"),
            ("queue_s", "NULL"),
            ("tpot_s", "NULL"),
            ("input_band", "lt_8k"),
            ("output_band", "lt_128"),
            ("outcome", "no_output"),
            ("quality", "[queue_negative, e2e_longer_than_span]"),
            ("concurrent_requests", "NULL"),
            ("wrapper", "false"),
            ("decision", "sampled"),
            ("policy", "slow"),
            ("received_time", "2026-03-01 12:00:03"),
        ],
    );
    assert!(cell(&batch, 0, "model").len() <= 1_024);
}

#[test]
fn a_request_of_which_only_the_ids_are_known_is_a_row() {
    let mut builder = RequestsBuilder::new();
    let unknown = Request {
        received_unix_nano: T0,
        ..Request::new(tid(1), sid(1))
    };
    builder.append(&unknown).unwrap();
    let batch = builder.finish();
    check(
        &batch,
        0,
        &[
            ("date", "2026-03-01"),
            ("start_time", "NULL"),
            ("input_tokens", "NULL"),
            ("input_band", "NULL"),
            ("quality", "[]"),
            ("outcome", "ok"),
        ],
    );
}

#[test]
fn a_trace_row_repeats_its_main_request() {
    let services = [Arc::from("gateway"), Arc::from("vllm")];
    let request = request();
    let mut builder = TracesBuilder::new();
    builder.append(&trace(&services, Some(&request))).unwrap();
    builder.append(&trace(&services, None)).unwrap();
    let batch = builder.finish();
    check(
        &batch,
        0,
        &[
            ("root_name", "POST /v1/chat"),
            ("duration_ns", "2500000000"),
            ("span_count", "3"),
            ("error", "true"),
            ("services", "[gateway, vllm]"),
            ("decision", "sampled"),
            ("stored", "true"),
            ("adjusted_count", "1.0"),
            ("complete", "true"),
            ("request_count", "1"),
            ("engine_ttft_s", "0.25"),
            ("tpot_s", "NULL"),
            ("output_tokens", "12"),
            ("outcome", "no_output"),
            ("loss_flags", "[]"),
            ("decided_time", "2026-03-01 12:00:05"),
        ],
    );
    check(
        &batch,
        1,
        &[("model", "NULL"), ("e2e_s", "NULL"), ("outcome", "NULL")],
    );
}

#[test]
fn missing_roots_and_orphans_are_loss_flags_named_once() {
    let given = [LossFlag::DecidedEarly, LossFlag::Orphans];
    let broken = Trace {
        n_roots: 0,
        n_orphans: 2,
        decision: "not_sampled",
        loss_flags: &given,
        start_time_unix_nano: 0,
        ..trace(&[], None)
    };
    let mut builder = TracesBuilder::new();
    builder.append(&broken).unwrap();
    let batch = builder.finish();
    check(
        &batch,
        0,
        &[
            ("date", "2026-03-01"),
            ("complete", "false"),
            ("duration_ns", "NULL"),
            ("stored", "false"),
            ("loss_flags", "[no_root, decided_early, orphans]"),
        ],
    );
}
