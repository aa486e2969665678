//! The rows of a trace as they are stored, in files of columns.

use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::{Error, Parts, Result, StoredTrace};
use crate::format::{Encoder, Format, Summary};

/// An Arrow IPC stream.
pub(crate) fn arrow(trace: StoredTrace) -> Result<Parts> {
    let schema = trace.schema();
    let mut encoder = Encoder::new(Format::Arrow, &schema).map_err(Error::writing)?;
    let begin = encoder.begin().map_err(Error::writing)?;
    let summary = Summary {
        n_rows: 0,
        is_truncated: false,
        elapsed: std::time::Duration::ZERO,
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

/// A Parquet file, a row group per batch, so that no more than one is in memory twice.
pub(crate) fn parquet(trace: StoredTrace) -> Result<Parts> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let writer = ArrowWriter::try_new(Vec::new(), trace.schema(), Some(properties));
    let mut writer = writer.map_err(Error::writing)?;
    let steps = trace.batches.into_iter().map(Some).chain([None]);
    let parts = steps.map(move |step| {
        let written = match &step {
            Some(batch) => writer.write(batch).and_then(|()| writer.flush()),
            None => writer.finish().map(drop),
        };
        written.map_err(Error::writing)?;
        Ok(Bytes::from(std::mem::take(writer.inner_mut())))
    });
    Ok(Box::new(parts))
}
