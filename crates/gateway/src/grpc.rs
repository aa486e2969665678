//! OTLP/gRPC: the three unary `Export` methods, over the raw bytes of their messages; and beside them the reports of
//! `proto/whyslow/v1/reports.proto`, which are as much as that.
//!
//! The message framing is read here instead of by tonic's codec, for three reasons. A body takes bytes
//! from the intake's budget while it arrives, which tonic would buffer whole before asking anybody. The
//! limit answers `RESOURCE_EXHAUSTED` for plain and compressed messages alike, where tonic says
//! `OUT_OF_RANGE` (retryable!) for one and `RESOURCE_EXHAUSTED` for the other. And a zstd frame cannot make
//! us allocate its largest window. Statuses are tonic's, and the tests use tonic's client.
//!
//! Framing: one flag byte (1 = compressed as `grpc-encoding` says), length as u32 big endian, message
//! (grpc/grpc doc/PROTOCOL-HTTP2.md).

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
};
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body::Frame;
use http_body_util::StreamBody;
use otlp::{export::Signal, reply::Encoding};
use tonic::metadata::{MetadataMap, MetadataValue};
use transport::Door;

use crate::{
    body::{self, Compression},
    metrics::Transport,
    receive::{Accepted, Edge, Received},
    record::Content,
    status::Refusal,
};

/// Flag and length.
pub(crate) const FRAME_HEADER_BYTES: usize = 5;

const GRPC_ENCODING: &str = "grpc-encoding";
const GRPC_ACCEPT_ENCODING: &str = "grpc-accept-encoding";
const GRPC_STATUS: &str = "grpc-status";

/// Where the Python SDK (1.45) looks for the pause that it is asked for.
const RETRY_INFO: &str = "google.rpc.retryinfo-bin";

/// The gRPC receiver.
#[derive(Debug)]
pub(crate) struct GrpcReceiver {
    edge: Arc<Edge>,
    door: Door,
    limit_bytes: u64,
    body_timeout: Duration,
}

impl GrpcReceiver {
    pub(crate) fn new(
        edge: Arc<Edge>,
        door: Door,
        limit_bytes: u64,
        body_timeout: Duration,
    ) -> GrpcReceiver {
        GrpcReceiver {
            edge,
            door,
            limit_bytes,
            body_timeout,
        }
    }

    /// The service for a listener.
    pub(crate) fn router(self) -> Router {
        Router::new().fallback(export).with_state(Arc::new(self))
    }

    async fn receive(
        &self,
        content: Content,
        headers: &HeaderMap,
        body: &mut Body,
    ) -> Result<Accepted, Refusal> {
        let announced = match headers.get(GRPC_ENCODING) {
            None => Compression::None,
            Some(name) => Compression::parse(name.as_bytes())?,
        };
        self.edge.gate.pass()?;
        let permit = self.edge.budget.permit();
        let framed_limit = self.limit_bytes.saturating_add(FRAME_HEADER_BYTES as u64);
        let (framed, permit) = body::read(body, framed_limit, self.body_timeout, permit)
            .await
            .map_err(|refusal| self.without_frame_header(refusal))?;
        let (compression, bytes) = unframe(framed, announced)?;
        let limit_bytes = self.limit_bytes;
        let encoding = Encoding::Protobuf;
        self.edge
            .export(Received {
                content,
                encoding,
                compression,
                bytes,
                permit,
                limit_bytes,
            })
            .await
    }

    /// The limit that the sender is told is the configured one.
    fn without_frame_header(&self, refusal: Refusal) -> Refusal {
        if matches!(refusal, Refusal::TooLarge { .. }) {
            Refusal::TooLarge {
                limit_bytes: self.limit_bytes,
            }
        } else {
            refusal
        }
    }

