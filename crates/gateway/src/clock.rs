//! The one place of this crate that reads a clock.
//!
//! The intake core takes the time as an argument; the edges (receivers, ticker) read it once per input
//! through a [`Clock`], which a test replaces by given time.

use std::{
    fmt,
    sync::{Arc, LazyLock},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// Nanoseconds since it was asked first, on a clock that only goes on: for how long something takes, never for when
/// it was.
pub(crate) fn stopwatch_nanos() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "the time goes into metrics alone"
    )]
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(BEGIN.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Gives the time in nanoseconds since the Unix epoch (UTC).
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// The clock of the operating system. Before 1970 it says 0, after 2554 `u64::MAX`.
    pub fn system() -> Clock {
        #[expect(
            clippy::disallowed_methods,
            reason = "the edge reads the clock, once per input"
        )]
        let now = || {
            let since_epoch = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
        };
        Clock(Arc::new(now))
    }

    /// A clock that says what `now` returns.
    pub fn given(now: impl Fn() -> u64 + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(now))
    }

    /// Nanoseconds since the Unix epoch.
    pub fn unix_nano(&self) -> u64 {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
