//! Which spans a release keeps: written beside the decision for the exporters, which are told no more than where
//! this is.

use sampler::{SpanHandle, ThresholdChange};
use wal::Position;

use super::{KIND_KEPT, count, reader::Reader, threshold_flag, write_threshold};

/// Spans of one record; a release that keeps more has several.
pub(crate) const KEPT_PER_RECORD_MAX: usize = 65_536;

/// A list of kept spans, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Of the release.
    pub(crate) sequence: i64,
    /// The part before this one; [`Position::MIN`] for none.
    pub(crate) previous: Position,
    /// Spans of the release through this part.
    pub(crate) n_spans: u64,
    /// Bytes of the kept traces' spans, of the whole release.
    pub(crate) n_bytes: u64,
    /// In the order in which they are exported: that of their places.
    pub(crate) spans: Vec<KeptSpan>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptSpan {
    pub(crate) handle: SpanHandle,
    /// What becomes of its `th`.
    pub(crate) threshold: ThresholdChange,
}

impl Kept {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(KIND_KEPT);
        out.extend(self.sequence.to_le_bytes());
        out.extend(self.previous.as_u64().to_le_bytes());
        out.extend(self.n_spans.to_le_bytes());
        out.extend(self.n_bytes.to_le_bytes());
        out.extend(count(self.spans.len()));
        for KeptSpan { handle, threshold } in &self.spans {
            out.extend(handle.position.to_le_bytes());
            out.extend(handle.offset.to_le_bytes());
            out.push(threshold_flag(*threshold));
            write_threshold(*threshold, out);
        }
    }

    pub(super) fn read(mut reader: Reader<'_>) -> Result<Kept, &'static str> {
        let mut kept = Kept {
            sequence: i64::from_le_bytes(reader.array()?),
            previous: Position::from_u64(u64::from_le_bytes(reader.array()?)),
            n_spans: u64::from_le_bytes(reader.array()?),
            n_bytes: u64::from_le_bytes(reader.array()?),
            spans: Vec::new(),
        };
        for _ in 0..u32::from_le_bytes(reader.array()?) {
            let handle = reader.handle()?;
            let flags = reader.u8()?;
            let threshold = reader.threshold(flags)?;
            kept.spans.push(KeptSpan { handle, threshold });
        }
        if reader.bytes.is_empty() {
            Ok(kept)
        } else {
            Err("has bytes after its end")
        }
    }
}
