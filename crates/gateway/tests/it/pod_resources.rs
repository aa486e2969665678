//! Scenario: a kubelet is asked over a Unix socket: a real gRPC server that says other things with time, one that is not
//! there yet, and peers that are anything but a kubelet.
//!
//! Guarantee: what is seen is in a release like a report that was sent, when it is another than before and not each time;
//! each fault is counted under its name; the gateway goes on.

use std::{
    convert::Infallible,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, BufMut};
use gateway::pod_resources::{Config, Receiver};
use reports::{
    Kind, Message, ReportPlacementsRequest,
    pod_resources::{
        ContainerDevices, ContainerResources, ListPodResourcesRequest, ListPodResourcesResponse,
        PodResources,
    },
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
};
use tonic::{
    Code, Request, Response, Status,
    body::Body,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    server::{Grpc, NamedService, UnaryService},
};

use crate::harness::{Fixture, T0, config, eventually, start_of};

const UUID: &str = "GPU-0a1b2c3d-0001-4000-8000-000000000001";
const OTHER_UUID: &str = "GPU-0a1b2c3d-0001-4000-8000-000000000002";

/// What the kubelet says, until it is told to say something else.
type Says = Arc<Mutex<Result<ListPodResourcesResponse, Code>>>;

fn pods(pods: &[(&str, &[&str])]) -> ListPodResourcesResponse {
    let pod = |(name, ids): &(&str, &[&str])| {
        let devices = ContainerDevices {
            resource_name: "nvidia.com/gpu".to_owned(),
            device_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        };
        let container = ContainerResources {
            name: "vllm".to_owned(),
            devices: vec![devices],
            dynamic_resources: Vec::new(),
        };
        PodResources {
            name: (*name).to_owned(),
            namespace: "llm-serving".to_owned(),
            containers: vec![container],
        }
    };
    ListPodResourcesResponse {
        pod_resources: pods.iter().map(pod).collect(),
    }
}

/// The kubelet's service on tonic's server.
#[derive(Clone)]
struct Kubelet(Says);

impl NamedService for Kubelet {
    const NAME: &'static str = "v1.PodResourcesLister";
}

impl UnaryService<ListPodResourcesRequest> for Kubelet {
    type Response = ListPodResourcesResponse;
    type Future = std::future::Ready<Result<Response<ListPodResourcesResponse>, Status>>;

    fn call(&mut self, _request: Request<ListPodResourcesRequest>) -> Self::Future {
        let says = self.0.lock().unwrap().clone();
        let says = says.map(Response::new);
        std::future::ready(says.map_err(|code| Status::new(code, "not now")))
    }
}

impl tower::Service<http::Request<Body>> for Kubelet {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let kubelet = self.clone();
        Box::pin(async move {
            if request.uri().path() != "/v1.PodResourcesLister/List" {
                return Ok(Status::unimplemented("no such method").into_http());
            }
            Ok(Grpc::new(Messages).unary(kubelet, request).await)
        })
    }
}

/// prost's messages.
#[derive(Clone, Copy, Default)]
struct Messages;

impl Codec for Messages {
    type Encode = ListPodResourcesResponse;
    type Decode = ListPodResourcesRequest;
    type Encoder = Messages;
    type Decoder = Messages;

    fn encoder(&mut self) -> Messages {
        Messages
    }

    fn decoder(&mut self) -> Messages {
        Messages
    }
}

impl Encoder for Messages {
    type Item = ListPodResourcesResponse;
    type Error = Status;

    fn encode(&mut self, item: Self::Item, dst: &mut EncodeBuf<'_>) -> Result<(), Status> {
        dst.put_slice(&item.encode_to_vec());
        Ok(())
    }
}

impl Decoder for Messages {
    type Item = ListPodResourcesRequest;
    type Error = Status;

    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        let bytes = src.copy_to_bytes(src.remaining());
        let request = ListPodResourcesRequest::decode(bytes);
        request
            .map(Some)
            .map_err(|error| Status::internal(error.to_string()))
    }
}

/// Serves the kubelet's service on a socket.
fn serve(socket: &Path, says: &Says) {
    let listener = UnixListener::bind(socket).unwrap();
    let incoming = futures::stream::unfold(listener, |listener| async {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        Some((accepted, listener))
    });
    let server = tonic::transport::Server::builder().add_service(Kubelet(Arc::clone(says)));
    tokio::spawn(async move { server.serve_with_incoming(Box::pin(incoming)).await });
}

/// Whoever connects gets these bytes once it has said something, and then nothing; the connection is closed, or held.
fn answering(socket: &Path, bytes: Vec<u8>, is_held: bool) {
    let listener = UnixListener::bind(socket).unwrap();
    tokio::spawn(async move {
        let mut held: Vec<UnixStream> = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 24];
            stream.read_exact(&mut head).await.ok();
            stream.write_all(&bytes).await.ok();
            if is_held {
                held.push(stream);
            }
        }
    });
}

fn receiver(id: &str, socket: PathBuf) -> Receiver {
    Receiver {
        id: id.to_owned(),
        config: Config {
            socket,
            interval: Duration::from_secs(1),
            timeout: Duration::from_millis(500),
            node: "gpu-node-01".to_owned(),
            answer_bytes_max: 64 << 10,
            ..Config::default()
        },
    }
}

async fn start(folder: TempDir, receivers: Vec<Receiver>) -> Fixture {
    let now = Arc::new(std::sync::atomic::AtomicU64::new(T0));
    let mut start = start_of(config(), &folder, &now);
    start.pod_resources = receivers;
    Fixture::of(start, folder, now).await
}

