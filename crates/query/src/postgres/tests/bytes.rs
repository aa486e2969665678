//! Bytes that are no messages, and messages that never come.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::client::{
    Client, VERSION, bind, connect, describe, execute, first, message, open, parse, serve, startup,
    sync,
};
use crate::tests::support::{config, fixture};

/// What is told to a client that sends this as its first bytes; the connection ends.
async fn told(address: std::net::SocketAddr, bytes: &[u8]) -> String {
    let mut client = Client::new(TcpStream::connect(address).await.unwrap());
    client.send(bytes).await;
    let mut told = String::new();
    while let Some(next) = client.next().await {
        told = next.shown();
    }
    told
}

#[tokio::test]
async fn a_first_message_that_is_none_ends_the_connection() {
    let served = open(fixture(&config()).await).await;
    let many = "a\0b\0".repeat(4_000);
    for (bytes, expected) in [
        (
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            "FATAL 08P01 the length of the first message",
        ),
        (
            &[0, 0, 0, 7, 0, 3, 0, 0],
            "FATAL 08P01 the length of the first message",
        ),
        (
            &[0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0],
            "FATAL 08P01 the length of the first message",
        ),
        (
            &[0xff, 0xff, 0xff, 0xff, 0, 3, 0, 0],
            "FATAL 08P01 the length of a message is negative",
        ),
        (&first(2 << 16, b"\0"), "FATAL 0A000 version 2"),
        (&first(VERSION, b"\0"), "FATAL 28000 no user"),
        (
            &first(VERSION, b"user\0me"),
            "FATAL 08P01 a message is shorter",
        ),
        (
            &first(VERSION, b"user\0\xff\0\0"),
            "FATAL 22021 a text is not UTF-8",
        ),
        (
            &first(VERSION, b"user\0me\0replication\0true\0\0"),
            "FATAL 0A000 there is no replication",
        ),
        (
            &first(VERSION, many.as_bytes()),
            "FATAL 08P01 the length of the first message",
        ),
    ] {
        let told = told(served.address, bytes).await;
        assert!(told.starts_with(expected), "{bytes:?}: {told}");
    }
    assert_eq!(
        connect(served.address).await.ask("SELECT 1").await,
        ["1", "SELECT 1"]
    );
}

#[tokio::test]
async fn a_message_that_is_none_ends_its_connection_alone() {
    let served = open(fixture(&config()).await).await;
    let mut other = connect(served.address).await;
    let huge = [b'Q', 0x7f, 0xff, 0xff, 0xff];
    for (bytes, expected) in [
        (
            &b"\x01\0\0\0\x04"[..],
            "FATAL 08P01 there is no message of kind 1",
        ),
        (
            &b"Q\0\0\0\x03"[..],
            "FATAL 08P01 the length of a message is less",
        ),
        (
            &b"Q\xff\xff\xff\xff"[..],
            "FATAL 08P01 the length of a message is negative",
        ),
        (&huge, "FATAL 54000 a message has 2147483647 bytes"),
        (
            &message('Q', b"SELECT 1"),
            "FATAL 08P01 a message is shorter",
        ),
        (
            &message('Q', b"SELECT 1\0x"),
            "FATAL 08P01 a message is longer",
        ),
        (&message('Q', b"SELECT '\xff'\0"), "FATAL 22021"),
        (
            &message('P', b"\0SELECT 1\0\xff\xff"),
            "FATAL 08P01 a message is shorter",
        ),
        (
            &message('B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff"),
            "FATAL 08P01 a message is shorter",
        ),
        (
            &message('D', b"X\0"),
            "FATAL 08P01 there is nothing of this kind",
        ),
        (
            &message('p', b"secret\0"),
            "FATAL 08P01 nobody asked for a password",
        ),
    ] {
        let mut client = connect(served.address).await;
        client.send(bytes).await;
        let told = client.next().await.unwrap().shown();
        assert!(told.starts_with(expected), "{bytes:?}: {told}");
        assert_eq!(client.next().await, None);
    }
    assert_eq!(other.ask("SELECT 1").await, ["1", "SELECT 1"]);
}

/// A conversation that is cut at every byte: no answer, no panic, and its place is free again.
#[tokio::test]
async fn a_conversation_may_end_at_every_byte() {
    let served = open(fixture(&config()).await).await;
    let mut all = startup();
    for message in [
        parse("s", "SELECT $1::bigint + 1", &[]),
        describe('S', "s"),
        bind("", "s", 1, &[Some(&7i64.to_be_bytes())], 1),
        describe('P', ""),
        execute("", 1),
        sync(),
        message('Q', b"SELECT 2\0"),
    ] {
        all.extend(message);
    }
    for end in 0..all.len() {
        let mut client = Client::new(TcpStream::connect(served.address).await.unwrap());
        client.send(&all[..end]).await;
        drop(client);
    }
    let mut client = Client::new(TcpStream::connect(served.address).await.unwrap());
    client.send(&all).await;
    client.ready().await;
    client.ready().await;
    assert_eq!(client.ready().await.len(), 4);
    drop(client);
    while served.connections.n_open() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_client_that_never_says_who_it_is_is_closed() {
    let served = open(fixture(&config()).await).await;
    let silent = [&b""[..], b"\0", &startup()[..20]].map(|begin| {
        let (begin, address) = (begin.to_vec(), served.address);
        tokio::spawn(async move {
            let mut client = Client::new(TcpStream::connect(address).await.unwrap());
            client.send(&begin).await;
            assert_eq!(client.next().await, None, "{begin:?}");
        })
    });
    // A byte now and then is not enough.
    let mut client = Client::new(TcpStream::connect(served.address).await.unwrap());
    for byte in startup() {
        if tokio::io::AsyncWriteExt::write_all(&mut client.stream, &[byte])
            .await
            .is_err()
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let mut rest = Vec::new();
    client.stream.read_to_end(&mut rest).await.ok();
    assert!(rest.is_empty(), "{rest:?}");
    for silent in silent {
        silent.await.unwrap();
    }
}

#[tokio::test]
async fn one_connection_too_many_is_told_so() {
    let fixture = fixture(&config()).await;
    let served = serve(fixture, transport::Door::default(), 1).await;
    let mut client = connect(served.address).await;
    let mut late = Client::new(TcpStream::connect(served.address).await.unwrap());
    let told = late.next().await.unwrap().shown();
    assert!(
        told.starts_with("FATAL 53300 too many connections"),
        "{told}"
    );
    assert_eq!(client.ask("SELECT 1").await, ["1", "SELECT 1"]);
}
