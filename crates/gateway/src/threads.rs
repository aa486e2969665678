//! The threads around the core: ingest, sync, release. Blocking file work stays off the async runtime.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering, mpsc as std_mpsc},
    thread::{self, JoinHandle},
};

use tokio::sync::mpsc;
use wal::{RealDisk, SyncHandle};

use crate::{
    admission::Gate,
    clock::Clock,
    error::{self, Error, Result},
    export::Queue,
    ingest::{Effect, Ingest, Input},
    metrics::Metrics,
    release::{Plan, Release, Releaser},
};

/// Where effects go.
///
/// The channel of plans is unbounded on purpose: a plan is handles only, and the intake refuses exports
/// when too many decided spans wait (`intake.release_backlog_spans_max`). The ingest thread never waits
/// for storage.
///
/// Exporters are told no more than where a release is in the log: one that is behind takes no memory for it.
#[derive(Debug)]
pub(crate) struct Outlets {
    plans: std_mpsc::Sender<Plan>,
    syncs: std_mpsc::Sender<SyncHandle>,
    /// The last release that the tables have; `None`: nothing is for tables.
    pub(crate) stored_through: Option<i64>,
    pub(crate) queue: Arc<Queue>,
}

impl Outlets {
    /// For no tables and no exporters yet.
    pub(crate) fn new(
        plans: std_mpsc::Sender<Plan>,
        syncs: std_mpsc::Sender<SyncHandle>,
    ) -> Outlets {
        Outlets {
            plans,
            syncs,
            stored_through: None,
            queue: Arc::new(Queue::new(Vec::new())),
        }
    }

    pub(crate) fn perform(&self, effect: Effect) {
        match effect {
            // A sender that has left will send again.
            Effect::Reply(reply, outcome) => {
                reply.send(outcome).ok();
            }
            Effect::Release(plan) => {
                self.queue.push(plan.sequence, plan.kept);
                if self
                    .stored_through
                    .is_some_and(|through| plan.sequence > through)
                {
                    // A thread that has ended has closed the gate (see `spawn`).
                    self.plans.send(plan).ok();
                }
            }
            Effect::Sync(handle) => {
                self.syncs.send(handle).ok();
            }
            // As with a sender.
            Effect::Reloaded(reply, reloaded) => {
                reply.send(reloaded).ok();
            }
            Effect::Stopped => {}
        }
    }
}

/// Starts a thread; if it panics, the gate is closed and says so.
pub(crate) fn spawn(
    name: &'static str,
    gate: Arc<Gate>,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>> {
    let guarded = move || {
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            gate.fail(format!("the thread `{name}` panicked"));
        }
    };
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(guarded)
        .map_err(|source| Error::Thread { name, source })
}

/// The loop around the core: inputs in, effects out, until it has stopped or nobody can send any more.
pub(crate) fn run_ingest(
    mut ingest: Ingest,
    mut inputs: mpsc::Receiver<Input>,
    clock: &Clock,
    outlets: &Outlets,
) {
    let mut perform = |effect| outlets.perform(effect);
    while !ingest.is_stopped() {
        let Some(input) = select(&mut inputs, ingest.is_behind()) else {
            break;
        };
        ingest.apply(input, clock.unix_nano(), &mut perform);
        while let Ok(input) = inputs.try_recv() {
            ingest.apply(input, clock.unix_nano(), &mut perform);
        }
        ingest.settle(&mut perform);
    }
}

/// The next input; a tick at once where there is more to decide.
fn select(inputs: &mut mpsc::Receiver<Input>, is_behind: bool) -> Option<Input> {
    match inputs.try_recv() {
        Ok(input) => Some(input),
        Err(mpsc::error::TryRecvError::Empty) if is_behind => Some(Input::Tick),
        Err(mpsc::error::TryRecvError::Empty) => inputs.blocking_recv(),
        Err(mpsc::error::TryRecvError::Disconnected) => None,
    }
}

/// Syncs what it is given, one after the other.
pub(crate) fn run_sync(handles: &std_mpsc::Receiver<SyncHandle>, inputs: &mpsc::Sender<Input>) {
    while let Ok(handle) = handles.recv() {
        if inputs.blocking_send(Input::Synced(handle.sync())).is_err() {
            break;
        }
    }
}

/// Reads plans back and waits for storage to take each release.
pub(crate) fn run_release(
    plans: &std_mpsc::Receiver<Plan>,
    releaser: &Releaser<RealDisk>,
    releases: &mpsc::Sender<Release>,
    gate: &Gate,
    metrics: &Metrics,
) {
    while let Ok(plan) = plans.recv() {
        let release = match releaser.release(plan) {
            Ok(release) => release,
            Err(error) => {
                // Skipping it would lose spans for good; as it is they are in the log, for a person to help.
                let reason = error::chain(&error);
                tracing::error!(reason, "releases have stopped");
                gate.fail(reason);
                metrics.set_unhealthy();
                return;
            }
        };
        let n_spans: usize = release.decided.iter().map(|trace| trace.spans.len()).sum();
        let n_spans = n_spans.saturating_add(release.late.len());
        metrics
            .released_spans
            .fetch_add(n_spans as u64, Ordering::Relaxed);
        if releases.blocking_send(release).is_err() {
            // Storage has left, which it does last at shutdown; what it did not commit is released again.
            return;
        }
    }
}
