//! Blocks as people write them.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use transport::Authenticators;

use super::{Debug as DebugExporter, OtlpGrpc, OtlpHttp};

fn read<T: DeserializeOwned>(yaml: &str) -> T {
    serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{yaml}: {error}"))
}

/// The URL, or what is wrong.
fn grpc(yaml: &str) -> String {
    let config: OtlpGrpc = read(yaml);
    let checked = config.validate(&Authenticators::default());
    told(checked.and_then(|()| config.url()))
}

fn http(yaml: &str) -> String {
    let config: OtlpHttp = read(yaml);
    let checked = config.validate(&Authenticators::default());
    told(checked.and_then(|()| config.url()))
}

fn told(url: Result<http::Uri, impl std::fmt::Display>) -> String {
    url.map_or_else(|error| error.to_string(), |url| url.to_string())
}

#[test]
fn a_grpc_endpoint_is_a_host_and_a_port_with_tls_unless_it_says_otherwise() {
    let wrong = "`endpoint` must be `host:port`, as in `tempo:4317`";
    for (yaml, url) in [
        ("{endpoint: 'tempo:4317'}", "https://tempo:4317/"),
        (
            "{endpoint: 'tempo:4317', tls: {insecure: true}}",
            "http://tempo:4317/",
        ),
        ("{endpoint: 'http://tempo:4317'}", "http://tempo:4317/"),
        (
            "{endpoint: 'https://[::1]:4317', tls: {insecure: true}}",
            "https://[::1]:4317/",
        ),
        (
            "{endpoint: 'dns:///tempo:4317', tls: {insecure: true}}",
            "http://tempo:4317/",
        ),
        ("{endpoint: tempo}", wrong),
        ("{endpoint: ':4317'}", wrong),
        ("{endpoint: 'tempo:99999'}", wrong),
        ("{endpoint: 'http://tempo:4317/v1/traces'}", wrong),
        ("{endpoint: 'unix:///run/otlp'}", wrong),
        ("{}", wrong),
        (
            "{endpoint: 'http://user:pw@tempo:4317'}",
            "`endpoint` holds credentials; put them into `headers` or `auth`",
        ),
    ] {
        assert_eq!(grpc(yaml), url, "{yaml}");
    }
}

#[test]
fn an_http_endpoint_is_a_url_and_gets_the_path() {
    let wrong = "`endpoint` must be a URL, as in `http://tempo:4318`";
    for (yaml, url) in [
        (
            "{endpoint: 'http://tempo:4318'}",
            "http://tempo:4318/v1/traces",
        ),
        (
            "{endpoint: 'https://tempo/otlp/'}",
            "https://tempo/otlp/v1/traces",
        ),
        (
            "{traces_endpoint: 'http://tempo:4318/x?y=1'}",
            "http://tempo:4318/x?y=1",
        ),
        ("{endpoint: 'tempo:4318'}", wrong),
        ("{endpoint: 'ftp://tempo:4318'}", wrong),
        ("{endpoint: 'http://tempo:4318?x=1'}", wrong),
        ("{}", wrong),
    ] {
        assert_eq!(http(yaml), url, "{yaml}");
    }
}

#[test]
fn a_setting_that_cannot_work_is_named() {
    for (keys, problem) in [
        ("timeout: 0s", "`timeout` must be more than 0s"),
        (
            "headers: {'a b': c}",
            "`headers::a b` is not a name of a header",
        ),
        (
            "headers: {a: \"b\\nc\"}",
            "`headers::a` has characters that no header may have",
        ),
        (
            "retry_on_failure: {multiplier: 0.5}",
            "`retry_on_failure::multiplier` must be at least 1",
        ),
        (
            "retry_on_failure: {initial_interval: 1m}",
            "`retry_on_failure::max_interval` must be at least `initial_interval`",
        ),
        (
            "sending_queue: {num_consumers: 0}",
            "`sending_queue::num_consumers` must be from 1 to 64",
        ),
        (
            "keepalive: {time: 0s}",
            "`keepalive` must have a `time` and a `timeout` of more than 0s",
        ),
        (
            "tls: {cert_file: a.pem}",
            "`tls::cert_file` needs `key_file`, which is not set; set both, or neither",
        ),
    ] {
        assert_eq!(grpc(&format!("{{endpoint: 'a:1', {keys}}}")), problem);
    }
    let unknown = grpc("{endpoint: 'a:1', auth: {authenticator: bearertokenauth/x}}");
    assert!(unknown.contains("bearertokenauth/x"), "{unknown}");
}

/// The key of every setting that the Collector's documentation shows for these exporters.
#[test]
fn a_block_of_a_collector_is_read_and_what_means_nothing_here_is_named() {
    let grpc: OtlpGrpc = read(
        "endpoint: tempo:4317
tls: {insecure: true}
compression: zstd
headers: {X-Scope-OrgID: team}
keepalive: {time: 30s, timeout: 5s, permit_without_stream: true}
timeout: 10s
wait_for_ready: true
balancer_name: round_robin
retry_on_failure: {enabled: true, initial_interval: 1s, max_interval: 10s, max_elapsed_time: 10m}
sending_queue:
  enabled: true
  num_consumers: 4
  queue_size: 5000
  storage: file_storage/otc
  batch: {flush_timeout: 200ms, min_size: 8192, max_size: 10000}
",
    );
    assert_eq!(
        grpc.unused(),
        [
            "balancer_name",
            "wait_for_ready",
            "sending_queue::enabled",
            "sending_queue::storage",
            "sending_queue::queue_size",
            "sending_queue::batch::min_size",
            "sending_queue::batch::flush_timeout",
        ]
    );
    assert_eq!(grpc.sending_queue.request_max(), (4128768, 10_000));
    let http: OtlpHttp = read(
        "endpoint: http://tempo:4318
compression: none
encoding: proto
max_idle_conns_per_host: 10
sending_queue: {batch: {sizer: bytes, max_size: 1000000}}
",
    );
    assert_eq!(http.unused(), ["max_idle_conns_per_host"]);
    assert_eq!(http.sending_queue.request_max(), (1_000_000, usize::MAX));
    let debug: DebugExporter =
        read("{verbosity: detailed, sampling_initial: 5, use_internal_logger: false}");
    assert_eq!(debug.unused(), ["use_internal_logger"]);
}

#[test]
fn what_does_not_exist_is_refused() {
    fn refused<T: DeserializeOwned + Debug>(yaml: &str) {
        let read = serde_saphyr::from_str::<T>(yaml);
        assert!(read.is_err(), "{yaml}: {read:?}");
    }
    refused::<OtlpGrpc>("{endpont: 'a:1'}");
    refused::<OtlpGrpc>("{compression: snappy}");
    refused::<OtlpGrpc>("{retry_on_failure: {max_attempts: 3}}");
    refused::<OtlpHttp>("{encoding: json}");
    refused::<OtlpHttp>("{proxy_url: 'http://proxy'}");
    refused::<DebugExporter>("{verbosity: loud}");
}

#[test]
fn values_of_headers_are_not_shown() {
    let config: OtlpGrpc = read("{endpoint: 'a:1', headers: {authorization: Bearer s3cret}}");
    let shown = format!("{config:?}");
    assert!(
        shown.contains("authorization") && !shown.contains("s3cret"),
        "{shown}"
    );
}
