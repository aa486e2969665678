//! Start, restart and stop.

use std::sync::{Arc, atomic::AtomicU64};

use gateway::{Error, Health};
use http::StatusCode;

use crate::harness::{
    Fixture, T0, TRACES, config, eventually, longer_trace_export, start_of, trace_export,
};

const PROTOBUF: &str = "application/x-protobuf";

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_is_an_error_that_names_address_and_key() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = taken.local_addr().unwrap().to_string();
    let mut config = config();
    config.otlp.protocols.http.as_mut().unwrap().endpoint = endpoint.clone();
    let folder = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicU64::new(T0));
    let error = gateway::start(start_of(config, &folder, &now))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Bind { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&endpoint), "{text}");
    assert!(
        text.contains("receivers::otlp::protocols::http::endpoint"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_gateway_in_the_same_folder_is_refused() {
    let first = Fixture::new(config()).await;
    let second = gateway::start(start_of(config(), &first.folder, &first.now)).await;
    assert!(second.is_err_and(|error| error.is_locked()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_released_by_the_next_process() {
    let gateway = Fixture::new(config()).await;
    gateway
        .export(TRACES, trace_export(1, 10), None)
        .await
        .unwrap();
    let mut gateway = gateway.restart().await;
    assert_eq!(gateway.handle.metrics.conservation().recovered.n_spans, 1);
    gateway.advance(2);
    let release = gateway.next_release().await;
    assert_eq!((release.sequence, release.decided.len()), (1, 1));
    assert!(release.decided[0].spans[0].is_root);

    // Not committed, so it comes again.
    let mut gateway = gateway.restart().await;
    let again = gateway.next_release().await;
    assert_eq!(again.sequence, 1);
    assert_eq!(
        again.decided[0].spans[0].at().span,
        release.decided[0].spans[0].at().span
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_answers_open_requests_and_ends_the_releases() {
    let mut gateway = Fixture::new(config()).await;
    gateway
        .post("/v1/traces", PROTOBUF, trace_export(1, 10))
        .await;
    assert_eq!(gateway.handle.health(), Health::Ready);
    gateway.handle.shutdown().await.unwrap();
    assert_eq!(gateway.handle.health(), Health::Stopping);
    gateway.handle.shutdown().await.unwrap();
    while gateway.releases.recv().await.is_some() {}
    let conservation = gateway.handle.metrics.conservation();
    assert!(conservation.is_conserved(), "{conservation:?}");
    assert_eq!(conservation.pending.n_spans, 1);
    assert!(
        tokio::net::TcpStream::connect(gateway.http_addr())
            .await
            .is_err()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_senders_at_once_are_all_answered_and_conserved() {
    let gateway = Arc::new(Fixture::new(config()).await);
    let mut senders = tokio::task::JoinSet::new();
    for trace in 1..=100 {
        let gateway = Arc::clone(&gateway);
        senders.spawn(async move {
            if trace % 2 == 0 {
                gateway
                    .export(TRACES, trace_export(trace, 1000), None)
                    .await
                    .unwrap();
            } else {
                let answer = gateway
                    .post("/v1/traces", PROTOBUF, trace_export(trace, 1000))
                    .await;
                assert_eq!(answer.status, StatusCode::OK);
            }
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent.unwrap();
    }
    let mut gateway = Arc::into_inner(gateway).unwrap();
    gateway.advance(2);
    let mut n_traces = 0;
    while n_traces < 100 {
        n_traces += gateway.next_release().await.decided.len();
    }
    gateway.handle.shutdown().await.unwrap();
    let conservation = gateway.handle.metrics.conservation();
    assert!(conservation.is_conserved(), "{conservation:?}");
    assert_eq!(
        (conservation.received.n_spans, conservation.sampled.n_traces),
        (100, 100)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_and_decisions_are_on_the_metrics_page_under_the_names_of_the_collector() {
    let mut gateway = Fixture::new(config()).await;
    let page = || gateway.handle.metrics.render_prometheus();
    let prefix = "otelcol_processor_tail_sampling";
    // Each is there before anything has come.
    let nothing = format!("{prefix}_sampling_policy_execution_count{{policy=\"all\"}} 0\n");
    assert!(page().contains(&nothing), "{}", page());
    gateway
        .export(TRACES, trace_export(1, 10), None)
        .await
        .unwrap();
    gateway.advance(2);
    gateway.next_release().await;
    // A copy of the first span, and one that comes after the decision and follows it.
    gateway
        .export(TRACES, longer_trace_export(1), None)
        .await
        .unwrap();
    let labels = "policy=\"all\",sampled=\"true\",decision=\"sampled\"";
    let expected = [
        format!("{prefix}_new_trace_id_received 1\n"),
        format!("{prefix}_sampling_traces_on_memory 0\n"),
        format!(
            "{prefix}_global_count_traces_sampled{{sampled=\"true\",decision=\"sampled\"}} 1\n"
        ),
        format!(
            "{prefix}_global_count_traces_sampled{{sampled=\"false\",decision=\"dropped\"}} 0\n"
        ),
        format!("{prefix}_count_traces_sampled{{{labels}}} 1\n"),
        format!("{prefix}_sampling_policy_execution_count{{policy=\"all\"}} 1\n"),
        format!("{prefix}_sampling_policy_evaluation_error 0\n"),
        format!("{prefix}_traces_dropped_too_large 0\n"),
        format!("{prefix}_early_releases_from_cache_decision{{sampled=\"true\"}} 1\n"),
        "sampler_policy_traces_total{policy=\"all\",state=\"checked\"} 1\n".to_owned(),
        "sampler_policy_traces_total{policy=\"all\",state=\"matched\"} 1\n".to_owned(),
    ];
    eventually(async || {
        let page = gateway.handle.metrics.render_prometheus();
        let is_there = expected.iter().all(|line| page.contains(line));
        is_there.then_some(())
    })
    .await;
}
