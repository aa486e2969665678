//! Who is let in: TLS that is asked for, tokens as passwords, clients' certificates.

use std::path::Path;
use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use tokio::net::TcpStream;
use transport::testing::{Authority, write};
use transport::{
    Alpn, Auth, Authenticators, BearerTokenAuth, ClientTls, Connector, Door, Secret, ServerTls,
};

use super::client::{Client, Served, first, message, serve, startup};
use crate::tests::support::{config, fixture};

const TLS: i32 = 80_877_103;
const GSS: i32 = 80_877_104;
const TOKEN: &str = "a-token-of-a-reader";

fn known() -> Authenticators {
    let settings = BearerTokenAuth {
        tokens: vec![Secret::new("another"), Secret::new(TOKEN)],
        ..BearerTokenAuth::default()
    };
    Authenticators([("bearertokenauth".to_owned(), settings)].into())
}

async fn guarded(tls: Option<&ServerTls>, is_asking: bool) -> Served {
    let auth = Auth {
        authenticator: "bearertokenauth".to_owned(),
    };
    let auth = is_asking.then_some(&auth);
    let door = Door::open("postgres", tls, auth, &known(), Alpn::Postgres).unwrap();
    serve(fixture(&config()).await, door, 100).await
}

fn server_tls(folder: &Path, authority: &Authority) -> ServerTls {
    let (cert_file, key_file) = authority.issue("server").write(folder, "server");
    ServerTls {
        cert_file,
        key_file,
        ..ServerTls::default()
    }
}

async fn plain(served: &Served) -> Client<TcpStream> {
    Client::new(TcpStream::connect(served.address).await.unwrap())
}

/// Asks for TLS; what is answered.
async fn ask_for_tls(client: &mut Client<TcpStream>) -> u8 {
    client.send(&first(TLS, b"")).await;
    tokio::io::AsyncReadExt::read_u8(&mut client.stream)
        .await
        .unwrap()
}

#[tokio::test]
async fn without_tls_it_is_refused_and_clear_text_goes_on() {
    let served = guarded(None, false).await;
    let mut client = plain(&served).await;
    client.send(&first(GSS, b"")).await;
    assert_eq!(
        tokio::io::AsyncReadExt::read_u8(&mut client.stream)
            .await
            .unwrap(),
        b'N'
    );
    assert_eq!(ask_for_tls(&mut client).await, b'N');
    client.send(&startup()).await;
    client.ready().await;
    assert_eq!(client.ask("SELECT 1").await, ["1", "SELECT 1"]);
}

#[tokio::test]
async fn with_tls_there_is_no_way_back_to_clear_text() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("ca");
    let served = guarded(Some(&server_tls(folder.path(), &authority)), false).await;
    let mut client = plain(&served).await;
    client.send(&startup()).await;
    let told = client.next().await.unwrap().shown();
    assert!(
        told.starts_with("FATAL 28000 this listener takes encrypted connections only"),
        "{told}"
    );
    assert_eq!(client.next().await, None);

    // Bytes in clear text behind the question are not taken for what comes after the handshake.
    let mut client = plain(&served).await;
    let mut bytes = first(TLS, b"");
    bytes.extend(startup());
    client.send(&bytes).await;
    let answer = tokio::io::AsyncReadExt::read_u8(&mut client.stream)
        .await
        .unwrap();
    assert_eq!(answer, b'S');
    assert!(client.next().await.is_none_or(|told| told.kind != 'R'));
}

#[tokio::test]
async fn a_certificate_that_cannot_be_read_is_an_error_at_the_start() {
    let tls = ServerTls {
        cert_file: "/nowhere/cert".to_owned(),
        key_file: "/nowhere/key".to_owned(),
        ..ServerTls::default()
    };
    let door = Door::open("postgres", Some(&tls), None, &known(), Alpn::Postgres);
    assert!(door.unwrap_err().to_string().contains("/nowhere/cert"));
}

