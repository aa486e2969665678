//! Takes the values of a record apart.

use otlp::TraceId;
use sampler::{SpanHandle, Threshold, ThresholdChange};

use super::{ERASES_THRESHOLD, RAISES_THRESHOLD};

/// Takes values off the front of a record.
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, n_bytes: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.bytes.split_at_checked(n_bytes).ok_or("is cut short")?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or("is cut short")?;
        self.bytes = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, &'static str> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn handle(&mut self) -> Result<SpanHandle, &'static str> {
        let position = u64::from_le_bytes(self.array()?);
        let offset = u32::from_le_bytes(self.array()?);
        Ok(SpanHandle { position, offset })
    }

    /// What follows these flags.
    pub(super) fn threshold(&mut self, flags: u8) -> Result<ThresholdChange, &'static str> {
        match flags {
            0 => Ok(ThresholdChange::Unchanged),
            RAISES_THRESHOLD => {
                let bits = u64::from_le_bytes(self.array()?);
                Ok(ThresholdChange::RaisedTo(Threshold::from_bits(bits)))
            }
            ERASES_THRESHOLD => Ok(ThresholdChange::Erased),
            _ => Err("holds unknown flags"),
        }
    }

    pub(super) fn trace_id(&mut self) -> Result<TraceId, &'static str> {
        TraceId::from_slice(self.take(16)?).map_err(|_| "holds an invalid trace id")
    }
}
