//! OTLP/gRPC: one unary call, framed here so that the sender compresses and not the connection's task.
//!
//! Framing as in `crate::grpc`: one flag byte (1 = compressed), length as u32 big endian, message
//! (grpc/grpc doc/PROTOCOL-HTTP2.md).

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header, uri::PathAndQuery};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use otlp::reply::{Reply, printable, read_export_response, read_status};
use tonic::Code;

use super::{ANSWER_BYTES_MAX, Compression, SendError, Settings, Status, post};
use crate::{admission::Budget, body};

const METHOD: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

const GRPC_ENCODING: &str = "grpc-encoding";

/// Flag and length.
const FRAME_HEADER_BYTES: usize = 5;

pub(super) fn request(
    settings: &Settings,
    body: &Bytes,
) -> Result<Request<Full<Bytes>>, SendError> {
    let mut parts = settings.url.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::from_static(METHOD));
    let url = Uri::from_parts(parts).map_err(|error| SendError::unsendable(&error))?;
    let mut request = post(settings, url, "application/grpc");
    let headers = request.headers_mut();
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    headers.insert(
        "grpc-accept-encoding",
        HeaderValue::from_static("gzip, zstd, identity"),
    );
    let name = settings.compression.name();
    let flag = u8::from(name.is_some());
    if let Some(name) = name {
        headers.insert(GRPC_ENCODING, name);
    }
    let mut framed = vec![0; FRAME_HEADER_BYTES];
    if settings.compression == Compression::None {
        framed.reserve_exact(body.len());
    }
    let mut framed = settings.compression.compress(body, framed);
    let n_bytes = framed.len().saturating_sub(FRAME_HEADER_BYTES);
    let n_bytes = u32::try_from(n_bytes).map_err(|error| SendError::unsendable(&error))?;
    if let Some(frame_header) = framed.first_chunk_mut::<FRAME_HEADER_BYTES>() {
        let [a, b, c, d] = n_bytes.to_be_bytes();
        *frame_header = [flag, a, b, c, d];
    }
    *request.body_mut() = Full::from(framed);
    Ok(request)
}

pub(super) async fn read(response: Response<Incoming>) -> Result<Reply, SendError> {
    let (head, body) = response.into_parts();
    if let Some(status) = tonic::Status::from_header_map(&head.headers) {
        return answered(&status, Reply::default);
    }
    if head.status != StatusCode::OK {
        return Err(SendError {
            status: Status::Grpc(code_of(head.status)),
            message: format!("HTTP {}, not gRPC", head.status.as_u16()),
            retry_after: None,
        });
    }
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    // A connection that breaks here may have cost the answer alone, or the whole request.
    let body = body.map_err(|error| SendError::no_answer(&*error))?;
    let status = body.trailers().and_then(tonic::Status::from_header_map);
    let status = status.unwrap_or_else(|| tonic::Status::unknown("an answer without a status"));
    answered(&status, || {
        let message = unframe(&head.headers, body.to_bytes()).unwrap_or_default();
        read_export_response(&message).unwrap_or_default()
    })
}

/// The request counts as accepted even if its answer cannot be read.
fn answered(status: &tonic::Status, reply: impl FnOnce() -> Reply) -> Result<Reply, SendError> {
    if status.code() == Code::Ok {
        return Ok(reply());
    }
    Err(SendError {
        status: Status::Grpc(status.code()),
        message: printable(status.message()),
        retry_after: read_status(status.details()).and_then(|details| details.retry_after),
    })
}

/// The message in its frame, inflated.
fn unframe(headers: &HeaderMap, mut framed: Bytes) -> Option<Bytes> {
    let flag = *framed.first()?;
    framed.advance(FRAME_HEADER_BYTES.min(framed.len()));
    if flag == 0 {
        return Some(framed);
    }
    let name = headers.get(GRPC_ENCODING)?;
    let compression = body::Compression::parse(name.as_bytes()).ok()?;
    let limit_bytes = ANSWER_BYTES_MAX as u64;
    let mut permit = Budget::new(limit_bytes.saturating_mul(2)).permit();
    body::inflate(compression, framed, limit_bytes, &mut permit).ok()
}

/// What a status of HTTP means where no gRPC server has answered (grpc/grpc doc/http-grpc-status-mapping.md).
pub(super) fn code_of(status: StatusCode) -> Code {
    match status.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502..=504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}
