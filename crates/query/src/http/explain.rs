//! `GET /v1/explain/{id}`: why the requests of one trace were slow.
//!
//! `{"trace_id": .., "requests": 2, "explanations": [..]}`, an explanation per engine request, the longest first, at most
//! [`EXPLANATIONS_MAX`]; `requests` says how many there are. Each is the object of `whyslow explain --format json`;
//! each fact in it has `sql`, the statement that shows the rows behind it. `?span=` asks for the request of one engine span.
//!
//! Ids and 404 are those of `/v1/traces/{id}`. A trace whose spans were not kept is explained from its requests, which are.

use std::future::Future;
use std::sync::Arc;

use arrow::array::RecordBatch;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, State};
use axum::response::{IntoResponse, Response};
use futures::TryStreamExt;
use otlp::{SpanId, TraceId};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::refusal::Refusal;
use super::traces::caller;
use crate::asker::Asker;
use crate::engine::Engine;
use crate::error::{Error as StatementError, Phase};
use crate::explain::{self, Ask, AskError, Source};
use crate::question::Question;
use crate::trace::{self, Caller, IdError};

/// Requests of one trace that are explained; an agent's trace may have hundreds.
const EXPLANATIONS_MAX: usize = 16;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Choices {
    span: Option<String>,
}

/// Explains a trace.
pub(super) async fn give(
    State(engine): State<Arc<Engine>>,
    id: Result<Path<String>, PathRejection>,
    address: Result<Query<Choices>, QueryRejection>,
    asker: Option<Extension<Asker>>,
) -> Response {
    let caller = caller(asker);
    match answer(&engine, id, address, caller).await {
        Ok(said) => axum::Json(said).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

async fn answer(
    engine: &Engine,
    id: Result<Path<String>, PathRejection>,
    address: Result<Query<Choices>, QueryRejection>,
    caller: Caller,
) -> Result<Value, Refusal> {
    let Path(id) = id.map_err(|_not_utf8| IdError)?;
    let trace_id = trace::parse_id(&id)?;
    let Query(choices) = address.map_err(|source| Refusal::Address {
        known: "`span` is",
        source,
    })?;
    let span = choices.span.as_deref().map(SpanId::parse_hex).transpose();
    let span = span.map_err(|source| Refusal::SpanId { source })?;
    let limit = engine.config().timeout;
    // Boxed: what asks for everything is large.
    let said = Box::pin(said(engine, trace_id, span, caller));
    let said = timeout(limit, said).await;
    said.unwrap_or_else(|_over| {
        let phase = Phase::Streaming;
        Err(StatementError::TimedOut { limit, phase }.into())
    })
}

async fn said(
    engine: &Engine,
    trace_id: TraceId,
    span: Option<SpanId>,
    caller: Caller,
) -> Result<Value, Refusal> {
    let source = Source::new(Asked { engine, caller });
    let subjects = match explain::load(&source, trace_id, span, EXPLANATIONS_MAX).await {
        Ok(subjects) => subjects,
        Err(explain::Error::Nothing { .. }) => {
            let why = trace::why_absent(engine, trace_id, caller).await?;
            return Err(Refusal::Absent { trace_id, why });
        }
        Err(error @ explain::Error::NoRequest { .. }) => return Err(Refusal::NoRequest(error)),
        Err(explain::Error::Asked(error)) => return Err(of_statement(error)),
        Err(error @ (explain::Error::Column { .. } | explain::Error::Id { .. })) => {
            return Err(trace::Error::Write {
                source: Box::new(error),
            }
            .into());
        }
    };
    let explanations = subjects.iter().map(|subject| {
        let explanation = correlate::explain(&subject.facts);
        explain::object(subject, &explanation)
    });
    let n_requests = subjects.first().map_or(0, |subject| subject.n_requests);
    Ok(json!({
        "trace_id": trace_id.to_string(),
        "requests": n_requests,
        "explanations": explanations.collect::<Vec<_>>(),
    }))
}

/// The engine's own errors come back as they went in.
fn of_statement(error: AskError) -> Refusal {
    match error.downcast::<trace::Error>() {
        Ok(error) => Refusal::Trace(*error),
        Err(source) => Refusal::Trace(trace::Error::Write { source }),
    }
}

/// This engine, asked in the name of a caller.
struct Asked<'a> {
    engine: &'a Engine,
    caller: Caller,
}

impl Ask for Asked<'_> {
    fn rows(&self, sql: &str) -> impl Future<Output = Result<Vec<RecordBatch>, AskError>> {
        let question = Question {
            rows: Some(self.engine.config().trace_spans_max),
            ..self.caller.question(sql, Vec::new())
        };
        async move {
            let mut answer = self
                .engine
                .ask(question)
                .await
                .map_err(trace::Error::from)?;
            let batches = (&mut answer).try_collect().await;
            let batches = batches.map_err(trace::Error::from)?;
            if answer.is_truncated() {
                let rows_max = answer.rows_max();
                return Err(trace::Error::TooManyRows { rows_max }.into());
            }
            Ok(batches)
        }
    }
}
