//! One trace by its id.

use axum::extract::Path;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use otlp::encode::Writer;

use super::super::peers::{Wanted, otlp_of};
use super::Failed;
use crate::trace::{self, StoredTrace, parse_id};

const PROTOBUF: &str = "application/protobuf";

/// `Trace`: in protobuf the same as OTLP's `TracesData`.
pub(super) async fn first_version(
    Path(id): Path<String>,
    headers: HeaderMap,
    wanted: Wanted,
) -> Result<Response, Failed> {
    let trace = wanted.trace(parse_id(&id)?).await?;
    if wants_protobuf(&headers) {
        return Ok(protobuf(protobuf_of(&trace)?));
    }
    Ok(otlp_of("{\"batches\":[", &[trace], "]}").await?)
}

/// `TraceByIDResponse`, whose field 1 is the trace.
pub(super) async fn second_version(
    Path(id): Path<String>,
    headers: HeaderMap,
    wanted: Wanted,
) -> Result<Response, Failed> {
    wanted.parameters.refuse(&["q"])?;
    let trace = wanted.trace(parse_id(&id)?).await?;
    if wants_protobuf(&headers) {
        let mut response = Writer::default();
        response.bytes(1, &protobuf_of(&trace)?);
        return Ok(protobuf(response.finish()));
    }
    Ok(otlp_of(
        "{\"trace\":{\"resourceSpans\":[",
        &[trace],
        "]},\"metrics\":{}}",
    )
    .await?)
}

fn wants_protobuf(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let ranges = accept.unwrap_or_default().split(',');
    let mut types = ranges.map(|range| range.split(';').next().unwrap_or_default().trim());
    types.any(|media_type| media_type.eq_ignore_ascii_case(PROTOBUF))
}

fn protobuf_of(trace: &StoredTrace) -> trace::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for piece in trace.pieces() {
        bytes.extend_from_slice(&piece?);
    }
    Ok(bytes)
}

fn protobuf(bytes: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, PROTOBUF)], bytes).into_response()
}
