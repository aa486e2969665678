//! Points in time as people write them on the command line.

use std::time::{SystemTime, UNIX_EPOCH};

use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;

use crate::slow::parse_span;

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// So many microseconds before now.
    Ago(i64),
    /// Microseconds since 1970.
    At(i64),
}

impl Moment {
    /// Reads a time ago (`7d`); `None` if it is something else.
    pub(crate) fn ago(text: &str) -> Option<Self> {
        let ago = parse_span(text).ok()?;
        i64::try_from(ago.as_micros()).ok().map(Self::Ago)
    }

    /// Reads a date, or a date and a time; `None` if it is something else.
    pub(crate) fn at(text: &str) -> Option<Self> {
        let nanos = string_to_timestamp_nanos(text).ok()?;
        Some(Self::At(nanos.div_euclid(1_000)))
    }

    /// Microseconds since 1970.
    pub(crate) fn micros(self, now_micros: i64) -> i64 {
        match self {
            Self::Ago(micros) => now_micros.saturating_sub(micros),
            Self::At(micros) => micros,
        }
    }
}

/// Microseconds since 1970, now.
#[expect(clippy::disallowed_methods, reason = "a time ago is one before now")]
pub(crate) fn now_micros() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = now.map(|now| now.as_micros()).unwrap_or_default();
    i64::try_from(micros).unwrap_or(i64::MAX)
}
