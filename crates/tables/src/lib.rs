//! Every stored column, defined once, and the builders that turn telemetry into batches of exactly
//! those columns.
//!
//! [`Spec`] is the stored contract: names, types, meaning and layout of a table. [`spans`] reads
//! spans straight from their bytes into Arrow builders and applies [`redact`] on the way;
//! [`traces`] and [`requests`] take rows that others have computed; [`samples`] turns metrics exports
//! into rows of GPUs and engines; [`placements`] takes who held which GPU, [`batches`] scheduling steps and the shares of
//! their time. [`reference()`] prints the contract as Markdown.
//!
//! Rules of every table: absence is NULL, never 0; times are `Timestamp(us, UTC)` beside a
//! `*_unix_nano` integer where nanoseconds matter; ids are lower-case hex; units come last in a
//! name; only types that every Delta reader knows (no unsigned, dictionary, fixed-size, view or
//! nanosecond type).
//!
//! Does not know files, commits, joins or SQL, and reads no clock.

mod column;
mod error;
mod reference;
mod row;
mod time;

pub mod batches;
pub mod evidence;
pub mod placements;
pub mod redact;
pub mod requests;
pub mod samples;
pub mod spans;
pub mod traces;

pub use column::{Column, ColumnType, Origin, SortKey, Spec};
pub use error::{Error, Result};
pub use reference::reference;
pub use spans::texts;

/// The partition column of every table: `Date32`, the UTC day of the row's start time. A start
/// before the year 2000 (a clock that does not count from 1970) or past what 64 bits of
/// nanoseconds hold falls back to the day on which the row was received, so that no sender can
/// create partitions in 1970 or 2262.
pub const PARTITION: &str = "date";

/// Every table that this crate defines.
pub fn all() -> [&'static Spec; 8] {
    [
        &spans::SPEC,
        &traces::SPEC,
        &requests::SPEC,
        &samples::gpu::SPEC,
        &samples::engine::SPEC,
        &placements::SPEC,
        &evidence::SPEC,
        &batches::SPEC,
    ]
}

/// The table with this name.
pub fn spec(name: &str) -> Option<&'static Spec> {
    all().into_iter().find(|spec| spec.name == name)
}

#[cfg(test)]
mod tests;
