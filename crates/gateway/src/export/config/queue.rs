//! `sending_queue`: how much is sent at once, and keys that the log makes meaningless.

use serde::Deserialize;

use super::{Unused, written};

/// What receivers accept by default is 4 MiB; the rest is room for what surrounds the last spans.
pub const REQUEST_BYTES_MAX: u64 = (4 << 20) - (64 << 10);

/// `sending_queue` of an exporter, keys as in the Collector. The queue is the log, whatever is written here: nothing
/// is lost when it is long, and it is there after a restart.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SendingQueue {
    /// The queue is always there.
    pub enabled: Unused,
    /// Requests on their way at once, from 1 to 64: what a crash may send twice. Default 1 (the Collector: 10).
    pub num_consumers: u32,
    /// How large a request may be.
    pub batch: Batch,
    /// The log is on disk.
    pub storage: Unused,
    /// The disk is the limit, see `log_bytes_max` of the extension `intake`.
    pub queue_size: Unused,
    /// As above.
    pub sizer: Unused,
    /// Senders wait for the log, never for the backend.
    pub wait_for_result: Unused,
    /// Senders are told to retry when the log is full.
    pub block_on_overflow: Unused,
}

impl Default for SendingQueue {
    fn default() -> Self {
        SendingQueue {
            enabled: Unused::default(),
            num_consumers: 1,
            batch: Batch::default(),
            storage: Unused::default(),
            queue_size: Unused::default(),
            sizer: Unused::default(),
            wait_for_result: Unused::default(),
            block_on_overflow: Unused::default(),
        }
    }
}

/// `sending_queue.batch` of an exporter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Batch {
    /// What `max_size` counts: `items` (spans, default) or `bytes` of a request before compression.
    pub sizer: Sizer,
    /// The largest request; 0 is none beside 4 MiB, which receivers accept by default. A larger span is sent alone.
    /// Default 0.
    pub max_size: u64,
    /// What is decided is sent at once.
    pub min_size: Unused,
    /// As above.
    pub flush_timeout: Unused,
}

/// What a size counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sizer {
    /// Spans.
    #[default]
    Items,
    /// Bytes.
    Bytes,
}

impl SendingQueue {
    /// The largest request, in bytes before compression and in spans.
    pub fn request_max(&self) -> (usize, usize) {
        let size = usize::try_from(self.batch.max_size).unwrap_or(usize::MAX);
        let n_bytes = usize::try_from(REQUEST_BYTES_MAX).unwrap_or(usize::MAX);
        match self.batch.sizer {
            _ if size == 0 => (n_bytes, usize::MAX),
            Sizer::Items => (n_bytes, size),
            Sizer::Bytes => (size, usize::MAX),
        }
    }

    pub(super) fn unused(&self) -> Vec<&'static str> {
        written(&[
            ("sending_queue::enabled", self.enabled),
            ("sending_queue::storage", self.storage),
            ("sending_queue::queue_size", self.queue_size),
            ("sending_queue::sizer", self.sizer),
            ("sending_queue::wait_for_result", self.wait_for_result),
            ("sending_queue::block_on_overflow", self.block_on_overflow),
            ("sending_queue::batch::min_size", self.batch.min_size),
            (
                "sending_queue::batch::flush_timeout",
                self.batch.flush_timeout,
            ),
        ])
    }
}
