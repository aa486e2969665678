//! Who gets through a handshake, before and after files are replaced.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tower_service::Service;

use crate::{
    Acceptor, Alpn, ClientTls, Connector, HandshakeFailure, HandshakeFailures, Listener, ServerTls,
    testing::{Authority, self_signed, write},
};

/// A listener that answers each connection with one byte.
struct Echo {
    port: u16,
    failures: Arc<HandshakeFailures>,
}

async fn echo(tls: &ServerTls) -> Echo {
    let acceptor = Acceptor::open("tls", tls, Alpn::Http2OrHttp1).unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let failures = Arc::<HandshakeFailures>::default();
    let mut listener = Listener::new(socket, Some(Arc::new(acceptor)), Arc::clone(&failures));
    tokio::spawn(async move {
        loop {
            let (mut stream, _peer) = listener.accept().await;
            tokio::spawn(async move {
                let byte = stream.read_u8().await?;
                stream.write_u8(byte).await
            });
        }
    });
    Echo { port, failures }
}

impl Echo {
    /// One byte there and back.
    async fn ask(&self, tls: &ClientTls) -> Result<(), String> {
        let mut connector = Connector::new("client", tls, Alpn::Http2OrHttp1).unwrap();
        let uri = format!("https://127.0.0.1:{}", self.port);
        let stream = connector.call(uri.parse().unwrap()).await;
        let mut stream = stream
            .map_err(|error| crate::watched::chain(&error))?
            .into_inner();
        let asked = async {
            stream.write_u8(7).await?;
            stream.read_u8().await
        };
        asked.await.map(drop).map_err(|error| error.to_string())
    }

    fn count(&self, reason: HandshakeFailure) -> u64 {
        let mut counts = self.failures.counts();
        counts.find(|(known, _)| *known == reason).unwrap().1
    }

    /// Asks until the answer is as wanted; fails after a minute.
    async fn eventually(&self, tls: &ClientTls, is_wanted: bool) {
        let asked = async {
            while self.ask(tls).await.is_ok() != is_wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let within = tokio::time::timeout(Duration::from_secs(60), asked).await;
        within.expect("it changes within a minute");
    }
}

fn server(folder: &Path, authority: &Authority) -> ServerTls {
    let (cert_file, key_file) = authority.issue("server").write(folder, "server");
    ServerTls {
        cert_file,
        key_file,
        reload_interval: Some(Duration::from_millis(10)),
        ..ServerTls::default()
    }
}

fn client(folder: &Path, authority: &Authority) -> ClientTls {
    ClientTls {
        ca_file: write(folder, "ca.crt", &authority.pem),
        ..ClientTls::default()
    }
}

#[tokio::test]
async fn a_client_trusts_the_authority_it_is_told_of_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("one");
    let echo = echo(&server(folder.path(), &authority)).await;
    let mut tls = client(folder.path(), &authority);
    echo.ask(&tls).await.unwrap();

    tls.ca_file = write(folder.path(), "other.crt", &Authority::new("other").pem);
    let error = echo.ask(&tls).await.unwrap_err();
    assert!(error.contains("UnknownIssuer"), "{error}");
    tls.insecure_skip_verify = true;
    echo.ask(&tls).await.unwrap();

    let mut tls = client(folder.path(), &authority);
    tls.server_name_override = "elsewhere".to_owned();
    let error = echo.ask(&tls).await.unwrap_err();
    assert!(error.contains("not valid for name"), "{error}");
    tls.server_name_override = "localhost".to_owned();
    echo.ask(&tls).await.unwrap();
}

#[tokio::test]
async fn versions_without_overlap_do_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("one");
    let mut settings = server(folder.path(), &authority);
    settings.min_version = "1.3".to_owned();
    let echo = echo(&settings).await;
    let mut tls = client(folder.path(), &authority);
    tls.max_version = "1.2".to_owned();
    echo.ask(&tls).await.unwrap_err();
    assert_eq!(echo.count(HandshakeFailure::NothingInCommon), 1);
    tls.max_version.clear();
    echo.ask(&tls).await.unwrap();
}

#[tokio::test]
async fn a_pair_that_does_not_match_is_not_taken_and_the_next_good_one_is() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let echo = echo(&server(folder.path(), &old)).await;
    let (of_old, mut of_new) = (client(folder.path(), &old), ClientTls::default());
    of_new.ca_file = write(folder.path(), "new.crt", &new.pem);

    let pair = new.issue("server");
    write(folder.path(), "server.crt", &pair.cert);
    for garbage in ["garbage", "", "-----BEGIN PRIVATE KEY-----\nAAAA\n"] {
        write(folder.path(), "server.key", garbage);
        tokio::time::sleep(Duration::from_millis(50)).await;
        echo.ask(&of_old).await.unwrap();
    }
    write(folder.path(), "server.key", &pair.key);
    echo.eventually(&of_new, true).await;
    echo.ask(&of_old).await.unwrap_err();
}

#[tokio::test]
async fn each_way_to_fail_has_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("one");
    let mut settings = server(folder.path(), &authority);
    settings.client_ca_file = write(folder.path(), "clients.crt", &authority.pem);
    settings.handshake_timeout = Duration::from_millis(200);
    let echo = echo(&settings).await;
    let mut tls = client(folder.path(), &authority);
    echo.ask(&tls).await.unwrap_err();
    (tls.cert_file, tls.key_file) = self_signed("x").write(folder.path(), "x");
    echo.ask(&tls).await.unwrap_err();
    (tls.cert_file, tls.key_file) = authority.issue("y").write(folder.path(), "y");
    echo.ask(&tls).await.unwrap();
    tls.ca_file = write(folder.path(), "other.crt", &Authority::new("other").pem);
    echo.ask(&tls).await.unwrap_err();

    let mut rest = Vec::new();
    let address = ("127.0.0.1", echo.port);
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    plain.read_to_end(&mut rest).await.ok();
    let mut silent = TcpStream::connect(address).await.unwrap();
    silent.read_to_end(&mut rest).await.ok();
    drop(TcpStream::connect(address).await.unwrap());

    let broken = HandshakeFailure::Broken;
    let counted = async {
        while echo.count(broken) == 0 {
            tokio::task::yield_now().await;
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(60), counted).await;
    within.expect("it is counted within a minute");
    let counts: Vec<_> = echo.failures.counts().collect();
    let expected = [
        (HandshakeFailure::TimedOut, 1),
        (HandshakeFailure::NotTls, 1),
        (HandshakeFailure::NoCertificate, 1),
        (HandshakeFailure::BadCertificate, 1),
        (HandshakeFailure::RefusedByPeer, 1),
        (HandshakeFailure::NothingInCommon, 0),
        (broken, 1),
        (HandshakeFailure::TooMany, 0),
    ];
    assert_eq!(counts, expected);
}
