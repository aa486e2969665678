//! A client of Postgres that sends what it is told, and reads what comes.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use transport::{Door, HandshakeFailures};

use crate::metrics::Connections;
use crate::postgres::Server;
use crate::tests::support::Fixture;

/// A listener over a fixture, which ends with the test.
pub(super) struct Served {
    pub(super) fixture: Fixture,
    pub(super) address: SocketAddr,
    pub(super) connections: Arc<Connections>,
}

pub(super) async fn serve(fixture: Fixture, door: Door, connections_max: usize) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::<Connections>::default();
    let server = Server::new(
        Arc::clone(&fixture.engine),
        door,
        connections_max.try_into().unwrap(),
        Arc::clone(&connections),
        Arc::<HandshakeFailures>::default(),
    );
    tokio::spawn(server.serve(listener, std::future::pending()));
    Served {
        fixture,
        address,
        connections,
    }
}

pub(super) async fn open(fixture: Fixture) -> Served {
    serve(fixture, Door::default(), 100).await
}

/// One message of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) kind: char,
    pub(super) body: Vec<u8>,
}

impl Told {
    /// A field of an error or a warning.
    pub(super) fn field(&self, name: u8) -> String {
        let mut fields = self.body.split(|byte| *byte == 0);
        let found = fields.find(|field| field.first() == Some(&name));
        let found = found.and_then(|field| field.get(1..)).unwrap_or_default();
        String::from_utf8(found.to_vec()).unwrap()
    }

    /// The values of a row, as text; `None` is NULL.
    pub(super) fn values(&self) -> Vec<Option<String>> {
        assert_eq!(self.kind, 'D');
        let count = i16::from_be_bytes([self.body[0], self.body[1]]);
        let (mut values, mut at) = (Vec::new(), 2);
        for _ in 0..count {
            let length = i32::from_be_bytes(self.body[at..at + 4].try_into().unwrap());
            at += 4;
            values.push(usize::try_from(length).ok().map(|length| {
                let value = self.body[at..at + length].to_vec();
                at += length;
                String::from_utf8(value).unwrap()
            }));
        }
        assert_eq!(at, self.body.len());
        values
    }

    /// What a description says: names and numbers of types.
    pub(super) fn columns(&self) -> Vec<(String, u32)> {
        assert_eq!(self.kind, 'T');
        let mut rest = &self.body[2..];
        let mut columns = Vec::new();
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == 0).unwrap();
            let name = String::from_utf8(rest[..end].to_vec()).unwrap();
            let oid = u32::from_be_bytes(rest[end + 7..end + 11].try_into().unwrap());
            columns.push((name, oid));
            rest = &rest[end + 19..];
        }
        columns
    }

    /// Short text for comparing.
    pub(super) fn shown(&self) -> String {
        match self.kind {
            'D' => {
                let values = self.values().into_iter();
                let values = values.map(|value| value.unwrap_or("NULL".to_owned()));
                values.collect::<Vec<_>>().join("|")
            }
            'E' | 'N' => format!(
                "{} {} {}",
                self.field(b'S'),
                self.field(b'C'),
                self.field(b'M')
            ),
            'C' => String::from_utf8_lossy(&self.body)
                .trim_end_matches('\0')
                .to_owned(),
            kind => kind.to_string(),
        }
    }
}

pub(super) struct Client<S> {
    pub(super) stream: S,
    pub(super) process: i32,
    pub(super) secret: i32,
}

/// A message with its kind and length.
pub(super) fn message(kind: char, body: &[u8]) -> Vec<u8> {
    let mut out = vec![u8::try_from(kind).unwrap()];
    out.extend(i32::try_from(body.len() + 4).unwrap().to_be_bytes());
    out.extend(body);
    out
}

/// A first message: its code and what follows.
pub(super) fn first(code: i32, body: &[u8]) -> Vec<u8> {
    let mut out = i32::try_from(body.len() + 8)
        .unwrap()
        .to_be_bytes()
        .to_vec();
    out.extend(code.to_be_bytes());
    out.extend(body);
    out
}

pub(super) const VERSION: i32 = 3 << 16;

pub(super) fn startup() -> Vec<u8> {
    first(
        VERSION,
        b"user\0me\0database\0whyslow\0application_name\0test\0\0",
    )
}

pub(super) async fn connect(address: SocketAddr) -> Client<TcpStream> {
    let mut client = Client::new(TcpStream::connect(address).await.unwrap());
    client.send(&startup()).await;
    client.ready().await;
    client
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            process: 0,
            secret: 0,
        }
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next message; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Told> {
        let mut head = [0; 5];
        if self.stream.read_exact(&mut head).await.is_err() {
            return None;
        }
        let length = i32::from_be_bytes(head[1..].try_into().unwrap());
        let mut body = vec![0; usize::try_from(length).unwrap() - 4];
        self.stream.read_exact(&mut body).await.ok()?;
        Some(Told {
            kind: char::from(head[0]),
            body,
        })
    }

    /// Everything up to the message that says that we may go on, which must come.
    pub(super) async fn ready(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        loop {
            let next = self.next().await;
            let next = next.unwrap_or_else(|| panic!("the connection ended after {told:?}"));
            if next.kind == 'K' {
                self.process = i32::from_be_bytes(next.body[..4].try_into().unwrap());
                self.secret = i32::from_be_bytes(next.body[4..].try_into().unwrap());
            }
            let is_ready = next.kind == 'Z';
            told.push(next);
            if is_ready {
                return told;
            }
        }
    }

    /// The answers to a text by the simple protocol, without the last message.
    pub(super) async fn query(&mut self, sql: &str) -> Vec<Told> {
        self.send(&message('Q', format!("{sql}\0").as_bytes()))
            .await;
        let mut told = self.ready().await;
        told.pop();
        told
    }

    /// The same as text, without descriptions.
    pub(super) async fn ask(&mut self, sql: &str) -> Vec<String> {
        let told = self.query(sql).await;
        let told = told.iter().filter(|told| told.kind != 'T');
        told.map(Told::shown).collect()
    }
}

/// Messages of the extended protocol.
pub(super) fn parse(name: &str, sql: &str, types: &[u32]) -> Vec<u8> {
    let mut body = format!("{name}\0{sql}\0").into_bytes();
    body.extend(i16::try_from(types.len()).unwrap().to_be_bytes());
    body.extend(types.iter().flat_map(|oid| oid.to_be_bytes()));
    message('P', &body)
}

pub(super) fn bind(
    portal: &str,
    name: &str,
    format: i16,
    values: &[Option<&[u8]>],
    results: i16,
) -> Vec<u8> {
    let mut body = format!("{portal}\0{name}\0").into_bytes();
    body.extend([0, 1]);
    body.extend(format.to_be_bytes());
    body.extend(i16::try_from(values.len()).unwrap().to_be_bytes());
    for value in values {
        match value {
            None => body.extend((-1i32).to_be_bytes()),
            Some(value) => {
                body.extend(i32::try_from(value.len()).unwrap().to_be_bytes());
                body.extend(*value);
            }
        }
    }
    body.extend([0, 1]);
    body.extend(results.to_be_bytes());
    message('B', &body)
}

pub(super) fn describe(kind: char, name: &str) -> Vec<u8> {
    message('D', format!("{kind}{name}\0").as_bytes())
}

pub(super) fn execute(portal: &str, rows: i32) -> Vec<u8> {
    let mut body = format!("{portal}\0").into_bytes();
    body.extend(rows.to_be_bytes());
    message('E', &body)
}

pub(super) fn sync() -> Vec<u8> {
    message('S', b"")
}
