//! Where the log lies and how large its pieces are.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::record::RECORD_HEADER_BYTES;
use crate::segment::SEGMENT_HEADER_BYTES;

/// Settings of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The folder of the log; created if it is not there. One process at a time may have it open.
    pub directory: PathBuf,
    /// Size in bytes at which a segment is sealed and the next one started; 64 MiB unless set.
    ///
    /// Disk space is given back in whole segments, so a smaller segment frees space sooner and costs more files.
    /// A record that is larger gets a segment of its own. At least 4 KiB, at most 4 GiB - 1.
    pub segment_bytes: u64,
    /// Largest record in bytes that is accepted; 32 MiB unless set.
    ///
    /// Lowering it does not make stored records unreadable. At least 1.
    pub record_bytes_max: u32,
}

impl Config {
    /// The smallest segment: one disk page.
    const SEGMENT_BYTES_MIN: u64 = 4096;
    /// Offsets in a segment are 32 bits wide.
    const SEGMENT_BYTES_MAX: u64 = u32::MAX as u64;
    /// The largest record still fits a segment of its own.
    const RECORD_BYTES_MAX: u32 = u32::MAX
        .saturating_sub(SEGMENT_HEADER_BYTES)
        .saturating_sub(RECORD_HEADER_BYTES);

    /// The default sizes, in this folder.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            ..Self::default()
        }
    }

    /// # Errors
    ///
    /// [`Error::InvalidConfig`] with the field and its range.
    pub fn validate(&self) -> Result<()> {
        let fields = [
            (
                "segment_bytes",
                self.segment_bytes,
                Self::SEGMENT_BYTES_MIN,
                Self::SEGMENT_BYTES_MAX,
            ),
            (
                "record_bytes_max",
                self.record_bytes_max.into(),
                1,
                Self::RECORD_BYTES_MAX.into(),
            ),
        ];
        for (field, value, min, max) in fields {
            if value < min || value > max {
                return Err(Error::InvalidConfig {
                    field,
                    value,
                    min,
                    max,
                });
            }
        }
        Ok(())
    }
}

impl Default for Config {
    /// The folder is `wal` under the working directory.
    fn default() -> Self {
        Self {
            directory: PathBuf::from("wal"),
            segment_bytes: 64 * 1024 * 1024,
            record_bytes_max: 32 * 1024 * 1024,
        }
    }
}
