//! First tiers in front of servers that fail as told, and of whole gateways.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::BoxFuture;
use otlp::testing::{TimeSpan, trace};
use transport::Authenticators;

use super::{Balanced, Loadbalancing, Lookup, REQUESTS_AHEAD, SystemLookup};
use crate::{
    export::{
        Destination, Exporter, Otlp,
        config::OtlpGrpc,
        tests::{AT_ONCE, Gateway, eventually},
    },
    testing::Backend,
};

const INSECURE: &str = "protocol: {otlp: {tls: {insecure: true}, timeout: 500ms, retry_on_failure: \
     {initial_interval: 20ms, max_interval: 20ms, randomization_factor: 0, max_elapsed_time: 0s}}}";

fn read(yaml: &str) -> Loadbalancing {
    serde_saphyr::from_str(yaml).unwrap()
}

fn fixed(hostnames: &[String]) -> Loadbalancing {
    let hostnames = hostnames.join("', '");
    read(&format!(
        "{{{INSECURE}, resolver: {{static: {{hostnames: ['{hostnames}']}}}}}}"
    ))
}

fn exporter(config: &Loadbalancing, lookup: Arc<dyn Lookup>) -> Exporter {
    let balanced = Balanced::new(config, &Authenticators::default(), lookup).unwrap();
    Exporter {
        id: "loadbalancing".to_owned(),
        destination: Destination::Balanced(balanced),
        request_max: (1 << 20, 10),
        n_requests_max: REQUESTS_AHEAD,
        rewrite: None,
    }
}

/// Spans `ids` of each trace; the first is its root.
fn exports(
    traces: std::ops::Range<u32>,
    ids: std::ops::Range<u32>,
) -> impl Iterator<Item = Vec<u8>> {
    traces.map(move |n| {
        let mut export = trace(n);
        for id in ids.clone() {
            export = export.span("span", 5.ms()).id(id);
            export = if id == 1 {
                export.root()
            } else {
                export.parent(1)
            };
        }
        export.build()
    })
}

/// How many spans of each trace a server has.
fn spans_of(backend: &Backend) -> BTreeMap<String, usize> {
    let mut n_of = BTreeMap::new();
    for ((trace, _), n_times) in backend.spans() {
        assert_eq!(n_times, 1, "of {trace}");
        *n_of.entry(trace).or_default() += 1;
    }
    n_of
}

fn check_shares(backends: [&Backend; 2], n_traces: usize, n_spans_each: usize) {
    let [a, b] = backends.map(spans_of);
    let (a_has, b_has): (BTreeSet<_>, BTreeSet<_>) = (a.keys().collect(), b.keys().collect());
    assert!(a_has.is_disjoint(&b_has), "a trace is on one of them");
    assert_eq!(a.len() + b.len(), n_traces);
    assert!(a.len() > n_traces / 5 && b.len() > n_traces / 5);
    assert!(a.values().chain(b.values()).all(|n| *n == n_spans_each));
}

