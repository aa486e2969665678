//! What becomes of a placement over time: it is opened, confirmed, ended.

use super::Placement;

/// What has become of a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Somebody said it for the first time.
    Opened,
    /// It still holds, as far as is known: said once in [`CONFIRMED_EVERY_NANOS`].
    Confirmed,
    /// It has ended. An end that is the start says that it held at one look and at no other.
    Ended,
}

impl Event {
    /// As stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Confirmed => "confirmed",
            Self::Ended => "ended",
        }
    }
}

/// Time after which it is said again that a placement holds: whoever reads back the last hours knows all that hold.
pub const CONFIRMED_EVERY_NANOS: i64 = 3_600_000_000_000;

/// A placement and what has become of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// As it is now.
    pub placement: Placement,
    /// What has happened.
    pub event: Event,
    /// When its source said last that it holds, nanoseconds since 1970.
    pub observed_unix_nano: i64,
}
