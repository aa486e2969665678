//! `GET /v1/traces/{id}`: one trace with all its spans.
//!
//! - The id in any form in which it is pasted: 32 hex digits in any case, with dashes, without leading zeros, or the
//!   whole `traceparent`.
//! - `?format=json` (OTLP/JSON, the default), `protobuf` (OTLP), `arrow`, `parquet` (the rows of `spans`), `perfetto` (for
//!   <https://ui.perfetto.dev>, with phases, GPUs and engines); or `Accept`, which the address wins over.
//! - 404 says in its code whether the trace is `unknown_trace`, `trace_not_kept` or `trace_without_spans`; 422 that it has
//!   more spans than `trace_spans_max` (`too_many_spans`) or memory (`trace_too_large`).
//!
//! The answer is whole or breaks off; what OTLP made of rows does not have is in the head of the crate's `trace`.

use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, State};
use axum::http::header::{ACCEPT, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::body::{Clock, stream_parts};
use super::refusal::Refusal;
use crate::asker::Asker;
use crate::engine::Engine;
use crate::format::first_known;
use crate::metrics::Entrance;
use crate::trace::{self, Absence, Caller, IdError, Order};

/// How a trace is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    Json,
    Protobuf,
    Arrow,
    Parquet,
    Perfetto,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Choices {
    format: Option<Format>,
}

impl Format {
    fn content_type(self) -> &'static str {
        match self {
            Self::Json | Self::Perfetto => "application/json",
            Self::Protobuf => "application/x-protobuf",
            Self::Arrow => "application/vnd.apache.arrow.stream",
            Self::Parquet => "application/vnd.apache.parquet",
        }
    }

    /// What the file is called when it is saved.
    fn extension(self) -> &'static str {
        match self {
            Self::Json => "otlp.json",
            Self::Protobuf => "otlp.pb",
            Self::Arrow => "arrows",
            Self::Parquet => "parquet",
            Self::Perfetto => "perfetto.json",
        }
    }

    /// The first format of an `Accept` header that is known.
    fn of_accept(headers: &HeaderMap) -> Result<Self, Refusal> {
        let Some(accept) = headers.get(ACCEPT) else {
            return Ok(Self::Json);
        };
        let accept = accept.to_str().unwrap_or_default();
        let found = first_known(accept, |media_type| match media_type {
            "application/json" | "application/*" | "*/*" => Some(Self::Json),
            "application/x-protobuf" | "application/protobuf" => Some(Self::Protobuf),
            "application/vnd.apache.arrow.stream" => Some(Self::Arrow),
            "application/vnd.apache.parquet" => Some(Self::Parquet),
            _ => None,
        });
        found.ok_or_else(|| Refusal::Accept {
            given: accept.to_owned(),
            known: "`application/json`, `application/x-protobuf`, `application/vnd.apache.arrow.stream` and \
                    `application/vnd.apache.parquet`",
        })
    }
}

/// Gives a trace.
pub(super) async fn give(
    State(engine): State<Arc<Engine>>,
    id: Result<Path<String>, PathRejection>,
    address: Result<Query<Choices>, QueryRejection>,
    asker: Option<Extension<Asker>>,
    headers: HeaderMap,
) -> Response {
    let given = answer(&engine, id, address, asker, &headers).await;
    given.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(
    engine: &Engine,
    id: Result<Path<String>, PathRejection>,
    address: Result<Query<Choices>, QueryRejection>,
    asker: Option<Extension<Asker>>,
    headers: &HeaderMap,
) -> Result<Response, Refusal> {
    let until = Clock::start().until(engine.config().timeout);
    let Path(id) = id.map_err(|_not_utf8| IdError)?;
    let trace_id = trace::parse_id(&id)?;
    let Query(choices) = address.map_err(|source| Refusal::Address {
        known: "`format` is",
        source,
    })?;
    let format = match choices.format {
        Some(format) => format,
        None => Format::of_accept(headers)?,
    };
    let caller = caller(asker);
    let order = match format {
        Format::Json | Format::Protobuf | Format::Perfetto => Order::Resource,
        Format::Arrow | Format::Parquet => Order::Start,
    };
    let held = engine.hold().await.map_err(trace::Error::from)?;
    let trace = trace::read(engine, trace_id, caller, order).await?;
    if trace.is_empty() {
        let why: Absence = trace::why_absent(engine, trace_id, caller).await?;
        return Err(Refusal::Absent { trace_id, why });
    }
    let parts = match format {
        Format::Json => trace::json(trace),
        Format::Protobuf => trace::protobuf(trace),
        Format::Arrow => trace::arrow(trace)?,
        Format::Parquet => trace::parquet(trace)?,
        Format::Perfetto => {
            let around = trace::surroundings(engine, &trace, caller).await?;
            trace::perfetto(trace, around)?
        }
    };
    let mut response = Response::new(stream_parts(parts, held, until)?);
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(format.content_type()),
    );
    let name = format!("inline; filename=\"{trace_id}.{}\"", format.extension());
    if let Ok(name) = HeaderValue::try_from(name) {
        headers.insert(CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

/// Who asks over HTTP.
pub(super) fn caller(asker: Option<Extension<Asker>>) -> Caller {
    Caller {
        asker: asker.map(|Extension(asker)| asker),
        entrance: Entrance::Http,
    }
}
