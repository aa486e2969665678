//! OTLP/HTTP with protobuf or JSON bodies over HTTP/1.1.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, DATE, RETRY_AFTER};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Collected, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use otlp::export::Signal;
use otlp::reply::{Reply, printable};
use transport::{Alpn, Connector, TokenSource};

use super::endpoint::Endpoint;
use super::failure::{ExportError, Failure, Status};
use super::reply::{self, Encoding};
use super::{ANSWER_BYTES_MAX, Config, Protocol};
use crate::Result;

/// A pool of kept-alive connections.
#[derive(Debug, Clone)]
pub(super) struct Transport {
    client: Client<Connector, Full<Bytes>>,
    token: Option<Arc<TokenSource>>,
    endpoint: Endpoint,
    encoding: Encoding,
    gzip: bool,
}

impl Transport {
    pub(super) fn new(config: &Config) -> Result<Self> {
        let connector = config.connector(Alpn::Http1)?;
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            token: config.token.clone(),
            endpoint: config.endpoint.clone(),
            encoding: match config.protocol {
                Protocol::HttpJson => Encoding::Json,
                Protocol::Grpc | Protocol::HttpProtobuf => Encoding::Protobuf,
            },
            gzip: config.gzip,
        })
    }

    /// The bytes to post, encoded and compressed once for all attempts.
    pub(super) fn payload(&self, signal: Signal, body: Bytes) -> Result<Bytes, ExportError> {
        let encoded = match self.encoding {
            Encoding::Protobuf => body,
            Encoding::Json => otlp::json::from_protobuf(signal, &body)
                .map_err(|source| ExportError::Encode { source })?
                .into(),
        };
        Ok(if self.gzip {
            deflate(&encoded)
        } else {
            encoded
        })
    }

    pub(super) fn attempt(
        &self,
        signal: Signal,
        payload: Bytes,
    ) -> impl Future<Output = Result<Reply, Failure>> + use<> {
        let client = self.client.clone();
        let request = self.request(signal, payload);
        let encoding = self.encoding;
        async move {
            let request = request.map_err(|error| Failure::no_answer(&error))?;
            let answer = client
                .request(request)
                .await
                .map_err(|error| Failure::no_answer(&error))?;
            let (head, body) = answer.into_parts();
            let encoding = answer_encoding(&head.headers).unwrap_or(encoding);
            // The status decides, even if the rest of the answer breaks off or cannot be read.
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let body = body.map(Collected::to_bytes).unwrap_or_default();
            if head.status.is_success() {
                return Ok(reply::read(encoding, &body).unwrap_or_default());
            }
            Err(failure(head.status, &head.headers, encoding, &body))
        }
    }

    fn request(&self, signal: Signal, payload: Bytes) -> http::Result<Request<Full<Bytes>>> {
        let mut builder = Request::builder()
            .method(Method::POST)
            .uri(self.endpoint.url(signal))
            .header(CONTENT_TYPE, self.encoding.content_type());
        if self.gzip {
            builder = builder.header(CONTENT_ENCODING, "gzip");
        }
        let mut request = builder.body(Full::new(payload))?;
        if let Some(token) = &self.token {
            token.add_to(request.headers_mut());
        }
        Ok(request)
    }
}

fn answer_encoding(headers: &HeaderMap) -> Option<Encoding> {
    Encoding::from_content_type(headers.get(CONTENT_TYPE)?.to_str().ok()?)
}

fn failure(code: StatusCode, headers: &HeaderMap, encoding: Encoding, body: &[u8]) -> Failure {
    let status = reply::read_status(encoding, body).unwrap_or_default();
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let retry_after =
        header(RETRY_AFTER).and_then(|value| otlp::reply::retry_after(value, header(DATE)));
    let message = match status.message {
        Some(message) => message,
        // A proxy on the way answers in its own words.
        None => printable(&String::from_utf8_lossy(body)),
    };
    let message = if message.is_empty() {
        code.canonical_reason().unwrap_or_default().into()
    } else {
        message
    };
    Failure {
        status: Status::Http(code.as_u16()),
        message,
        retry_after: retry_after.or(status.retry_after),
    }
}

fn deflate(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing into a vector cannot fail.
    match encoder.write_all(bytes).and_then(|()| encoder.finish()) {
        Ok(deflated) => deflated.into(),
        Err(_impossible) => Bytes::new(),
    }
}
