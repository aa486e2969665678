//! What trace stores are asked for: spans that meet conditions, the traces that they are in, and the names that can
//! stand in a condition.
//!
//! | module | does |
//! |---|---|
//! | [`condition`] | conditions on a span, and their SQL |
//! | [`statement`] | the text of a statement with the values that it binds |
//! | [`window`] | the time that is searched, and how a time span is written |
//! | [`names`] | services, operations, attribute keys and values, calls between services |
//! | [`traces`] | the newest traces with a matching span, what they are in short, and their matching spans |
//!
//! Each answer is made of statements through [`Engine::ask`], under the same limits and counts as any other. What a
//! client sent is in their parameters and never in their text.
//!
//! Only stored spans are found: those of kept traces. A trace that was not kept has rows in `traces` and `requests`,
//! which SQL answers about.
//!
//! Does not know HTTP, Jaeger or Tempo.
//!
//! # Decided
//!
//! **Every search has a time.** Without one from the client it is the last [`window::LOOKBACK`] ([`window::RECENT`] for
//! attribute keys and values), so that a question without a time does not read every file of the retention.
//!
//! **A condition is about one span.** All parts must hold for the same span, as in Jaeger and in a spanset of TraceQL.

pub(crate) mod condition;
pub(crate) mod names;
pub(crate) mod statement;
pub(crate) mod traces;
pub(crate) mod window;

use arrow::array::RecordBatch;
use arrow::json::ArrayWriter;
use futures::StreamExt;
use serde::de::DeserializeOwned;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::trace::Caller;

pub(crate) use condition::{Condition, Field, Operator, Scope, Value};
pub(crate) use statement::Draft;
pub(crate) use window::Window;

/// Who is asked, and for whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) caller: Caller,
}

impl Asked<'_> {
    /// All rows of an answer, at most `rows_max`. For short answers: they are held in memory.
    pub(crate) async fn rows<T: DeserializeOwned>(
        self,
        draft: Draft,
        rows_max: u64,
    ) -> Result<Vec<T>> {
        let mut question = self.caller.question(draft.text, draft.parameters);
        question.rows = Some(rows_max);
        let mut answer = self.engine.ask(question).await?;
        let mut rows = Vec::new();
        while let Some(batch) = answer.next().await {
            rows.append(&mut read(&batch?)?);
        }
        Ok(rows)
    }
}

/// Rows by the names of their columns.
fn read<T: DeserializeOwned>(batch: &RecordBatch) -> Result<Vec<T>> {
    let fault = |source: Box<dyn std::error::Error + Send + Sync>| Error::Internal {
        source: Box::new(datafusion::error::DataFusionError::External(source)),
    };
    let mut json = ArrayWriter::new(Vec::new());
    let written = json.write(batch).and_then(|()| json.finish());
    written.map_err(|source| fault(Box::new(source)))?;
    serde_json::from_slice(&json.into_inner()).map_err(|source| fault(Box::new(source)))
}
