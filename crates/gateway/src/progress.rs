//! How far a start has come: written by the replay, read by whoever asks before the gateway runs.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

/// How much of the log has been replayed.
#[derive(Debug, Default)]
pub struct Progress {
    /// 0 until it is known.
    total_bytes: AtomicU64,
    done_bytes: AtomicU64,
}

/// A step that is worth a line in the program's log.
const STEP_PERCENT: u64 = 10;

/// A log that is replayed in a moment needs no lines.
const SILENT_BYTES_MAX: u64 = 64 << 20;

impl Progress {
    /// The replay reads so many bytes.
    pub(crate) fn begin(&self, total_bytes: u64) {
        self.done_bytes.store(0, Ordering::Relaxed);
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
    }

    /// It has read so many more.
    pub(crate) fn advance(&self, n_bytes: u64) {
        let before = self.percent();
        self.done_bytes.fetch_add(n_bytes, Ordering::Relaxed);
        let after = self.percent();
        let total_bytes = self.total_bytes.load(Ordering::Relaxed);
        if total_bytes > SILENT_BYTES_MAX && after / STEP_PERCENT > before / STEP_PERCENT {
            tracing::info!(total_bytes, "{self}");
        }
    }

    /// From 0 to 100.
    pub fn percent(&self) -> u64 {
        let total_bytes = self.total_bytes.load(Ordering::Relaxed);
        let done_bytes = self.done_bytes.load(Ordering::Relaxed).saturating_mul(100);
        done_bytes.checked_div(total_bytes).unwrap_or(0).min(100)
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "replaying {} %", self.percent())
    }
}

#[cfg(test)]
mod tests {
    use super::Progress;

    #[test]
    fn progress_is_said_in_percent() {
        let progress = Progress::default();
        assert_eq!(progress.to_string(), "replaying 0 %");
        progress.begin(1000);
        progress.advance(430);
        assert_eq!(progress.to_string(), "replaying 43 %");
        progress.advance(10_000);
        assert_eq!(progress.to_string(), "replaying 100 %");
    }
}
