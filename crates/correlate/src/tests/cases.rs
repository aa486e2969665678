//! Known trouble: what engines reported in the field, and what must be made of it.

use tables::requests::Outcome;

use super::{assert_close, find, flags, requests_of_file};

#[test]
fn c34_impossible_times_to_first_token_are_absent_and_flagged() {
    let requests = requests_of_file("C34.json");
    let cases: [(&str, Option<f64>, &[&str]); 8] = [
        ("ok-1", Some(0.12), &[]),
        ("ok-2", Some(0.2), &[]),
        ("ok-3", Some(0.4), &[]),
        ("not-streamed", None, &[]),
        (
            "aborted-in-queue",
            None,
            &[
                "ttft_zero",
                "queue_negative",
                "prefill_negative",
                "decode_zero",
            ],
        ),
        ("never-measured", None, &["ttft_zero"]),
        ("ttft-over-e2e", None, &["ttft_over_e2e"]),
        ("nan", None, &["ttft_not_finite"]),
    ];
    assert_eq!(requests.len(), cases.len());
    for (id, ttft_s, expected) in cases {
        let request = find(&requests, id);
        assert_eq!(request.engine_ttft_s, ttft_s, "{id}");
        assert_eq!(flags(request), expected, "{id}");
    }
    let aborted = find(&requests, "aborted-in-queue");
    assert_eq!(
        (aborted.queue_s, aborted.prefill_s, aborted.decode_s),
        (None, None, None)
    );
    assert_eq!(
        (aborted.outcome, aborted.e2e_s),
        (Outcome::Cancelled, Some(0.9))
    );
    assert_eq!(aborted.finish_reason.as_deref(), Some("abort"));
    assert!(
        requests
            .iter()
            .all(|r| r.request_id == aborted.request_id || r.outcome == Outcome::Ok)
    );
}

#[test]
fn c35_time_per_token_needs_two_tokens() {
    let requests = requests_of_file("C35.json");
    let cases = [
        ("n0", None),
        ("n1", None),
        ("n2", Some(0.2)),
        ("n101", Some(0.02)),
        ("unknown", None),
        ("mtp", Some(0.02)),
    ];
    assert_eq!(requests.len(), cases.len());
    for (id, tpot_s) in cases {
        let request = find(&requests, id);
        assert_close(request.tpot_s, tpot_s);
        assert_eq!(request.engine_ttft_s, Some(0.3), "{id}");
    }
    let measured: Vec<f64> = requests
        .iter()
        .filter_map(|request| request.tpot_s)
        .collect();
    assert_close(Some(measured.iter().sum::<f64>() / 3.0), Some(0.08));
    assert_eq!(find(&requests, "n0").outcome, Outcome::NoOutput);
    assert_eq!(find(&requests, "unknown").outcome, Outcome::Ok);
    assert_eq!(find(&requests, "n101").e2e_s, Some(2.3));
}

#[test]
fn c40_pooling_requests_are_neither_failed_nor_in_percentiles() {
    let requests = requests_of_file("C40.json");
    assert_eq!(requests.len(), 3);
    for id in ["embd-1", "embd-2"] {
        let request = find(&requests, id);
        assert_eq!(
            (request.engine_ttft_s, request.tpot_s),
            (None, None),
            "{id}"
        );
        assert_eq!(request.outcome, Outcome::Ok, "{id}");
        assert_eq!(request.operation.as_deref(), Some("embeddings"), "{id}");
    }
    assert_eq!(find(&requests, "chat-1").engine_ttft_s, Some(0.1));
    let input: i64 = requests
        .iter()
        .filter_map(|request| request.input_tokens)
        .sum();
    assert_eq!(input, 1_132);
}

#[test]
fn uptime_sized_times_are_absent_and_flagged() {
    let requests =
        requests_of_file("vllm-0.33.0-engine-error-before-schedule-uptime-sized-values.json");
    let [request] = requests.as_slice() else {
        unreachable!("one request")
    };
    let phases = [
        request.queue_s,
        request.prefill_s,
        request.decode_s,
        request.inference_s,
    ];
    assert_eq!(phases, [None; 4]);
    let expected = [
        "queue_negative",
        "prefill_over_e2e",
        "inference_over_e2e",
        "decode_zero",
        "ttft_without_output",
    ];
    assert_eq!(flags(request), expected);
    assert_eq!(
        (request.outcome, request.e2e_s),
        (Outcome::NoOutput, Some(0.8107))
    );
}

#[test]
fn children_of_one_request_share_its_id_and_temperature_zero_is_absent() {
    let children = requests_of_file("vllm-0.33.0-n2-two-children-same-request-id.json");
    assert_eq!(children.len(), 2);
    assert_eq!(
        children[0].request_id_normalised,
        children[1].request_id_normalised
    );
    assert_eq!(children[0].engine, Some("vllm"));
    let greedy = requests_of_file("vllm-0.33.0-temperature0-omitted.json");
    assert_eq!(greedy.len(), 1);
    assert_eq!(greedy[0].temperature, None);
}
