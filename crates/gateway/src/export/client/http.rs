//! OTLP/HTTP: a protobuf body is posted; the status decides.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, Response, header};
use http_body_util::{BodyExt, Collected, Full, Limited};
use hyper::body::Incoming;
use otlp::reply::{Encoding, Reply, printable, read_export_response, read_status, retry_after};

use super::{ANSWER_BYTES_MAX, SendError, Settings, Status, post};

pub(super) fn request(settings: &Settings, body: Bytes) -> Result<Request<Full<Bytes>>, SendError> {
    let content_type = Encoding::Protobuf.content_type();
    let mut request = post(settings, settings.url.clone(), content_type);
    *request.body_mut() = match settings.compression.name() {
        None => Full::new(body),
        Some(name) => {
            request.headers_mut().insert(header::CONTENT_ENCODING, name);
            Full::from(settings.compression.compress(&body, Vec::new()))
        }
    };
    Ok(request)
}

pub(super) async fn read(response: Response<Incoming>) -> Result<Reply, SendError> {
    let (head, body) = response.into_parts();
    // Whatever becomes of the rest of the answer, the status has said what counts.
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let body = body.map(Collected::to_bytes).unwrap_or_default();
    if head.status.is_success() {
        return Ok(read_export_response(&body).unwrap_or_default());
    }
    let status = is_protobuf(&head.headers).then(|| read_status(&body));
    let status = status.flatten().unwrap_or_default();
    let message = match status.message {
        Some(message) => message,
        // A proxy on the way answers in its own words.
        None => printable(&String::from_utf8_lossy(&body)),
    };
    let asked = text(&head.headers, header::RETRY_AFTER)
        .and_then(|value| retry_after(value, text(&head.headers, header::DATE)));
    Err(SendError {
        status: Status::Http(head.status),
        message,
        retry_after: asked.or(status.retry_after),
    })
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn is_protobuf(headers: &HeaderMap) -> bool {
    let content_type = Encoding::Protobuf.content_type();
    text(headers, header::CONTENT_TYPE).is_some_and(|value| value.starts_with(content_type))
}
