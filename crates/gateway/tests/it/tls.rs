//! C73 step by step: who gets through the handshakes of both receivers, also after files are replaced.

use std::{path::Path, time::Duration};

use gateway::Config;
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tonic::transport::Endpoint;
use tower::Service;
use transport::{
    Alpn, ClientTls, Connector, ServerTls, Stream,
    testing::{Authority, self_signed, write},
};

use crate::harness::{Fixture, TRACES, config, export_over, start_of, trace_export};

const RELOAD: Duration = Duration::from_millis(20);

/// The case's authorities, its server's files and its clients.
struct Case {
    folder: tempfile::TempDir,
    ca_1: Authority,
    ca_2: Authority,
    ca_new: Authority,
}

impl Case {
    fn new() -> Case {
        let case = Case {
            folder: tempfile::tempdir().unwrap(),
            ca_1: Authority::new("CA-1"),
            ca_2: Authority::new("CA-2"),
            ca_new: Authority::new("CA-new"),
        };
        case.ca_1.issue("server").write(case.path(), "server");
        case.bundle(&[&case.ca_1, &case.ca_2]);
        case
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self, name: &str) -> String {
        self.path().join(name).display().to_string()
    }

    /// Whose certificates clients may show.
    fn bundle(&self, authorities: &[&Authority]) {
        let pem: String = authorities.iter().map(|ca| ca.pem.as_str()).collect();
        write(self.path(), "clients-ca-bundle.crt", &pem);
    }

    fn config(&self) -> Config {
        let tls = ServerTls {
            cert_file: self.file("server.crt"),
            key_file: self.file("server.key"),
            client_ca_file: self.file("clients-ca-bundle.crt"),
            reload_interval: Some(RELOAD),
            ..ServerTls::default()
        };
        let mut config = config();
        config.otlp.protocols.grpc.as_mut().unwrap().tls = Some(tls.clone());
        config.otlp.protocols.http.as_mut().unwrap().tls = Some(tls);
        config
    }

    /// A client that trusts the server's authority, with the certificate of this name if it has one.
    fn client(&self, name: &str) -> ClientTls {
        let pair = match name {
            "none" => None,
            "client-1" => Some(self.ca_1.issue(name)),
            "client-2" => Some(self.ca_2.issue(name)),
            "client-x" => Some(self_signed(name)),
            _ => panic!("{name} is not in the case"),
        };
        let (cert_file, key_file) = pair
            .map(|pair| pair.write(self.path(), name))
            .unwrap_or_default();
        ClientTls {
            ca_file: write(self.path(), "server-ca.crt", &self.ca_1.pem),
            cert_file,
            key_file,
            ..ClientTls::default()
        }
    }
}

/// Exports on a new connection over each transport; what each has come to.
async fn export(gateway: &Fixture, tls: &ClientTls) -> [Result<(), String>; 2] {
    let said = |error: &dyn std::error::Error| format!("{error:?}");
    let connector = Connector::new("client", tls, Alpn::Http2OrHttp1).unwrap();
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let request = Request::post(format!("https://{}/v1/traces", gateway.http_addr()))
        .header("content-type", "application/x-protobuf")
        .body(Full::new(trace_export(1, 10)))
        .unwrap();
    let over_http = match client.request(request).await {
        Ok(answer) if answer.status() == StatusCode::OK => Ok(()),
        Ok(answer) => Err(answer.status().to_string()),
        Err(error) => Err(said(&error)),
    };
    let connector = Connector::new("client", tls, Alpn::Http2).unwrap();
    let addr = gateway.handle.grpc_addr.unwrap();
    let endpoint = Endpoint::from_shared(format!("https://{addr}")).unwrap();
    let channel = endpoint.connect_with_connector_lazy(connector);
    let exported = export_over(channel, TRACES, trace_export(2, 10), None).await;
    let over_grpc = exported.map(drop).map_err(|error| said(&error));
    [over_http, over_grpc]
}

