//! HTTP: `POST /v1/sql`, `GET /v1/tables`, `GET /v1/traces/{id}`, `GET /v1/explain/{id}`, and `GET /v1/openapi.json`, which
//! describes them all. `traces` and `explain` say what theirs give, and [`page()`] that there is a web page too.
//!
//! Beside these there are the query APIs of other trace stores: `jaeger` and `tempo`.
//!
//! # `POST /v1/sql`
//!
//! - Body `application/json`: `{"sql": "SELECT ..", "format": "json|csv|arrow|parquet", "limit": 100}`; only
//!   `sql` is needed, unknown members are refused.
//! - Body `text/plain` or `application/sql`: the statement itself.
//! - `format` and `limit` can also be in the address (`?format=csv&limit=100`); a member of the body
//!   wins over the address, the address over the `Accept` header, JSON is the default.
//! - Answers are streamed; `format` describes the four of them.
//!
//! # Tokens
//!
//! [`guarded`] asks each request for a token, by its head alone; without a known one the answer is 401 with
//! `WWW-Authenticate` and the code `unauthenticated`.
//!
//! # Errors
//!
//! `{"error":{"code":"unknown_column","message":".."}}` with a status by whose fault it is: 401 without a
//! token, 400 for the statement, 413 and 422 for its size and its need of memory, 504 for the time limit, 503 with
//! `Retry-After` if too many run, 429 if too many of one user do, 500 for us. Codes are stable, messages are for people.

use std::sync::Arc;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use serde::Deserialize;

use crate::answer::Answer;
use crate::asker::Asker;
use crate::engine::Engine;
use crate::format::Format;
use crate::metrics::Entrance;
use crate::question::Question;

mod body;
mod explain;
mod guard;
mod jaeger;
mod page;
mod peers;
mod refusal;
mod tempo;
mod traces;

use body::{Clock, stream_answer};
pub use guard::{Guard, guarded};
pub use page::page;
use refusal::Refusal;
pub(crate) use refusal::log_fault;

/// Routes of the query listener.
pub fn router(engine: Arc<Engine>) -> Router {
    let mut router = Router::new();
    for (path, method) in routes() {
        router = router.route(path, method);
    }
    router.merge(peers::routes()).with_state(engine)
}

/// Our own paths, each of which `openapi.json` describes.
fn routes() -> Vec<(&'static str, MethodRouter<Arc<Engine>>)> {
    vec![
        ("/v1/sql", post(run)),
        ("/v1/tables", get(list_tables)),
        ("/v1/traces/{id}", get(traces::give)),
        ("/v1/explain/{id}", get(explain::give)),
        ("/v1/openapi.json", get(describe)),
    ]
}

/// The description of these paths, and of the others on this port.
const OPENAPI: &str = include_str!("http/openapi.json");

async fn describe() -> Response {
    ([(CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

async fn list_tables(State(engine): State<Arc<Engine>>) -> Response {
    match engine.names().await {
        Ok(names) => axum::Json(names).into_response(),
        Err(error) => Refusal::from(error).into_response(),
    }
}

/// Answers a statement.
async fn run(
    State(engine): State<Arc<Engine>>,
    address: Result<Query<Choices>, QueryRejection>,
    request: Request,
) -> Response {
    let clock = Clock::start();
    match answer(&engine, address, request).await {
        Ok((answer, format)) => stream_answer(answer, format, clock).await,
        Err(refusal) => refusal.into_response(),
    }
}

async fn answer(
    engine: &Engine,
    address: Result<Query<Choices>, QueryRejection>,
    request: Request,
) -> Result<(Answer, Format), Refusal> {
    let Query(address) = address.map_err(|source| Refusal::Address {
        known: "`format` and `limit` are",
        source,
    })?;
    let (head, body) = request.into_parts();
    let asker = head.extensions.get::<Asker>().copied();
    // JSON may escape each byte of the statement with six.
    let bytes_max = engine.config().statement_bytes().saturating_mul(6);
    let body = to_bytes(body, bytes_max)
        .await
        .map_err(|_cut| Refusal::Body { bytes_max })?;
    let wanted = Wanted::read(&head.headers, &body)?;
    let format = match wanted.format.or(address.format) {
        Some(format) => format,
        None => accepted(&head.headers)?,
    };
    let question = Question {
        rows: wanted.limit.or(address.limit),
        asker,
        entrance: Entrance::Http,
        ..Question::new(wanted.sql)
    };
    let answer = engine.ask(question).await?;
    Ok((answer, format))
}

/// Choices that can be in the address.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Choices {
    format: Option<Format>,
    limit: Option<u64>,
}

/// A body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    sql: String,
    format: Option<Format>,
    limit: Option<u64>,
}

impl Wanted {
    fn read(headers: &HeaderMap, body: &[u8]) -> Result<Self, Refusal> {
        let content_type = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default();
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        match media_type.to_ascii_lowercase().as_str() {
            "application/json" => {
                serde_json::from_slice(body).map_err(|source| Refusal::Json { source })
            }
            "text/plain" | "application/sql" => {
                let sql = std::str::from_utf8(body).map_err(|source| Refusal::Utf8 { source })?;
                Ok(Self {
                    sql: sql.to_owned(),
                    format: None,
                    limit: None,
                })
            }
            _ => Err(Refusal::ContentType {
                given: content_type.to_owned(),
            }),
        }
    }
}

fn accepted(headers: &HeaderMap) -> Result<Format, Refusal> {
    let Some(accept) = headers.get(ACCEPT) else {
        return Ok(Format::Json);
    };
    let accept = accept.to_str().unwrap_or_default();
    Format::of_accept(accept).ok_or_else(|| Refusal::Accept {
        given: accept.to_owned(),
        known: "`application/json`, `text/csv`, `application/vnd.apache.arrow.stream` and \
                `application/vnd.apache.parquet`",
    })
}

#[cfg(test)]
mod tests;
