//! Why the requests of one trace were slow: the facts that are stored, what follows from them, and the statements
//! that show the rows behind each fact.
//!
//! `facts` and `batches` ask for what is stored about a request and its surroundings, by SQL, of whoever answers it
//! ([`Ask`]: this engine, or a server that is asked over HTTP); the crate `correlate` explains; `json` says it for
//! programs. What is not stored is not known, and is said to be so.
//!
//! Statements are text, because they are shown. An id in one is the hex digits of a `TraceId` or a `SpanId`, which can be
//! nothing else; text that comes from rows is a literal of [`quoted`].
//!
//! Does not know how an explanation reads for people, nor where the rows are.

mod batches;
mod facts;
mod json;
mod rows;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use otlp::{IdError, SpanId, TraceId};

pub use facts::{Described, Subject, load};
pub use json::object;
pub use rows::Source;

/// Answers statements.
pub trait Ask {
    /// All rows of an answer.
    fn rows(&self, sql: &str) -> impl Future<Output = Result<Vec<RecordBatch>, AskError>>;
}

/// Whatever whoever is asked says.
pub type AskError = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing is stored.
    #[error(
        "nothing is stored about trace {trace_id}: it was not kept, is not decided yet, or is older than rows are kept \
         (`whyslow slow` lists requests that are there)"
    )]
    Nothing {
        /// The trace.
        trace_id: TraceId,
    },
    /// The trace has no such request.
    #[error("trace {trace_id} has no request with the engine span {span_id}")]
    NoRequest {
        /// The trace.
        trace_id: TraceId,
        /// The span that was asked for.
        span_id: SpanId,
    },
    /// A statement has no answer.
    #[error(transparent)]
    Asked(AskError),
    /// An answer has another form than its statement asks for.
    #[error("read column `{column}` of an answer")]
    Column {
        /// Its name.
        column: String,
        /// What Arrow says.
        #[source]
        source: ArrowError,
    },
    /// A row has no id where it must have one.
    #[error("a row has no valid `{column}`")]
    Id {
        /// The column.
        column: &'static str,
        /// What is wrong with it; `None` if it is NULL.
        #[source]
        source: Option<IdError>,
    },
}

/// Result of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A text as a literal of SQL.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A column of an answer; texts as `Utf8`, numbers and times as `Int64`, in the unit stored.
///
/// # Errors
///
/// There is no such column, or it cannot be cast.
pub fn cells(batch: &RecordBatch, name: &str) -> Result<ArrayRef, ArrowError> {
    let column = batch
        .column_by_name(name)
        .ok_or_else(|| ArrowError::SchemaError(format!("the answer has no column `{name}`")))?;
    let data_type = match column.data_type() {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::Timestamp(..) | DataType::UInt64 | DataType::Int32 => DataType::Int64,
        _ => return Ok(ArrayRef::clone(column)),
    };
    cast(column, &data_type)
}