    /// A trailers-only answer. `RetryInfo` travels in `grpc-status-details-bin`, and for the Python SDK by itself, only
    /// where the sender is to retry.
    fn failure(&self, refusal: &Refusal) -> Response {
        let outward = self.edge.outward(refusal);
        let message = refusal.to_string();
        let status = match outward.retry_after {
            None => tonic::Status::new(outward.grpc, message),
            Some(delay) => {
                let code = outward.grpc.into();
                let details = otlp::reply::status(Encoding::Protobuf, code, &message, Some(delay));
                let mut metadata = MetadataMap::with_capacity(1);
                let retry_info = otlp::reply::retry_info(delay);
                metadata.insert_bin(RETRY_INFO, MetadataValue::from_bytes(&retry_info));
                let details = Bytes::from(details);
                tonic::Status::with_details_and_metadata(outward.grpc, message, details, metadata)
            }
        };
        let mut response = status.into_http::<Body>();
        if matches!(refusal, Refusal::UnknownEncoding) {
            response.headers_mut().insert(
                GRPC_ACCEPT_ENCODING,
                HeaderValue::from_static(Compression::ACCEPTED),
            );
        }
        response
    }
}

async fn export(State(receiver): State<Arc<GrpcReceiver>>, request: Request) -> Response {
    let (head, mut body) = request.into_parts();
    if head.method != Method::POST || !is_grpc(&head.headers) {
        let mut response = Response::new(Body::from(Refusal::UnknownMediaType.to_string()));
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return response;
    }
    let content = content(head.uri.path());
    let outcome = match (receiver.door.check(&head.headers), content) {
        (Err(why), _) => Err(Refusal::Unauthenticated(why)),
        (Ok(()), None) => Err(Refusal::UnknownPath),
        (Ok(()), Some(content)) => receiver.receive(content, &head.headers, &mut body).await,
    };
    if let Some(content) = content {
        receiver
            .edge
            .count_answer(Transport::Grpc, content, &outcome);
    }
    match (outcome, content) {
        (Ok(accepted), Some(content)) => success(content, &accepted),
        (Err(refusal), _) => receiver.failure(&refusal),
        (Ok(_), None) => receiver.failure(&Refusal::UnknownPath),
    }
}

fn content(path: &str) -> Option<Content> {
    let signal = match path {
        "/opentelemetry.proto.collector.trace.v1.TraceService/Export" => Signal::Traces,
        "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export" => Signal::Metrics,
        "/opentelemetry.proto.collector.logs.v1.LogsService/Export" => Signal::Logs,
        _ => return reports::Kind::of_method(path).map(Content::Report),
    };
    Some(signal.into())
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| {
        let name = value
            .as_bytes()
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default();
        let name = name.trim_ascii();
        name.eq_ignore_ascii_case(b"application/grpc")
            || name.eq_ignore_ascii_case(b"application/grpc+proto")
    })
}

/// Takes the one message out of the body of a unary request or answer.
pub(crate) fn unframe(
    framed: Bytes,
    announced: Compression,
) -> Result<(Compression, Bytes), Refusal> {
    let Some((&[flag, a, b, c, d], message)) = framed.split_first_chunk::<FRAME_HEADER_BYTES>()
    else {
        return Err(Refusal::BadFrame("no whole message header"));
    };
    let compression = match (flag, announced) {
        (0, _) => Compression::None,
        (1, Compression::None) => {
            return Err(Refusal::BadFrame("compressed flag without `grpc-encoding`"));
        }
        (1, announced) => announced,
        _ => return Err(Refusal::BadFrame("compressed flag is neither 0 nor 1")),
    };
    if u32::from_be_bytes([a, b, c, d]) as usize != message.len() {
        return Err(Refusal::BadFrame(
            "message length differs from the bytes sent",
        ));
    }
    Ok((compression, framed.slice(FRAME_HEADER_BYTES..)))
}

fn success(content: Content, accepted: &Accepted) -> Response {
    let message = accepted.message.as_deref();
    let reply = match content {
        Content::Export(signal) => {
            otlp::reply::export_response(signal, Encoding::Protobuf, accepted.n_rejected, message)
        }
        // An empty message: all of it was taken.
        Content::Report(_) => Vec::new(),
    };
    let mut framed = BytesMut::with_capacity(FRAME_HEADER_BYTES.saturating_add(reply.len()));
    framed.put_u8(0);
    // A reply is bounded far below 4 GiB by `otlp::reply`.
    framed.put_u32(u32::try_from(reply.len()).unwrap_or(u32::MAX));
    framed.put_slice(&reply);
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
    let frames: [Result<Frame<Bytes>, std::convert::Infallible>; 2] = [
        Ok(Frame::data(framed.freeze())),
        Ok(Frame::trailers(trailers)),
    ];
    let mut response = Response::new(Body::new(StreamBody::new(futures::stream::iter(frames))));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/grpc"),
    );
    response
}
