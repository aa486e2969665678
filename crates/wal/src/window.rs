//! A bounded view that moves over a segment's file.

use std::io;
use std::sync::Arc;

use crate::disk::DiskFile;

/// Bytes that are read at once: large enough that a disk streams, small enough to hold one per reader.
const WINDOW_BYTES: u32 = 1024 * 1024;

/// Reads a file piece by piece. Holds at most [`WINDOW_BYTES`], or one record if that is larger.
#[derive(Debug)]
pub(crate) struct Window<F> {
    file: Arc<F>,
    /// Nothing is read from here on.
    end: u32,
    /// The bytes of the file from `start`, `filled` of them valid.
    buffer: Vec<u8>,
    start: u32,
    filled: u32,
}

impl<F: DiskFile> Window<F> {
    pub(crate) fn new(file: Arc<F>, end: u32) -> Self {
        Self {
            file,
            end,
            buffer: Vec::new(),
            start: 0,
            filled: 0,
        }
    }

    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// `n_bytes` from `offset` on; `None` where the file has fewer.
    ///
    /// The buffer never grows past the file, so a damaged length costs no memory.
    pub(crate) fn bytes(&mut self, offset: u32, n_bytes: u32) -> io::Result<Option<&[u8]>> {
        let Some(available) = self.end.checked_sub(offset).filter(|&rest| rest >= n_bytes) else {
            return Ok(None);
        };
        if self.held(offset, n_bytes).is_none() {
            let want = n_bytes.max(WINDOW_BYTES).min(available);
            let want_len = usize_from(want);
            if self.buffer.len() < want_len {
                self.buffer.resize(want_len, 0);
            }
            self.filled = 0;
            if let Some(room) = self.buffer.get_mut(..want_len) {
                self.file.read_exact_at(room, offset.into())?;
            }
            self.start = offset;
            self.filled = want;
        }
        Ok(self.held(offset, n_bytes))
    }

    fn held(&self, offset: u32, n_bytes: u32) -> Option<&[u8]> {
        let from = offset.checked_sub(self.start)?;
        let to = from.checked_add(n_bytes).filter(|&to| to <= self.filled)?;
        self.buffer.get(usize_from(from)..usize_from(to))
    }
}

/// No cast can cut here: the crate needs at least 32 bits of address.
pub(crate) const fn usize_from(n: u32) -> usize {
    const { assert!(usize::BITS >= u32::BITS) };
    n as usize
}
