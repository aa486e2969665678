//! A server that answers from a script and keeps what it was sent.

use std::collections::VecDeque;
use std::io::Read as _;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::net::TcpListener;

/// How the server answers one request.
#[derive(Clone)]
pub(super) enum Answer {
    Http(u16, &'static [(&'static str, &'static str)], &'static [u8]),
    /// A message, then `grpc-status: 0`.
    GrpcOk(&'static [u8]),
    Grpc(&'static str, &'static str, Option<&'static [u8]>),
    /// Closes the connection.
    Break,
}

#[derive(Default)]
pub(super) struct Server {
    pub(super) answers: Mutex<VecDeque<Answer>>,
    /// Path, content type and encoding, and body of what came, inflated and without gRPC's frame.
    pub(super) seen: Mutex<Vec<(String, Vec<u8>)>>,
}

async fn answer(State(server): State<Arc<Server>>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let header = |name: &str| {
        head.headers
            .get(name)
            .map_or("-", |value| value.to_str().unwrap())
            .to_owned()
    };
    let is_grpc = header("content-type").starts_with("application/grpc");
    let (compressed, body) = if is_grpc {
        (body[0] == 1, body.slice(5..))
    } else {
        (header("content-encoding") == "gzip", body)
    };
    let mut content = Vec::new();
    if compressed {
        GzDecoder::new(&body[..]).read_to_end(&mut content).unwrap();
    } else {
        content.extend_from_slice(&body);
    }
    let line = format!(
        "{} {} gzip={compressed}",
        head.uri.path(),
        header("content-type")
    );
    server.seen.lock().unwrap().push((line, content));
    let answer = server.answers.lock().unwrap().pop_front();
    answer.expect("one answer per request").into_response()
}

impl Answer {
    fn into_response(self) -> Response<Body> {
        match self {
            Answer::Http(code, headers, body) => {
                let mut builder = Response::builder().status(code);
                for (name, value) in headers {
                    builder = builder.header(*name, *value);
                }
                builder.body(Body::from(body)).unwrap()
            }
            Answer::GrpcOk(message) => {
                let mut framed = vec![0];
                framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
                framed.extend(message);
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", "0".parse().unwrap());
                let frames = [
                    Ok::<_, std::io::Error>(http_body::Frame::data(Bytes::from(framed))),
                    Ok(http_body::Frame::trailers(trailers)),
                ];
                Response::builder()
                    .header("content-type", "application/grpc")
                    .body(Body::new(StreamBody::new(tokio_stream::iter(frames))))
                    .unwrap()
            }
            Answer::Grpc(code, message, details) => {
                let mut builder = Response::builder()
                    .header("content-type", "application/grpc")
                    .header("grpc-status", code)
                    .header("grpc-message", message);
                if let Some(details) = details {
                    builder = builder.header("grpc-status-details-bin", base64(details));
                }
                builder.body(Body::empty()).unwrap()
            }
            Answer::Break => {
                let broken = tokio_stream::iter([Err::<Bytes, _>(std::io::Error::other("break"))]);
                // The declared length is never sent, so the connection must close.
                Response::builder()
                    .status(503)
                    .header("content-length", "10")
                    .body(Body::from_stream(broken))
                    .unwrap()
            }
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let number = group
            .iter()
            .fold(0_usize, |number, byte| number << 8 | usize::from(*byte))
            << (8 * (3 - group.len()));
        for digit in 0..=group.len() {
            text.push(char::from(ALPHABET[number >> (18 - 6 * digit) & 63]));
        }
    }
    text
}

pub(super) async fn start(answers: Vec<Answer>) -> (Arc<Server>, String) {
    let server = Arc::new(Server {
        answers: Mutex::new(answers.into()),
        ..Server::default()
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let router = axum::Router::new()
        .fallback(answer)
        .with_state(Arc::clone(&server));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (server, address)
}
