//! Answers as bytes: JSON, CSV, an Arrow IPC stream or a Parquet file, batch by batch.
//!
//! | format | absent value | time | nested value | mark of a cut answer | error after the first row |
//! |---|---|---|---|---|---|
//! | JSON | `null` | ISO 8601 text with `Z` | array or object | `"truncated":true` | `"error":{..}` |
//! | CSV | empty | ISO 8601 text with `Z` | JSON text | trailer | body is broken off |
//! | Arrow | null | typed | typed | trailer | body is broken off |
//! | Parquet | null | typed | typed | trailer | body is broken off |
//!
//! HTTP trailers (`whyslow-row-count`, `whyslow-truncated`) come with every format if the client sends
//! `TE: trailers`. The header `whyslow-row-limit` always states the limit in force: an answer with
//! that many rows may have been cut.

mod arrow_ipc;
mod csv;
mod json;
mod parquet;

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use bytes::Bytes;
use serde::Deserialize;

pub(crate) use json::{as_text, type_name};

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    Json,
    Csv,
    Arrow,
    Parquet,
}

impl Format {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Arrow => "application/vnd.apache.arrow.stream",
            Self::Parquet => "application/vnd.apache.parquet",
        }
    }

    /// The first format of an `Accept` header that is known; `None` if there is none.
    pub(crate) fn of_accept(accept: &str) -> Option<Self> {
        first_known(accept, |media_type| match media_type {
            "application/json" | "application/*" | "*/*" => Some(Self::Json),
            "text/csv" | "text/*" => Some(Self::Csv),
            "application/vnd.apache.arrow.stream" => Some(Self::Arrow),
            "application/vnd.apache.parquet" => Some(Self::Parquet),
            _ => None,
        })
    }
}

/// What the first range of an `Accept` header that is `known` stands for. Ranges are given without parameters, in lower case.
pub(crate) fn first_known<T>(accept: &str, known: impl Fn(&str) -> Option<T>) -> Option<T> {
    accept.split(',').find_map(|range| {
        let media_type = range.split(';').next().unwrap_or_default().trim();
        known(&media_type.to_ascii_lowercase())
    })
}

/// What is known when the last row has gone out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summary {
    pub(crate) n_rows: u64,
    pub(crate) is_truncated: bool,
    pub(crate) elapsed: Duration,
}

/// An error as clients see it.
#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct Problem {
    /// Stable word for programs.
    pub(crate) code: &'static str,
    /// For people.
    pub(crate) message: String,
}

/// Writes one answer.
pub(crate) enum Encoder {
    Json(json::Encoder),
    Csv(csv::Encoder),
    Arrow(Box<arrow_ipc::Encoder>),
    Parquet(Box<parquet::Encoder>),
}

impl Encoder {
    pub(crate) fn new(format: Format, schema: &SchemaRef) -> Result<Self, ArrowError> {
        Ok(match format {
            Format::Json => Self::Json(json::Encoder::new(schema)),
            Format::Csv => Self::Csv(csv::Encoder::new(schema)),
            Format::Arrow => Self::Arrow(Box::new(arrow_ipc::Encoder::new(schema)?)),
            Format::Parquet => Self::Parquet(Box::new(parquet::Encoder::new(schema)?)),
        })
    }

    /// Bytes before the first batch.
    pub(crate) fn begin(&mut self) -> Result<Bytes, ArrowError> {
        match self {
            Self::Json(encoder) => Ok(encoder.begin()),
            Self::Csv(encoder) => encoder.begin(),
            Self::Arrow(encoder) => Ok(encoder.begin()),
            Self::Parquet(_) => Ok(Bytes::new()),
        }
    }

    /// Bytes of a batch.
    pub(crate) fn batch(&mut self, batch: &RecordBatch) -> Result<Bytes, ArrowError> {
        match self {
            Self::Json(encoder) => encoder.batch(batch),
            Self::Csv(encoder) => encoder.batch(batch),
            Self::Arrow(encoder) => encoder.batch(batch),
            Self::Parquet(encoder) => encoder.batch(batch),
        }
    }

    /// Bytes after the last batch.
    pub(crate) fn end(&mut self, summary: Summary) -> Result<Bytes, ArrowError> {
        match self {
            Self::Json(encoder) => Ok(encoder.end(summary, None)),
            Self::Csv(_) => Ok(Bytes::new()),
            Self::Arrow(encoder) => encoder.end(),
            Self::Parquet(encoder) => encoder.end(),
        }
    }

    /// Bytes that end an answer early and say why; `None` where the format has no room for it, so
    /// that the body must be broken off.
    pub(crate) fn fail(&mut self, summary: Summary, problem: &Problem) -> Option<Bytes> {
        match self {
            Self::Json(encoder) => Some(encoder.end(summary, Some(problem))),
            Self::Csv(_) | Self::Arrow(_) | Self::Parquet(_) => None,
        }
    }
}
