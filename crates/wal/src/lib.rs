//! A write-ahead log: appends opaque records durably, gives each a position, gives them back after a crash.
//!
//! It does not know what is in a record, reads no clock and starts no thread: when to flush, to sync and to delete is
//! its caller's decision.
//!
//! # Limits
//!
//! | what | limit |
//! | --- | --- |
//! | record | [`Config::record_bytes_max`], 32 MiB by default; it never spans segments |
//! | segment | [`Config::segment_bytes`], 64 MiB by default; a larger record has one of its own; below 4 GiB always |
//! | segments | numbers 1 to 2^32 - 1, never used twice for records that were synced |
//! | memory | the write buffer (1 MiB, or one record), 1 MiB or one record for each iterator, 32 open files |
//! | writers | one `Wal` for a folder, held by a lock; any number of [`Reader`]s inside that process |
//!
//! # Layout
//!
//! The folder holds `LOCK` (empty) and a file for each segment, `0000000001.wal` and so on; other files are left
//! alone. All numbers are little-endian; checksums are CRC-32 (IEEE), taken on from the start value in parentheses.
//!
//! ```text
//! segment header, 40 bytes                        record, 16 bytes and the payload
//!  0  magic "WHYSLWAL"                             0  payload length        u32
//!  8  format version = 1             u32           4  durable               u32
//! 12  segment number                 u32           8  checksum (seed) of 0..8          u32
//! 16  end of the segment before      position     12  checksum (the one at 8) of the payload  u32
//! 24  durable                        position     16  payload
//! 32  salt                           u32
//! 36  checksum (0) of 0..36          u32          seed = salt xor offset of the record in the file
//! ```
//!
//! A position is a u64: segment number in the upper half, offset in the file in the lower one ([`Position`]).
//!
//! *Durable* is what was known to be synced at that moment: in a segment's header a position, everything before it; in
//! a record the number of bytes of its own segment, and all segments before; or 1 if not even those. It is what tells
//! damage from a torn tail.
//!
//! # What holds after each step
//!
//! | after | survives |
//! | --- | --- |
//! | [`Wal::append`] | nothing yet: the record is in memory |
//! | [`Wal::flush`] | the end of the process, however it ends (`kill -9`) |
//! | [`Wal::sync`], [`SyncHandle::sync`] | a power failure |
//! | [`Wal::open`] | everything it recovered is synced |
//!
//! # Recovery
//!
//! [`Wal::open`] reads the whole log and keeps the longest run of whole records from its start. Where that run ends
//! before the files do, either a crash tore the tail or somebody damaged stored bytes. It is damage, an
//! [`Error::Corrupt`] that changes nothing, if any later header or record says that the place was durable once: a sync
//! had returned, so no crash can have done it. Otherwise it is a torn tail and is cut, with what comes after it: the
//! file system wrote unsynced pages in any order before the power failed (an unwritten page reads as zeros). What
//! was cut is in [`Recovery`]. A cut removes later segments first, the last one first, so that a crash in between
//! leaves a log that is cut the same way.
//!
//! # Decided
//!
//! - **A damaged last record is a torn tail.** Nothing after it can say otherwise; the log loses that record and the
//!   number of bytes cut is reported. Rejected: to refuse the start, as every crash in a write would need a person.
//! - **Rotation does not sync.** The caller's sync policy alone decides what survives a power failure, and appending
//!   does not wait for a disk. [`Wal::sync`] covers sealed segments too; at most 8 of them wait for it, then rotation
//!   syncs the oldest. Rejected: sync at the end of each segment, which makes "torn tail" a matter of the last
//!   segment alone, but stalls the one thread that appends for as long as a disk needs for 64 MiB.
//! - **Durable marks in the records.** Rejected: "a whole record after the damage means damage", which takes holes
//!   that a power failure leaves for damage and needs a person after it.
//! - **Salted checksums.** Payloads are strangers' bytes. A salt from the random source per segment, with the record's
//!   offset, keeps a payload from passing for a record when the log is searched behind a damaged place.
//! - **A full disk does not poison.** What was written of the flush is cut off again and the cut synced; the records
//!   that were not flushed are given up as a whole, so that their senders can be told ([`Wal::flush`]). Any other
//!   failed write or sync poisons the log: what the disk holds is not known, and a second sync could claim what the
//!   first one lost.

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(clippy::wildcard_enum_match_arm)]

mod config;
mod disk;
mod error;
mod position;
mod reader;
mod record;
mod records;
mod recover;
mod segment;
mod shared;
#[cfg(any(test, feature = "testing"))]
pub mod sim;
mod sync;
#[cfg(test)]
mod tests;
mod wal;
mod window;

pub use crate::config::Config;
pub use crate::disk::{Disk, DiskFile, RealDisk};
pub use crate::error::{Defect, Error, Operation, Result};
pub use crate::position::Position;
pub use crate::reader::Reader;
pub use crate::records::Records;
pub use crate::recover::Recovery;
pub use crate::sync::SyncHandle;
pub use crate::wal::{Folder, Segment, Wal};
