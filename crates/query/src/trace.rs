//! One stored trace, whole, by its id.
//!
//! [`read`] asks for the rows by a statement like any other: under the same limits and counts, as a needle
//! (`trace_id` has a bloom filter), committed rows and fresh ones. `id` reads an id in the forms in which people
//! paste it, `otlp` turns rows back into OTLP, `files` and `perfetto` give them in other formats, `surroundings` reads what
//! was measured at that time, and `absent` says why there is nothing.
//!
//! # What OTLP made of rows does not have
//!
//! - What redaction removed and what it cut; a cut text ends with a mark.
//! - The types of attributes without a column of their own: a map holds text. What reads as a boolean, a number or a
//!   list comes back as that (`"42"` and the double 42.0 as the whole number 42, base64 of bytes as a text);
//!   `tables::spans` has the rules. Keys with a column come back with their type. Where an alias of such a key was sent
//!   that accounts for the column, the row does not say whether the key was sent too, and only the alias comes back.
//! - Attributes and schema URLs of scopes, unknown fields, links' ids that are none, all but the last value of a
//!   repeated key, times that 63 bits do not hold (0 stands for them), the order of attributes and of spans.
//! - Lists in maps deeper than `otlp::NESTING_MAX`: they come as their text, because readers of protobuf refuse what
//!   nests deeper than 100 messages.
//!
//! Does not know HTTP, nor what is made of spans.
//!
//! # Decided
//!
//! **Whole or not at all.** A trace of more than [`crate::Config::trace_spans_max`] spans, or of more memory than
//! one statement may have, is refused: a waterfall of half a trace would be taken for the whole.

mod absent;
mod files;
mod id;
mod otlp;
mod perfetto;
mod surroundings;

use std::sync::Arc;

use ::arrow::array::RecordBatch;
use ::arrow::datatypes::{Schema, SchemaRef};
use ::otlp::TraceId;
use bytes::Bytes;
use datafusion::common::ScalarValue;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use futures::StreamExt;
use tables::spans::ReadError;

use crate::asker::Asker;
use crate::engine::Engine;
use crate::error::Error as StatementError;
use crate::metrics::Entrance;
use crate::question::Question;

pub(crate) use absent::{Absence, why_absent};
pub(crate) use files::{arrow, parquet};
pub(crate) use id::{IdError, parse_id, traceparent};
pub(crate) use otlp::{json, protobuf};
pub(crate) use perfetto::perfetto;
pub(crate) use surroundings::surroundings;

/// Who asks, and through which door.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) asker: Option<Asker>,
    pub(crate) entrance: Entrance,
}

impl Caller {
    /// A statement of this caller.
    pub(crate) fn question(self, sql: impl Into<String>, parameters: Vec<ScalarValue>) -> Question {
        Question {
            parameters,
            asker: self.asker,
            entrance: self.entrance,
            ..Question::new(sql)
        }
    }
}

/// In which order the rows come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// By service, then scope, then start: neighbours share what surrounds them in OTLP.
    Resource,
    /// By start.
    Start,
}

impl Order {
    /// What rows are sorted by.
    pub(crate) fn columns(self) -> &'static str {
        match self {
            Self::Resource => {
                "service_name, service_instance_id, scope_name, start_time_unix_nano, span_id"
            }
            Self::Start => "start_time_unix_nano, span_id",
        }
    }
}

/// The rows of one trace.
#[derive(Debug)]
pub(crate) struct StoredTrace {
    pub(crate) trace_id: TraceId,
    /// Every column of `spans`; at least one batch, which may be empty.
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) n_spans: usize,
}

/// Why a trace cannot be given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Statement(#[from] StatementError),
    #[error(
        "trace {trace_id} has more than {spans_max} spans, the limit `trace_spans_max`; ask for a part of it by SQL: \
         SELECT .. FROM spans WHERE trace_id = '{trace_id}' AND .."
    )]
    TooManySpans { trace_id: TraceId, spans_max: u64 },
    #[error(
        "the spans of trace {trace_id} take more than {memory_mib} MiB, the limit `memory_mib`; ask for a part of it by \
         SQL: SELECT .. FROM spans WHERE trace_id = '{trace_id}' AND .."
    )]
    TooLarge { trace_id: TraceId, memory_mib: u64 },
    #[error(
        "the trace and what is around it have more than {rows_max} rows, the limit `trace_spans_max`"
    )]
    TooManyRows { rows_max: u64 },
    #[error("the stored spans cannot be read back")]
    Rows(#[from] ReadError),
    #[error("the stored spans cannot be written in this format")]
    Write {
        /// What the encoding says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    pub(crate) fn writing(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Write {
            source: source.into(),
        }
    }
}

/// The parts of a file, made as they are taken.
pub(crate) type Parts = Box<dyn Iterator<Item = Result<Bytes>> + Send>;

/// Result of this module.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Reads every span of a trace that is stored; there may be none.
///
/// # Errors
///
/// As [`Engine::answer`], and [`Error::TooManySpans`] or [`Error::TooLarge`].
pub(crate) async fn read(
    engine: &Engine,
    trace_id: TraceId,
    caller: Caller,
    order: Order,
) -> Result<StoredTrace> {
    let config = engine.config();
    let columns = order.columns();
    let sql = format!("SELECT * FROM spans WHERE trace_id = $1 ORDER BY {columns}");
    let question = Question {
        rows: Some(config.trace_spans_max),
        ..caller.question(sql, vec![ScalarValue::from(trace_id.to_string())])
    };
    let mut answer = engine.ask(question).await?;
    let mut trace = StoredTrace {
        trace_id,
        batches: Vec::new(),
        n_spans: 0,
    };
    let mut n_bytes = 0_usize;
    while let Some(batch) = answer.next().await {
        let batch = batch?;
        n_bytes = n_bytes.saturating_add(get_record_batch_memory_size(&batch));
        if n_bytes > config.memory_bytes() {
            let memory_mib = config.memory_mib;
            return Err(Error::TooLarge {
                trace_id,
                memory_mib,
            });
        }
        trace.n_spans += batch.num_rows();
        trace.batches.push(batch);
    }
    if answer.is_truncated() {
        return Err(Error::TooManySpans {
            trace_id,
            spans_max: answer.rows_max(),
        });
    }
    if trace.batches.is_empty() {
        let schema = Arc::clone(answer.schema());
        trace.batches.push(RecordBatch::new_empty(schema));
    }
    Ok(trace)
}

impl StoredTrace {
    /// The columns of its rows.
    fn schema(&self) -> SchemaRef {
        let first = self.batches.first();
        first.map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema)
    }

    /// Is nothing of it stored?
    pub(crate) fn is_empty(&self) -> bool {
        self.n_spans == 0
    }
}

#[cfg(test)]
mod tests;
