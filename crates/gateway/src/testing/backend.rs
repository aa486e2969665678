//! An OTLP server in this process that counts spans and fails as told: the other side of an exporter.

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{body::Body, extract::Request, response::Response};
use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use otlp::{
    Signal,
    export::Limits,
    reply::{Encoding, export_response, status},
    span::SpanSummary,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};
use tonic::Code;

use crate::{
    admission::Budget,
    body::{self, Compression},
};

/// What a request is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Taken.
    Accept,
    /// Taken but for so many spans, which are counted all the same.
    Partial(u64),
    /// Refused with a status of gRPC or HTTP, and how long to stay away.
    Refuse(Code, u16, Option<Duration>),
    /// Never answered.
    Hang,
    /// Taken, and the connection breaks before the answer.
    AcceptAndBreak,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    /// Path of the URL.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// The export request, inflated.
    pub body: Bytes,
}

#[derive(Debug, Default)]
struct State {
    script: VecDeque<Answer>,
    received: Vec<Received>,
    /// How often each span was taken.
    spans: BTreeMap<(String, String), u32>,
    keeps_bodies: bool,
}

/// The server. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Backend {
    addr: SocketAddr,
    state: Arc<Mutex<State>>,
    serving: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Backend {
    /// Listens on a free port of loopback, for gRPC and HTTP.
    ///
    /// # Errors
    ///
    /// No port is free.
    pub async fn start() -> std::io::Result<Backend> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let backend = Backend {
            addr: listener.local_addr()?,
            state: Arc::new(Mutex::new(State {
                keeps_bodies: true,
                ..State::default()
            })),
            serving: Arc::default(),
        };
        backend.serve(listener);
        Ok(backend)
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The next requests are answered so, later ones accepted.
    pub fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        self.state().script.extend(answers);
    }

    /// Keeps no requests from now on, only counts.
    pub fn forget_bodies(&self) {
        self.state().keeps_bodies = false;
    }

    /// Closes the port and every connection.
    pub fn down(&self) {
        let serving = self
            .serving
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(serving) = serving {
            serving.abort();
        }
    }

    /// Opens the same port again.
    ///
    /// # Errors
    ///
    /// Another process has taken it meanwhile.
    pub async fn up(&self) -> std::io::Result<()> {
        self.serve(TcpListener::bind(self.addr).await?);
        Ok(())
    }

    /// The requests that came, refused ones too.
    pub fn received(&self) -> Vec<Received> {
        self.state().received.clone()
    }

    /// How often each span was taken, by trace and span id in hex.
    pub fn spans(&self) -> BTreeMap<(String, String), u32> {
        self.state().spans.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, listener: TcpListener) {
        let backend = self.clone();
        let serving = tokio::spawn(async move {
            // Dropped with this task, and its connections with it.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(backend.clone().connection(stream));
            }
        });
        *self.serving.lock().unwrap_or_else(PoisonError::into_inner) = Some(serving);
    }

    async fn connection(self, stream: TcpStream) {
        let service = hyper::service::service_fn(move |request| {
            let backend = self.clone();
            async move { backend.answer(request.map(Body::new)).await }
        });
        let serving = auto::Builder::new(TokioExecutor::new());
        // A broken connection is what some answers are about.
        serving
            .serve_connection(TokioIo::new(stream), service)
            .await
            .ok();
    }

    async fn answer(&self, request: Request) -> Result<Response, Broken> {
        let (head, body) = request.into_parts();
        let is_grpc = head.uri.path().ends_with("/Export");
        let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
        let body = inflated(&head.headers, is_grpc, body).ok_or(Broken)?;
        let answer = {
            let mut state = self.state();
            let answer = state.script.pop_front().unwrap_or(Answer::Accept);
            if !matches!(answer, Answer::Refuse(..) | Answer::Hang) {
                for at in otlp::export::spans(&body, &Limits::default()).flatten() {
                    if let Ok(summary) = SpanSummary::read(at.span) {
                        let key = (summary.trace_id.to_string(), summary.span_id.to_string());
                        *state.spans.entry(key).or_default() += 1;
                    }
                }
            }
            if state.keeps_bodies {
                state.received.push(Received {
                    path: head.uri.path().to_owned(),
                    headers: head.headers,
                    body,
                });
            }
            answer
        };
        match answer {
            Answer::Accept => Ok(accepted(is_grpc, 0)),
            Answer::Partial(n_rejected) => Ok(accepted(is_grpc, n_rejected)),
            Answer::Refuse(code, http, delay) => Ok(refused(is_grpc, code, http, delay)),
            Answer::Hang => std::future::pending().await,
            Answer::AcceptAndBreak => Err(Broken),
        }
    }
}

/// Ends the connection.
#[derive(Debug, thiserror::Error)]
#[error("told to break")]
struct Broken;

fn inflated(headers: &HeaderMap, is_grpc: bool, mut body: Bytes) -> Option<Bytes> {
    let name = if is_grpc {
        "grpc-encoding"
    } else {
        "content-encoding"
    };
    let mut compression = match headers.get(name) {
        Some(name) => Compression::parse(name.as_bytes()).ok()?,
        None => Compression::None,
    };
    if is_grpc {
        let flag = *body.first()?;
        body.advance(5);
        if flag == 0 {
            compression = Compression::None;
        }
    }
    let mut permit = Budget::new(1 << 30).permit();
    body::inflate(compression, body, 64 << 20, &mut permit).ok()
}

fn accepted(is_grpc: bool, n_rejected: u64) -> Response {
    let message = (n_rejected > 0).then_some("some were too old");
    let reply = export_response(Signal::Traces, Encoding::Protobuf, n_rejected, message);
    if !is_grpc {
        return typed(Response::new(Body::from(reply)), "application/x-protobuf");
    }
    let mut framed = vec![0, 0, 0, 0, u8::try_from(reply.len()).unwrap_or(u8::MAX)];
    framed.extend(reply);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames: [Result<Frame<Bytes>, Infallible>; 2] = [
        Ok(Frame::data(framed.into())),
        Ok(Frame::trailers(trailers)),
    ];
    let body = Body::new(StreamBody::new(futures::stream::iter(frames)));
    typed(Response::new(body), "application/grpc")
}

fn refused(is_grpc: bool, code: Code, http: u16, delay: Option<Duration>) -> Response {
    let message = "told to refuse";
    if is_grpc {
        let details = status(Encoding::Protobuf, code.into(), message, delay);
        return tonic::Status::with_details(code, message, details.into()).into_http();
    }
    let mut response = Response::new(Body::from(message));
    *response.status_mut() = StatusCode::from_u16(http).unwrap_or_default();
    if let Some(delay) = delay {
        let value = HeaderValue::from(delay.as_secs());
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    response
}

fn typed(mut response: Response, content_type: &'static str) -> Response {
    let value = HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}