/// The client's side of SCRAM, with a password.
async fn scram(client: &mut Client<TcpStream>, password: &str) -> String {
    use ring::{digest, hmac, pbkdf2};
    let told = client.next().await.unwrap();
    assert_eq!(told.body, b"\0\0\0\x0aSCRAM-SHA-256\0\0");
    let bare = "n=,r=nonce";
    let mut body = b"SCRAM-SHA-256\0".to_vec();
    let initial = format!("n,,{bare}");
    body.extend(i32::try_from(initial.len()).unwrap().to_be_bytes());
    body.extend(initial.as_bytes());
    client.send(&message('p', &body)).await;
    let told = client.next().await.unwrap();
    assert_eq!(told.body[..4], [0, 0, 0, 11]);
    let server = String::from_utf8(told.body[4..].to_vec()).unwrap();
    let attribute = |name: &str| {
        let found = server.split(',').find_map(|part| part.strip_prefix(name));
        found.unwrap().to_owned()
    };
    let salt = BASE64_STANDARD.decode(attribute("s=")).unwrap();
    let iterations = attribute("i=").parse().unwrap();
    let mut salted = [0; 32];
    pbkdf2::derive(
        pbkdf2::PBKDF2_HMAC_SHA256,
        iterations,
        &salt,
        password.as_bytes(),
        &mut salted,
    );
    let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    let client_key = sign(&salted, b"Client Key");
    let stored = digest::digest(&digest::SHA256, client_key.as_ref());
    let last = format!("c=biws,r={}", attribute("r="));
    let signature = sign(
        stored.as_ref(),
        format!("{bare},{server},{last}").as_bytes(),
    );
    let proof: Vec<u8> = client_key
        .as_ref()
        .iter()
        .zip(signature.as_ref())
        .map(|(a, b)| a ^ b)
        .collect();
    let last = format!("{last},p={}", BASE64_STANDARD.encode(proof));
    client.send(&message('p', last.as_bytes())).await;
    let told = client.next().await.unwrap();
    match told.kind {
        'R' => {
            assert_eq!(told.body[..4], [0, 0, 0, 12]);
            client.ready().await;
            "in".to_owned()
        }
        _ => told.shown(),
    }
}

#[tokio::test]
async fn a_token_is_proved_without_being_sent_where_nothing_is_encrypted() {
    let served = guarded(None, true).await;
    for (password, expected) in [
        (TOKEN, "in"),
        ("another", "in"),
        ("wrong", "FATAL 28P01"),
        ("", "FATAL 28P01"),
    ] {
        let mut client = plain(&served).await;
        client.send(&startup()).await;
        let told = scram(&mut client, password).await;
        assert!(told.starts_with(expected), "{password}: {told}");
    }
    // A statement instead of a proof.
    let mut client = plain(&served).await;
    client.send(&startup()).await;
    client.next().await.unwrap();
    client.send(&message('Q', b"SELECT 1\0")).await;
    assert!(
        client
            .next()
            .await
            .unwrap()
            .shown()
            .starts_with("FATAL 08P01 a password is expected")
    );
    assert!(
        served
            .connections
            .render(crate::Entrance::Postgres)
            .contains("query_unauthenticated_total{door=\"postgres\"} 3")
    );
}

/// Connects with TLS after asking for it, as drivers do.
async fn encrypted(served: &Served, tls: &ClientTls) -> Option<Client<transport::Stream>> {
    let mut client = plain(served).await;
    assert_eq!(ask_for_tls(&mut client).await, b'S');
    let connector = Connector::new("client", tls, Alpn::Postgres).unwrap();
    let stream = connector.encrypt(client.stream, "localhost").await.ok()?;
    Some(Client::new(stream))
}

#[tokio::test]
async fn inside_tls_the_token_is_the_password_and_certificates_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("ca");
    let ca_file = write(folder.path(), "ca.crt", &authority.pem);
    let tls = ServerTls {
        client_ca_file: ca_file.clone(),
        ..server_tls(folder.path(), &authority)
    };
    let served = guarded(Some(&tls), true).await;
    let (cert_file, key_file) = authority.issue("client").write(folder.path(), "client");
    let trusting = ClientTls {
        ca_file,
        ..ClientTls::default()
    };
    let proving = ClientTls {
        cert_file,
        key_file,
        ..trusting.clone()
    };
    for (password, expected) in [(TOKEN, "R"), ("wrong", "FATAL 28P01")] {
        let mut client = encrypted(&served, &proving).await.unwrap();
        client.send(&startup()).await;
        assert_eq!(client.next().await.unwrap().body, [0, 0, 0, 3]);
        client
            .send(&message('p', format!("{password}\0").as_bytes()))
            .await;
        let told = client.next().await.unwrap().shown();
        assert!(told.starts_with(expected), "{password}: {told}");
    }
    // Without a certificate the handshake may seem to be over, and nothing comes after it.
    if let Some(mut client) = encrypted(&served, &trusting).await {
        tokio::io::AsyncWriteExt::write_all(&mut client.stream, &startup())
            .await
            .ok();
        assert_eq!(client.next().await, None);
    }
    drop(Arc::new(served));
}
