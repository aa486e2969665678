//! What can go wrong, where, and what its caller may do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::position::Position;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What failed, with its place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number in [`Config`](crate::Config) is out of its range.
    #[error("`{field}` is {value}, but must be from {min} to {max}")]
    InvalidConfig {
        /// The field's name.
        field: &'static str,
        /// What it was set to.
        value: u64,
        /// The smallest value allowed.
        min: u64,
        /// The largest value allowed.
        max: u64,
    },
    /// Another process (or another `Wal` of this one) has the log open.
    #[error(
        "the log folder `{}` is in use by another process; stop that process, or give this one a folder of its own",
        directory.display()
    )]
    Locked {
        /// The log's folder.
        directory: PathBuf,
    },
    /// The disk refused a call.
    #[error("cannot {operation} `{}`", path.display())]
    Io {
        /// What was tried.
        operation: Operation,
        /// On which file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// An earlier write or sync failed, so what the disk holds is not known: nothing is appended any more.
    #[error(
        "the log takes no records since it could not {operation} `{}`; restart once the disk is sound",
        path.display()
    )]
    Poisoned {
        /// What had failed.
        operation: Operation,
        /// On which file or folder.
        path: PathBuf,
    },
    /// Stored bytes are damaged in a place where a crash cannot have done it.
    #[error(
        "`{}` is damaged at byte {offset}: {defect}; restore the file from a copy, or move it and the segments \
         before it out of the folder, which loses their records",
        path.display()
    )]
    Corrupt {
        /// The segment's file.
        path: PathBuf,
        /// Where in the file the damage was found.
        offset: u64,
        /// What is wrong there.
        defect: Defect,
    },
    /// The segment was written in another version of the format.
    #[error(
        "`{}` has format version {found}, this program reads version {supported}; run the version that wrote it",
        path.display()
    )]
    UnsupportedVersion {
        /// The segment's file.
        path: PathBuf,
        /// The version in the file.
        found: u32,
        /// The version that is supported.
        supported: u32,
    },
    /// The record is larger than [`Config::record_bytes_max`](crate::Config::record_bytes_max).
    #[error("a record of {record_bytes} bytes is larger than the limit of {record_bytes_max}")]
    RecordTooLarge {
        /// The record's size.
        record_bytes: u64,
        /// The limit.
        record_bytes_max: u32,
    },
    /// The last possible segment number is used up (after 2^32 - 1 segments).
    #[error("the log in `{}` has no segment numbers left; start one in a new folder", directory.display())]
    OutOfSegments {
        /// The log's folder.
        directory: PathBuf,
    },
    /// Nothing was flushed at this position yet.
    #[error("position {position} is not flushed yet, the log is flushed up to {flushed}")]
    NotFlushed {
        /// The position asked for.
        position: Position,
        /// Records before this one can be read.
        flushed: Position,
    },
    /// The segment of this position was deleted.
    #[error(
        "the segment of position {position} was deleted, the log starts with segment {first_segment}"
    )]
    Deleted {
        /// The position asked for.
        position: Position,
        /// The number of the first segment that is kept.
        first_segment: u32,
    },
}

impl Error {
    pub(crate) fn io(operation: Operation, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io {
            operation,
            path: path.into(),
            source,
        }
    }

    /// Is the disk (or the quota) full? Deleting segments or files helps, and the append may be tried again.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_full(source))
    }

    /// Are stored bytes damaged? Needs a person; trying again does not help.
    pub fn is_corrupt(&self) -> bool {
        matches!(self, Self::Corrupt { .. })
    }

    /// Has the log stopped taking records until the process is restarted?
    pub fn is_poisoned(&self) -> bool {
        matches!(self, Self::Poisoned { .. })
    }

    /// Has another process the log open?
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Locked { .. })
    }

    /// Was the record asked for deleted with its segment?
    pub fn is_deleted(&self) -> bool {
        matches!(self, Self::Deleted { .. })
    }

    /// May the same call work later without a person's help? Only a full disk empties itself, as segments are
    /// deleted.
    pub fn is_retryable(&self) -> bool {
        self.is_full()
    }
}

/// Did the file system answer that there is no room?
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// A disk call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Create a file or folder.
    Create,
    /// Lock the folder.
    Lock,
    /// List the folder.
    List,
    /// Open a file.
    Open,
    /// Read from a file.
    Read,
    /// Write to a file.
    Write,
    /// Sync a file or folder.
    Sync,
    /// Cut a file's end off.
    Truncate,
    /// Remove a file.
    Remove,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Lock => "lock",
            Self::List => "list",
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write to",
            Self::Sync => "sync",
            Self::Truncate => "truncate",
            Self::Remove => "remove",
        })
    }
}

/// What is wrong with stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The segment's header does not match its checksum, or is none.
    SegmentHeader,
    /// The segment's header holds another number than its file name.
    SegmentNumber,
    /// The file is longer than any segment can be.
    SegmentTooLong,
    /// The segment does not end where the next one says it does.
    SegmentEnd,
    /// A segment between this one and the next is not there.
    SegmentMissing,
    /// A record's header does not match its checksum.
    RecordHeader,
    /// A record's bytes end before its length.
    RecordLength,
    /// A record's bytes do not match their checksum.
    RecordPayload,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SegmentHeader => "the segment's header does not match its checksum",
            Self::SegmentNumber => "the segment's header holds another number than the file's name",
            Self::SegmentTooLong => "the file is longer than a segment can be",
            Self::SegmentEnd => "the segment does not end where the next one says",
            Self::SegmentMissing => "the segment that follows this one is missing",
            Self::RecordHeader => "a record's header does not match its checksum",
            Self::RecordLength => "a record is cut short",
            Self::RecordPayload => "a record does not match its checksum",
        })
    }
}
