//! The rows of a trace as they are stored, in files of columns.

use std::time::Duration;

use super::{Error, Parts, Result, StoredTrace};
use crate::format::{Encoder, Format, Summary};

/// An Arrow IPC stream.
pub(crate) fn arrow(trace: StoredTrace) -> Result<Parts> {
    file(trace, Format::Arrow)
}

/// A Parquet file.
pub(crate) fn parquet(trace: StoredTrace) -> Result<Parts> {
    file(trace, Format::Parquet)
}

/// As an answer to a statement would be.
fn file(trace: StoredTrace, format: Format) -> Result<Parts> {
    let mut encoder = Encoder::new(format, &trace.schema()).map_err(Error::writing)?;
    let begin = encoder.begin().map_err(Error::writing)?;
    let summary = Summary {
        n_rows: 0,
        is_truncated: false,
        elapsed: Duration::ZERO,
    };
    // The end is a step of its own: `None` after the rows.
    let steps = trace.batches.into_iter().map(Some).chain([None]);
    let parts = steps.map(move |step| {
        let bytes = match &step {
            Some(batch) => encoder.batch(batch),
            None => encoder.end(summary),
        };
        bytes.map_err(Error::writing)
    });
    Ok(Box::new(std::iter::once(Ok(begin)).chain(parts)))
}
