//! `span-ingest`: the batches of one trace, judged as they arrive.
//!
//! A batch is judged when the next one begins or a tick comes, because only then it is known to be
//! complete.

use crate::verdict::{Judgement, OnArrival};

/// What has come of a trace's batches.
#[derive(Debug)]
pub(crate) struct Arrival {
    batch: u32,
    /// The batch is not yet judged.
    is_open: bool,
    /// Times of the open batch, as those of a trace.
    start_time_unix_nano: u64,
    end_time_unix_nano: u64,
    /// When the trace is due if no batch decides it.
    due_unix_nano: u64,
    decided: Option<Judgement>,
    deferred: Option<Judgement>,
}

impl Arrival {
    /// No batch yet.
    pub(crate) fn new(due_unix_nano: u64) -> Self {
        Self {
            batch: 0,
            is_open: false,
            start_time_unix_nano: u64::MAX,
            end_time_unix_nano: 0,
            due_unix_nano,
            decided: None,
            deferred: None,
        }
    }

    /// Whether this is the batch that spans are being added to.
    pub(crate) fn is_of(&self, batch: u32) -> bool {
        self.is_open && self.batch == batch
    }

    pub(crate) fn begin(&mut self, batch: u32) {
        self.batch = batch;
        self.is_open = true;
        self.start_time_unix_nano = u64::MAX;
        self.end_time_unix_nano = 0;
    }

    pub(crate) fn add_times(&mut self, start_time_unix_nano: u64, end_time_unix_nano: u64) {
        if start_time_unix_nano != 0 {
            self.start_time_unix_nano = self.start_time_unix_nano.min(start_time_unix_nano);
        }
        self.end_time_unix_nano = self.end_time_unix_nano.max(end_time_unix_nano);
    }

    /// Moves the due time forward. Whether it was moved.
    pub(crate) fn hasten(&mut self, due_unix_nano: u64) -> bool {
        let is_sooner = due_unix_nano < self.due_unix_nano;
        self.due_unix_nano = self.due_unix_nano.min(due_unix_nano);
        is_sooner
    }

    /// Duration of the batch that is to be judged; `None` where nothing is.
    pub(crate) fn open_duration_ns(&self) -> Option<u64> {
        let duration = self
            .end_time_unix_nano
            .saturating_sub(self.start_time_unix_nano);
        Some(duration).filter(|_| self.is_open && self.decided.is_none())
    }

    pub(crate) fn close(&mut self, verdict: OnArrival) {
        self.is_open = false;
        match verdict {
            OnArrival::Decided(judgement) => self.decided = Some(judgement),
            OnArrival::Deferred(judgement) => self.deferred = self.deferred.or(Some(judgement)),
            OnArrival::Pending => {}
        }
    }

    pub(crate) fn decided(&self) -> Option<Judgement> {
        self.decided
    }

    /// What holds when the trace is due without a batch that decided it.
    pub(crate) fn deferred(&self, is_honoured: bool) -> Judgement {
        match self.deferred {
            Some(judgement) if is_honoured => judgement,
            Some(_) | None => Judgement::NOT_SAMPLED,
        }
    }

    /// When the trace is due, if that is later and nothing has decided it.
    pub(crate) fn waits_until(&self, now_unix_nano: u64) -> Option<u64> {
        let is_waiting = self.decided.is_none() && self.due_unix_nano > now_unix_nano;
        is_waiting.then_some(self.due_unix_nano)
    }
}