async fn is_served(gateway: &Fixture, tls: &ClientTls) {
    let outcomes = export(gateway, tls).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

async fn is_refused(gateway: &Fixture, tls: &ClientTls) {
    let outcomes = export(gateway, tls).await;
    assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
}

/// Until both receivers do it: each looks at its files by itself.
async fn becomes(gateway: &Fixture, tls: &ClientTls, is_wanted: fn(&Result<(), String>) -> bool) {
    let asked = async {
        while !export(gateway, tls).await.iter().all(is_wanted) {
            tokio::time::sleep(RELOAD).await;
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(60), asked).await;
    within.expect("both receivers change within a minute");
}

/// Sends something that is not TLS and waits for the end.
async fn plaintext_is_refused(gateway: &Fixture) {
    let http2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let http1 = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    for addr in [gateway.http_addr(), gateway.handle.grpc_addr.unwrap()] {
        for bytes in [&http2[..], http1] {
            let mut socket = TcpStream::connect(addr).await.unwrap();
            socket.write_all(bytes).await.unwrap();
            let mut answer = Vec::new();
            let end = socket.read_to_end(&mut answer);
            let end = tokio::time::timeout(Duration::from_secs(60), end).await;
            end.expect("the connection is cut").ok();
            assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
        }
    }
}

/// A request on a connection that stays open.
async fn ask_again(stream: &mut Stream) {
    let request = b"GET /v1/traces HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"exports are sent by POST\"}") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 405"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn c73_only_certificates_of_the_bundle_are_let_in() {
    let case = Case::new();
    let gateway = Fixture::new(case.config()).await;
    is_refused(&gateway, &case.client("none")).await;
    is_served(&gateway, &case.client("client-1")).await;
    is_served(&gateway, &case.client("client-2")).await;
    is_refused(&gateway, &case.client("client-x")).await;
    plaintext_is_refused(&gateway).await;
    is_served(&gateway, &case.client("client-1")).await;

    let text = gateway.handle.metrics.render_prometheus();
    for transport in ["grpc", "http"] {
        for reason in ["no_certificate", "bad_certificate"] {
            let line = format!(
                "gateway_handshakes_failed_total{{transport=\"{transport}\",reason=\"{reason}\"}}"
            );
            let line = text.lines().find(|found| found.starts_with(&line)).unwrap();
            assert!(!line.ends_with(" 0"), "{line}");
        }
        let line = format!("{{transport=\"{transport}\",reason=\"not_tls\"}} 2\n");
        assert!(text.contains(&line), "{text}");
    }
}

/// The step with 200 silent connections, over TLS.
#[tokio::test(flavor = "multi_thread")]
async fn c73_silent_handshakes_end_and_nobody_waits_for_them() {
    let case = Case::new();
    let mut config = case.config();
    let protocols = &mut config.otlp.protocols;
    let limit = Duration::from_secs(3);
    for tls in [
        &mut protocols.grpc.as_mut().unwrap().tls,
        &mut protocols.http.as_mut().unwrap().tls,
    ] {
        tls.as_mut().unwrap().handshake_timeout = limit;
    }
    let gateway = Fixture::new(config).await;
    let client = case.client("client-1");
    for addr in [gateway.http_addr(), gateway.handle.grpc_addr.unwrap()] {
        let mut silent = Vec::new();
        for _ in 0..200 {
            silent.push(TcpStream::connect(addr).await.unwrap());
        }
        is_served(&gateway, &client).await;
        for socket in &mut silent {
            let mut rest = Vec::new();
            let end = tokio::time::timeout(Duration::from_secs(60), socket.read_to_end(&mut rest));
            end.await.expect("the connection is cut").ok();
        }
    }
    is_served(&gateway, &client).await;
    let text = gateway.handle.metrics.render_prometheus();
    for transport in ["grpc", "http"] {
        let line = format!("{{transport=\"{transport}\",reason=\"timed_out\"}} 200\n");
        assert!(text.contains(&line), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c73_replaced_files_are_used_for_new_connections() {
    let case = Case::new();
    let gateway = Fixture::new(case.config()).await;
    let (client_1, client_2) = (case.client("client-1"), case.client("client-2"));
    let mut connector = Connector::new("client", &client_1, Alpn::Http1).unwrap();
    let uri = format!("https://{}", gateway.http_addr());
    let old = connector.call(uri.parse().unwrap()).await.unwrap();
    let mut old = old.into_inner();
    ask_again(&mut old).await;

    // A new pair, of another authority: only who trusts that one sees it.
    let mut of_new = client_1.clone();
    of_new.ca_file = write(case.path(), "new-ca.crt", &case.ca_new.pem);
    is_refused(&gateway, &of_new).await;
    case.ca_new.issue("server").write(case.path(), "server");
    becomes(&gateway, &of_new, Result::is_ok).await;
    is_refused(&gateway, &client_1).await;
    ask_again(&mut old).await;

    write(case.path(), "server.key", "garbage");
    tokio::time::sleep(RELOAD * 5).await;
    is_served(&gateway, &of_new).await;

    // The pair is still broken; a good one takes over, and the bundle with it.
    case.ca_1.issue("server").write(case.path(), "server");
    becomes(&gateway, &client_2, Result::is_ok).await;
    case.bundle(&[&case.ca_1]);
    becomes(&gateway, &client_2, Result::is_err).await;
    is_served(&gateway, &client_1).await;
    ask_again(&mut old).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c73_mistakes_and_unreadable_files_stop_the_start() {
    let case = Case::new();
    let start = async |spoil: fn(&mut ServerTls)| {
        let mut config = case.config();
        let http = config.otlp.protocols.http.as_mut().unwrap();
        spoil(http.tls.as_mut().unwrap());
        let start = start_of(config, &case.folder, &Default::default());
        gateway::start(start)
            .await
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    for (spoil, words) in [
        (
            (|tls| tls.key_file.clear()) as fn(&mut ServerTls),
            "`receivers::otlp::protocols::http::tls::cert_file` needs `key_file`",
        ),
        (
            |tls| {
                tls.cert_file.clear();
                tls.key_file.clear();
            },
            "`receivers::otlp::protocols::http::tls::client_ca_file` needs `cert_file`",
        ),
        (
            |tls| tls.client_ca_file.push_str(".not"),
            "clients-ca-bundle.crt.not` (set by `receivers::otlp::protocols::http::tls::client_ca_file`)",
        ),
    ] {
        let text = start(spoil).await;
        assert!(text.contains(words), "{text}");
    }
}
