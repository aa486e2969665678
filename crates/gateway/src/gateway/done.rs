//! How far those are that take releases, and the ticks at which the core is told.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::mpsc, time::MissedTickBehavior};

use crate::{export::Queue, ingest::Input};

/// How often the intake looks for traces that are due.
const TICK_INTERVAL: Duration = Duration::from_millis(100);

/// How far those are that take releases.
#[derive(Debug)]
pub(super) struct Done {
    /// `None`: there are no tables.
    pub(super) stored: Option<AtomicI64>,
    /// Of what is stored, what nobody waits with.
    pub(super) committed: AtomicI64,
    pub(super) queue: Arc<Queue>,
}

impl Done {
    /// Everything through this release is stored; `None`: there are no tables.
    pub(super) fn new(stored_through: Option<i64>, queue: Arc<Queue>) -> Self {
        Self {
            stored: stored_through.map(AtomicI64::new),
            committed: AtomicI64::new(stored_through.unwrap_or_default()),
            queue,
        }
    }

    /// The last sequence that every table has; all, where there are none.
    pub(super) fn stored_through(&self) -> i64 {
        let stored = self.stored.as_ref();
        stored.map_or(i64::MAX, |stored| stored.load(Ordering::Acquire))
    }

    /// The last sequence that nobody needs any more.
    pub(super) fn through(&self) -> i64 {
        let committed = match self.stored {
            Some(_) => self.committed.load(Ordering::Acquire),
            None => i64::MAX,
        };
        committed.min(self.queue.done_through())
    }
}

/// Gives the core its ticks, and tells it what was stored and sent since the last one.
pub(super) async fn tick(inputs: mpsc::Sender<Input>, done: Arc<Done>) {
    let mut interval = tokio::time::interval(TICK_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut stored, mut through) = (done.stored_through(), done.through());
    loop {
        interval.tick().await;
        let (now_stored, now_through) = (done.stored_through(), done.through());
        let mut told = Vec::with_capacity(3);
        if now_stored > stored {
            stored = now_stored;
            told.push(Input::Stored(stored));
        }
        if now_through > through {
            through = now_through;
            told.push(Input::Released(through));
        }
        told.push(Input::Tick);
        for input in told {
            if inputs.send(input).await.is_err() {
                return;
            }
        }
    }
}
