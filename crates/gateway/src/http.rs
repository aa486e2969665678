//! OTLP/HTTP: `POST` of one export request to the path of its signal, protobuf or JSON.
//!
//! Answers are in the encoding of the request: `Export*ServiceResponse` on success, `google.rpc.Status`
//! otherwise. A request whose media type we do not know is answered in JSON, which people can read.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use otlp::{export::Signal, reply::Encoding};
use transport::Door;

use crate::{
    body::{self, Compression},
    config,
    metrics::Transport,
    receive::{Accepted, Edge, Received},
    status::Refusal,
};

/// The HTTP receiver.
#[derive(Debug)]
pub(crate) struct HttpReceiver {
    edge: Arc<Edge>,
    door: Door,
    paths: [(String, Signal); 3],
    limit_bytes: u64,
    body_timeout: Duration,
}

impl HttpReceiver {
    pub(crate) fn new(
        edge: Arc<Edge>,
        door: Door,
        config: &config::Http,
        body_timeout: Duration,
    ) -> HttpReceiver {
        let paths = [
            (config.traces_url_path.clone(), Signal::Traces),
            (config.metrics_url_path.clone(), Signal::Metrics),
            (config.logs_url_path.clone(), Signal::Logs),
        ];
        HttpReceiver {
            edge,
            door,
            paths,
            limit_bytes: config.max_request_body_size,
            body_timeout,
        }
    }

    /// The service for a listener. Paths are compared whole, so that a configured path is never a pattern.
    pub(crate) fn router(self) -> Router {
        Router::new().fallback(export).with_state(Arc::new(self))
    }

    fn signal(&self, path: &str) -> Option<Signal> {
        self.paths
            .iter()
            .find(|(known, _)| known == path)
            .map(|(_, signal)| *signal)
    }

    async fn receive(
        &self,
        signal: Signal,
        encoding: Option<Encoding>,
        headers: &HeaderMap,
        body: &mut Body,
    ) -> Result<Accepted, Refusal> {
        let encoding = encoding.ok_or(Refusal::UnknownMediaType)?;
        let compression = match headers.get(header::CONTENT_ENCODING) {
            None => Compression::None,
            Some(name) => Compression::parse(name.as_bytes())?,
        };
        self.edge.gate.pass()?;
        if http_body::Body::size_hint(&*body).lower() > self.limit_bytes {
            return Err(Refusal::TooLarge {
                limit_bytes: self.limit_bytes,
            });
        }
        let permit = self.edge.budget.permit();
        let (bytes, permit) = body::read(body, self.limit_bytes, self.body_timeout, permit).await?;
        let limit_bytes = self.limit_bytes;
        self.edge
            .export(Received {
                content: signal.into(),
                encoding,
                compression,
                bytes,
                permit,
                limit_bytes,
            })
            .await
    }

    /// Takes what is left of a refused body off the wire, beside the answer and after it.
    fn forget(&self, mut body: Body, is_waiting: bool) {
        let n_bytes_max = self.limit_bytes.saturating_mul(2);
        let is_hopeless = http_body::Body::size_hint(&body).lower() > n_bytes_max;
        if !is_waiting && !is_hopeless && !http_body::Body::is_end_stream(&body) {
            let timeout = self.body_timeout;
            tokio::spawn(async move { body::drain(&mut body, n_bytes_max, timeout).await });
        }
    }

    fn failure(&self, encoding: Encoding, refusal: &Refusal) -> Response {
        let outward = refusal.outward();
        let message = refusal.to_string();
        let body =
            otlp::reply::status(encoding, outward.grpc.into(), &message, outward.retry_after);
        let mut response = answer(outward.http, encoding, body);
        let headers = response.headers_mut();
        if let Some(delay) = outward.retry_after {
            headers.insert(
                header::RETRY_AFTER,
                HeaderValue::from(delay.as_secs().max(1)),
            );
        }
        if let (Refusal::Unauthenticated(_), Some(tokens)) = (refusal, &self.door.tokens) {
            headers.insert(header::WWW_AUTHENTICATE, tokens.challenge());
        }
        if matches!(refusal, Refusal::WrongVerb) {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        if matches!(refusal, Refusal::UnknownEncoding) {
            headers.insert(
                header::ACCEPT_ENCODING,
                HeaderValue::from_static(Compression::ACCEPTED),
            );
        }
        response
    }
}

async fn export(State(receiver): State<Arc<HttpReceiver>>, request: Request) -> Response {
    let (head, mut body) = request.into_parts();
    let encoding = media_type(&head.headers);
    let signal = receiver.signal(head.uri.path());
    let proved = receiver.door.check(&head.headers);
    let outcome = match (proved, signal, &head.method) {
        (Err(why), _, _) => Err(Refusal::Unauthenticated(why)),
        (Ok(()), None, _) => Err(Refusal::UnknownPath),
        (Ok(()), Some(_), method) if method != Method::POST => Err(Refusal::WrongVerb),
        (Ok(()), Some(signal), _) => {
            receiver
                .receive(signal, encoding, &head.headers, &mut body)
                .await
        }
    };
    if let Some(signal) = signal {
        receiver
            .edge
            .count_answer(Transport::Http, signal.into(), &outcome);
    }
    if outcome.is_err() && head.version < Version::HTTP_2 {
        let is_waiting = head.headers.contains_key(header::EXPECT);
        receiver.forget(body, is_waiting);
    }
    let encoding = encoding.unwrap_or(Encoding::Json);
    match (outcome, signal) {
        (Ok(accepted), Some(signal)) => success(signal, encoding, &accepted),
        (Err(refusal), _) => receiver.failure(encoding, &refusal),
        (Ok(_), None) => receiver.failure(encoding, &Refusal::UnknownPath),
    }
}

/// The encoding that `Content-Type` names; parameters such as `charset` are allowed.
fn media_type(headers: &HeaderMap) -> Option<Encoding> {
    let value = headers.get(header::CONTENT_TYPE)?.as_bytes();
    let name = value.split(|byte| *byte == b';').next()?.trim_ascii();
    if name.eq_ignore_ascii_case(b"application/x-protobuf") {
        Some(Encoding::Protobuf)
    } else if name.eq_ignore_ascii_case(b"application/json") {
        Some(Encoding::Json)
    } else {
        None
    }
}

fn success(signal: Signal, encoding: Encoding, accepted: &Accepted) -> Response {
    let message = accepted.message.as_deref();
    let body = otlp::reply::export_response(signal, encoding, accepted.n_rejected, message);
    answer(StatusCode::OK, encoding, body)
}

fn answer(status: StatusCode, encoding: Encoding, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(encoding.content_type()),
    );
    response
}
