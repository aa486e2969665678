//! Admission: how many bytes of exports may be in memory at once, over all connections.
//!
//! A permit grows while a body arrives and while it is inflated, so a claim in a header costs nothing and a
//! bomb is stopped where it crosses the budget. Growing never waits: a request that would wait while it
//! holds memory is how a receiver deadlocks; it is refused instead, and its sender retries.
//!
//! The [`Gate`] in front of it says whether anything is accepted at all.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use crate::status::{Overload, RETRY_DELAY, Refusal};

/// The longest pause that a refused sender is asked for.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// The byte budget of all exports in flight.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    bytes: Arc<Semaphore>,
}

/// Bytes taken from the [`Budget`]; given back on drop.
#[derive(Debug)]
pub(crate) struct Permit {
    budget: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
}

impl Budget {
    /// A budget of `bytes`, capped where the semaphore ends (far over any machine's memory).
    pub(crate) fn new(bytes: u64) -> Budget {
        let bytes = usize::try_from(bytes)
            .unwrap_or(usize::MAX)
            .min(Semaphore::MAX_PERMITS);
        Budget {
            bytes: Arc::new(Semaphore::new(bytes)),
        }
    }

    /// A permit for no bytes yet.
    pub(crate) fn permit(&self) -> Permit {
        Permit {
            budget: Arc::clone(&self.bytes),
            held: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn available_bytes(&self) -> usize {
        self.bytes.available_permits()
    }
}

impl Permit {
    /// Takes `bytes` more, or says that the budget is used up.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        const OVER: Refusal = Refusal::Overloaded(Overload::BytesInFlight);
        if bytes == 0 {
            return Ok(());
        }
        let bytes = u32::try_from(bytes).map_err(|_| OVER)?;
        match Arc::clone(&self.budget).try_acquire_many_owned(bytes) {
            Ok(more) => match &mut self.held {
                Some(held) => held.merge(more),
                None => self.held = Some(more),
            },
            Err(TryAcquireError::NoPermits | TryAcquireError::Closed) => return Err(OVER),
        }
        Ok(())
    }

    /// Gives back all but `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if let Some(held) = &mut self.held {
            let excess = held.num_permits().saturating_sub(bytes);
            drop(held.split(excess));
        }
    }
}

/// Whether the intake accepts exports; written by the ingest thread, read before each body.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    overload: AtomicU8,
    is_stopping: AtomicBool,
    failure: OnceLock<String>,
    /// When the first sender was refused since it was closed, nanoseconds since 1970; 0: none was.
    refused_unix_nano: AtomicU64,
}

const OPEN: u8 = 0;
const LOG_BYTES: u8 = 1;
const DISK_FULL: u8 = 2;
const RELEASE_BACKLOG: u8 = 3;
const PENDING_HEAP: u8 = 4;

impl Gate {
    /// Refuses while a limit is reached, after a failure, and while stopping.
    pub(crate) fn pass(&self) -> Result<(), Refusal> {
        if self.failure.get().is_some() || self.is_stopping.load(Ordering::Relaxed) {
            return Err(Refusal::Unavailable);
        }
        match self.overload.load(Ordering::Relaxed) {
            OPEN => Ok(()),
            LOG_BYTES => Err(Refusal::Overloaded(Overload::LogBytes)),
            DISK_FULL => Err(Refusal::Overloaded(Overload::DiskFull)),
            PENDING_HEAP => Err(Refusal::Overloaded(Overload::PendingHeap)),
            _ => Err(Refusal::Overloaded(Overload::ReleaseBacklog)),
        }
    }

    /// Opens the gate, or closes it for a limit that will pass.
    pub(crate) fn set(&self, overload: Option<Overload>) {
        let overload = match overload {
            None => OPEN,
            Some(Overload::LogBytes) => LOG_BYTES,
            Some(Overload::DiskFull) => DISK_FULL,
            Some(Overload::PendingHeap) => PENDING_HEAP,
            Some(Overload::ReleaseBacklog | Overload::BytesInFlight) => RELEASE_BACKLOG,
        };
        self.overload.store(overload, Ordering::Relaxed);
        if overload == OPEN {
            self.refused_unix_nano.store(0, Ordering::Relaxed);
        }
    }

    /// How long a sender that the gate refuses now is asked to wait. Under too much load it is closed for about
    /// [`RETRY_DELAY`] at a time. Where it stays closed, as when storage is away, the pause grows with the time: senders
    /// that try a few times only are still there when it opens.
    pub(crate) fn retry_delay(&self, now_unix_nano: u64) -> Duration {
        let first = self.refused_unix_nano.compare_exchange(
            0,
            now_unix_nano,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        let since = first.err().unwrap_or(now_unix_nano);
        let closed = Duration::from_nanos(now_unix_nano.saturating_sub(since));
        if closed < RETRY_DELAY.saturating_mul(2) {
            return RETRY_DELAY;
        }
        Duration::from_secs(closed.as_secs()).min(RETRY_DELAY_MAX)
    }

    /// Refuses everything from now on.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Records the first failure after which nothing is accepted until a restart. Later failures follow
    /// from the first, which is the one to show.
    pub(crate) fn fail(&self, reason: String) {
        self.failure.set(reason).ok();
    }

    /// The first failure, if there was one.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }
}