/// `(when, unchanged until, pod -> device)` of the next report.
async fn next_report(gateway: &mut Fixture) -> (u64, Option<u64>, Vec<String>) {
    loop {
        let release = gateway.next_release().await;
        let mut reports = release.reports.into_iter();
        let Some(report) = reports.next() else {
            continue;
        };
        assert_eq!(report.kind, Kind::Placements);
        assert!(reports.next().is_none(), "one look, one report");
        let request = ReportPlacementsRequest::decode(report.record.body()).unwrap();
        let observation = request.observation.unwrap();
        assert_eq!(observation.node, "gpu-node-01");
        let placements = request.placements.iter();
        let held = placements.map(|placement| {
            let worker = placement.worker.clone().unwrap_or_default();
            let (pod, uuid) = (worker.pod, &placement.gpu_uuid);
            format!("{pod} {uuid}{}", placement.device_name)
        });
        return (
            observation.observed_unix_nano,
            observation.unchanged_until_unix_nano,
            held.collect(),
        );
    }
}

fn value(gateway: &Fixture, line: &str) -> u64 {
    let page = gateway.handle.metrics.render_prometheus();
    let rest = page.lines().find_map(|found| found.strip_prefix(line));
    rest.map_or(0, |rest| rest.trim().parse().unwrap())
}

fn looks(receiver: &str, result: &str) -> String {
    format!("gateway_pod_resources_looks_total{{receiver=\"{receiver}\",result=\"{result}\"}}")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_is_reported_and_what_does_not_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kubelet.sock");
    let says: Says = Arc::new(Mutex::new(Ok(pods(&[("a", &[UUID])]))));
    serve(&socket, &says);
    let mut gateway = start(folder, vec![receiver("pod_resources", socket)]).await;
    let ok = looks("pod_resources", "ok");
    let first = next_report(&mut gateway).await;
    assert_eq!(first, (T0, None, vec![format!("a {UUID}")]));
    gateway.advance(10);
    // Looks that see the same.
    let n_looks = value(&gateway, &ok);
    eventually(async || (value(&gateway, &ok) > n_looks + 1).then_some(())).await;
    let reports = "gateway_pod_resources_reports_total{receiver=\"pod_resources\"}";
    assert_eq!(value(&gateway, reports), 1);
    let moved = pods(&[("a", &[OTHER_UUID]), ("b", &["nvidia0::3", "nvidia0"])]);
    *says.lock().unwrap() = Ok(moved);
    let (_, unchanged_until, held) = next_report(&mut gateway).await;
    assert_eq!(unchanged_until, Some(T0 + 10_000_000_000));
    assert_eq!(held, [format!("a {OTHER_UUID}"), "b nvidia0".to_owned()]);
    *says.lock().unwrap() = Ok(pods(&[]));
    assert_eq!(next_report(&mut gateway).await.2, [""; 0]);
    assert_eq!(
        value(
            &gateway,
            "gateway_pod_resources_up{receiver=\"pod_resources\"}"
        ),
        1
    );
    // A kubelet that limits its callers is asked again.
    *says.lock().unwrap() = Err(Code::ResourceExhausted);
    let refused = looks("pod_resources", "status");
    eventually(async || (value(&gateway, &refused) > 0).then_some(())).await;
    *says.lock().unwrap() = Ok(pods(&[("c", &[UUID])]));
    assert_eq!(next_report(&mut gateway).await.2, [format!("c {UUID}")]);
    gateway.handle.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_comes_later_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kubelet.sock");
    let mut gateway = start(folder, vec![receiver("pod_resources", socket.clone())]).await;
    let missing = looks("pod_resources", "no_socket");
    eventually(async || (value(&gateway, &missing) > 0).then_some(())).await;
    let says: Says = Arc::new(Mutex::new(Ok(pods(&[("a", &[UUID])]))));
    serve(&socket, &says);
    assert_eq!(next_report(&mut gateway).await.2, [format!("a {UUID}")]);
    gateway.handle.shutdown().await.unwrap();
}

/// HTTP/2 frame of this type for this stream.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [
        length[1], length[2], length[3], kind, flags, 0, 0, 0, stream,
    ];
    [&head[..], payload].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_answers_on_the_socket_the_gateway_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    answering(&path("garbage"), vec![0xa5; 4096], false);
    answering(&path("http1"), b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), false);
    answering(&path("silent"), Vec::new(), true);
    // Settings, and then nothing.
    answering(&path("stall"), frame(4, 0, 0, &[]), true);
    std::fs::write(path("file"), b"no socket").unwrap();
    let huge: Vec<String> = (0..10_000).map(|n| format!("{UUID}::{n}")).collect();
    let huge: Vec<&str> = huge.iter().map(String::as_str).collect();
    let says: Says = Arc::new(Mutex::new(Ok(pods(&[("a", &huge)]))));
    serve(&path("huge"), &says);
    let long = "n".repeat(2000);
    let says: Says = Arc::new(Mutex::new(Ok(pods(&[(&long, &[UUID])]))));
    serve(&path("long"), &says);
    let expected = [
        ("garbage", "no_answer"),
        ("http1", "no_answer"),
        ("silent", "timeout"),
        ("stall", "timeout"),
        ("file", "no_answer"),
        ("huge", "too_large"),
        ("long", "broken"),
    ];
    let receivers = expected.map(|(name, _)| receiver(name, path(name)));
    let gateway = start(folder, receivers.to_vec()).await;
    for (name, result) in expected {
        let line = looks(name, result);
        eventually(async || (value(&gateway, &line) > 0).then_some(())).await;
        assert_eq!(value(&gateway, &looks(name, "ok")), 0, "{name}");
    }
    let entries = gateway.handle.metrics.report_entries();
    assert_eq!(entries.received, 0);
    gateway.handle.shutdown().await.unwrap();
}