fn n_spans(backend: &Backend) -> usize {
    backend.spans().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_span_of_a_trace_reaches_the_same_of_two_gateways_and_late_ones_too() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let (mut tier, mut behind) = (Vec::new(), Vec::new());
    for folder in &folders[1..] {
        let backend = Backend::start().await.unwrap();
        let grpc = OtlpGrpc {
            endpoint: format!("http://{}", backend.addr()),
            ..OtlpGrpc::default()
        };
        let client = grpc.client(&Authenticators::default()).unwrap();
        let exporter = Exporter {
            id: "otlp".to_owned(),
            destination: Destination::Otlp(Box::new(Otlp::new(client, AT_ONCE))),
            request_max: (1 << 20, 100),
            n_requests_max: 1,
            rewrite: None,
        };
        tier.push(Gateway::start(folder.path(), vec![exporter]).await);
        behind.push(backend);
    }
    let hostnames = [0, 1].map(|idx: usize| tier[idx].handle.grpc_addr.unwrap().to_string());
    let config = fixed(&hostnames);
    let balanced = exporter(&config, Arc::new(SystemLookup));
    let first = Gateway::start(folders[0].path(), vec![balanced]).await;
    first.send_all(exports(1..41, 2..4)).await;
    first.send_all(exports(1..41, 1..2)).await;
    first.pass(10);
    let n_in = |n_spans: u64| {
        let received = |gateway: &Gateway| gateway.handle.metrics.conservation().received.n_spans;
        tier.iter().map(received).sum::<u64>() == n_spans
    };
    eventually("the tier has whole traces", || n_in(120)).await;
    first.send_all(exports(1..41, 4..5)).await;
    eventually("the tier has late spans", || n_in(160)).await;
    tier.iter().for_each(|gateway| gateway.pass(60));
    let n_behind = || behind.iter().map(n_spans).sum::<usize>();
    eventually("all of it is decided", || n_behind() == 160).await;
    check_shares([&behind[0], &behind[1]], 40, 4);
    for gateway in tier.iter().chain([&first]) {
        gateway.handle.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_is_down_gets_its_share_afterwards_and_the_other_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (
        Backend::start().await.unwrap(),
        Backend::start().await.unwrap(),
    );
    let config = fixed(&[a.addr().to_string(), b.addr().to_string()]);
    let balanced = || exporter(&config, Arc::new(SystemLookup));
    let gateway = Gateway::start(folder.path(), vec![balanced()]).await;
    b.down();
    gateway.send_all(exports(1..61, 1..3)).await;
    eventually("the other has its share", || n_spans(&a) > 20).await;
    b.up().await.unwrap();
    eventually("all is there", || n_spans(&a) + n_spans(&b) == 120).await;
    check_shares([&a, &b], 60, 2);
    gateway.handle.shutdown().await.unwrap();
}

/// Addresses as told; an error where nothing is.
#[derive(Clone, Debug, Default)]
struct Told(Arc<Mutex<Option<Vec<IpAddr>>>>);

impl Told {
    fn tell(&self, last_bytes: Option<&[u8]>) {
        let addr = |last: &u8| IpAddr::V4(Ipv4Addr::new(127, 0, 0, *last));
        *self.0.lock().unwrap() = last_bytes.map(|bytes| bytes.iter().map(addr).collect());
    }
}

impl Lookup for Told {
    fn lookup(&self, hostname: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        assert_eq!(hostname, "tier");
        let told = self.0.lock().unwrap().clone();
        Box::pin(async move { told.ok_or_else(|| io::Error::other("no such name")) })
    }
}

fn dns(port: u16) -> Loadbalancing {
    read(&format!(
        "{{{INSECURE}, resolver: {{dns: {{hostname: tier, port: {port}, interval: 10ms}}}}}}"
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_backend_that_leaves_goes_to_those_that_stay() {
    let folder = tempfile::tempdir().unwrap();
    let stays = Backend::start().await.unwrap();
    let told = Told::default();
    let config = dns(stays.addr().port());
    let balanced = exporter(&config, Arc::new(told.clone()));
    let gateway = Gateway::start(folder.path(), vec![balanced]).await;
    // Before the name is known everything waits.
    gateway.send_all(exports(1..21, 1..3)).await;
    assert_eq!(n_spans(&stays), 0);
    // Nobody listens at the second.
    told.tell(Some(&[2, 1]));
    eventually("its share arrives", || n_spans(&stays) > 4).await;
    told.tell(None);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(n_spans(&stays) < 40, "a look-up that fails changes nothing");
    told.tell(Some(&[1]));
    eventually("the rest arrives", || n_spans(&stays) == 40).await;
    assert!(spans_of(&stays).values().all(|n| *n == 2));
    gateway.handle.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_looked_up_again_and_again_and_backends_that_stay_are_the_same() {
    let told = Told::default();
    told.tell(Some(&[9, 1, 10, 1]));
    let lookup = Arc::new(told.clone());
    let balanced = Balanced::new(&dns(4317), &Authenticators::default(), lookup).unwrap();
    eventually("the first", || {
        balanced.endpoints() == ["127.0.0.10:4317", "127.0.0.1:4317", "127.0.0.9:4317"]
    })
    .await;
    told.tell(Some(&[]));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(balanced.endpoints().len(), 3);
    told.tell(Some(&[11, 9]));
    eventually("the second", || {
        balanced.endpoints() == ["127.0.0.11:4317", "127.0.0.9:4317"]
    })
    .await;
}

#[test]
fn an_address_is_written_as_the_collector_writes_it() {
    let v6 = IpAddr::V6("fd00::1".parse().unwrap());
    let dns = |yaml| read(yaml).resolver.dns.unwrap();
    let without = dns("{resolver: {dns: {hostname: tier}}}");
    assert_eq!(
        without.endpoint(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        "127.0.0.1"
    );
    let with = dns("{resolver: {dns: {hostname: tier, port: '4319'}}}");
    assert_eq!(with.endpoint(v6), "[fd00::1]:4319");
    assert_eq!(with.interval(), Duration::from_secs(5));
    for (endpoint, connected) in [
        ("gateway-0", "gateway-0:4317"),
        ("gateway-0:55", "gateway-0:55"),
        ("[fd00::1]", "[fd00::1]:4317"),
        ("[fd00::1]:55", "[fd00::1]:55"),
    ] {
        assert_eq!(
            Loadbalancing::default().backend(endpoint).endpoint,
            connected
        );
    }
}

#[test]
fn what_cannot_be_used_says_what_to_use_instead() {
    for (yaml, expected) in [
        ("{}", "`resolver` is missing"),
        (
            "{resolver: {static: {hostnames: []}}}",
            "at least one backend",
        ),
        (
            "{resolver: {static: {hostnames: [a, 'b/c']}}}",
            "hostnames[1]` must be `host`",
        ),
        (
            "{resolver: {dns: {port: 4317}}}",
            "`resolver::dns::hostname` is missing",
        ),
        (
            "{resolver: {static: {hostnames: [a]}, dns: {hostname: b}}}",
            "must be one",
        ),
        ("{resolver: {k8s: {service: a.b}}}", "headless service"),
        ("{resolver: {aws_cloud_map: {namespace: a}}}", "use `dns`"),
        (
            "{routing_key: service, resolver: {static: {hostnames: [a]}}}",
            "only `traceID`",
        ),
        (
            "{routing_attributes: [a], resolver: {static: {hostnames: [a]}}}",
            "leave it out",
        ),
    ] {
        let error = read(yaml).validate(&Authenticators::default()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(expected), "{yaml}: {error}");
    }
    for port in ["0", "65536", "otlp", "-1"] {
        let yaml = format!("{{resolver: {{dns: {{hostname: a, port: {port}}}}}}}");
        assert!(
            serde_saphyr::from_str::<Loadbalancing>(&yaml).is_err(),
            "{port}"
        );
    }
    let all = "{routing_key: traceID, timeout: 10s, protocol: {otlp: {endpoint: x, compression: none}}, \
        resolver: {dns: {hostname: a, port: '4317', interval: 1m, timeout: 2s}}}";
    read(all).validate(&Authenticators::default()).unwrap();
    assert_eq!(read(all).unused(), ["timeout", "protocol::otlp::endpoint"]);
}
