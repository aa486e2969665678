//! The intake of one process on any disk, one step at a time: a simulation decides what happens next.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use otlp::export::Signal;
use tokio::sync::oneshot;
use wal::{Disk, SyncHandle};

use crate::{
    admission::{Budget, Gate},
    config::SyncPolicy,
    error::Result,
    ingest::{Effect, Ingest, Input, ReportsOf, Request, Settings},
    metrics::{Conservation, Metrics},
    progress::Progress,
    release::{Plan, Release, Releaser},
    status::Refusal,
};

/// What a process is started with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The log.
    pub log: wal::Config,
    /// The policies.
    pub sampler: sampler::Config,
    /// Which spans describe a request to an engine.
    pub reports_of: ReportsOf,
    /// As `intake.sync_interval`; zero is `sync: always`.
    pub sync_interval: Duration,
    /// As `intake.log_bytes_max`.
    pub log_bytes_max: u64,
    /// As `intake.release_backlog_spans_max`.
    pub release_backlog_spans_max: u64,
    /// The lowest sequence that every table has committed; 0 for none.
    pub committed_through: i64,
}

/// What a sender is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The export is in the log.
    Accepted,
    /// A limit is reached or the disk is full: the export is not in the log.
    Refused,
    /// The log has failed: whether the export is in it is not known.
    Unavailable,
}

/// A sender that waits for its answer.
#[derive(Debug)]
pub struct Ticket(Waiting);

#[derive(Debug)]
enum Waiting {
    Answered(Answer),
    For(oneshot::Receiver<std::result::Result<(), Refusal>>),
}

impl Ticket {
    /// The answer, once there is one.
    pub fn answer(&mut self) -> Option<Answer> {
        match &mut self.0 {
            Waiting::Answered(answer) => Some(*answer),
            Waiting::For(reply) => match reply.try_recv().ok()? {
                Ok(()) => Some(Answer::Accepted),
                Err(refusal) => Some(answer_of(&refusal)),
            },
        }
    }
}

fn answer_of(refusal: &Refusal) -> Answer {
    if matches!(refusal, Refusal::Overloaded(_)) {
        Answer::Refused
    } else {
        Answer::Unavailable
    }
}

/// The intake of one process, with what the threads around it would do at their own pace.
#[derive(Debug)]
pub struct Stepped<D: Disk> {
    ingest: Ingest<D>,
    releaser: Releaser<D>,
    metrics: Arc<Metrics>,
    gate: Arc<Gate>,
    budget: Budget,
    plans: VecDeque<Plan>,
    syncs: VecDeque<SyncHandle<D>>,
}

impl<D: Disk> Stepped<D> {
    /// Opens and replays the log.
    ///
    /// # Errors
    ///
    /// As [`crate::start`], without listeners.
    pub fn open(setup: Setup, disk: D) -> Result<Self> {
        let settings = Settings {
            sync: if setup.sync_interval.is_zero() {
                SyncPolicy::Always
            } else {
                SyncPolicy::Interval(setup.sync_interval)
            },
            log_bytes_max: setup.log_bytes_max,
            release_backlog_spans_max: setup.release_backlog_spans_max,
            ..super::unlimited(setup.reports_of)
        };
        let (metrics, gate) = (Arc::new(Metrics::default()), Arc::new(Gate::default()));
        let ingest = super::open(setup.log, disk, &setup.sampler, settings, &metrics, &gate)?;
        let mut stepped = Stepped {
            releaser: Releaser {
                reader: ingest.reader(),
            },
            ingest,
            metrics,
            gate,
            budget: Budget::new(u64::MAX),
            plans: VecDeque::new(),
            syncs: VecDeque::new(),
        };
        let Stepped {
            ingest,
            plans,
            syncs,
            ..
        } = &mut stepped;
        ingest.recover(
            Some(setup.committed_through),
            &Progress::default(),
            &mut |effect| {
                perform(effect, plans, syncs);
            },
        )?;
        Ok(stepped)
    }

    /// Hands an export of `n_spans` checked spans to the intake, unless it is closed. It is answered when
    /// its group is settled.
    pub fn submit(&mut self, body: Bytes, n_spans: u64, now_unix_nano: u64) -> Ticket {
        if self.gate.pass().is_err() {
            // Nothing was written.
            return Ticket(Waiting::Answered(Answer::Refused));
        }
        let (request, replied) = super::request(&self.budget, body, n_spans, now_unix_nano);
        self.apply(Input::Request(request), now_unix_nano);
        Ticket(Waiting::For(replied))
    }

    /// The same with an export of `n_points` checked points of metrics.
    pub fn submit_metrics(&mut self, body: Bytes, n_points: u64, now_unix_nano: u64) -> Ticket {
        let (request, replied) = super::request(&self.budget, body, n_points, now_unix_nano);
        let request = Request {
            content: Signal::Metrics.into(),
            ..request
        };
        self.apply(Input::Request(request), now_unix_nano);
        Ticket(Waiting::For(replied))
    }

    /// Writes and answers the group.
    pub fn settle(&mut self) {
        let Stepped {
            ingest,
            plans,
            syncs,
            ..
        } = self;
        ingest.settle(&mut |effect| perform(effect, plans, syncs));
    }

    /// Decides what is due, all of it.
    pub fn tick(&mut self, now_unix_nano: u64) {
        self.apply(Input::Tick, now_unix_nano);
        while self.ingest.is_behind() {
            self.apply(Input::Tick, now_unix_nano);
        }
    }

    /// Does the sync that was asked for, if one was; says whether.
    pub fn sync(&mut self, now_unix_nano: u64) -> bool {
        let Some(handle) = self.syncs.pop_front() else {
            return false;
        };
        self.apply(Input::Synced(handle.sync()), now_unix_nano);
        true
    }

    /// Reads the next release back from the log, if there is one.
    ///
    /// # Errors
    ///
    /// The log's, or a record that does not hold what was indexed.
    pub fn release(&mut self) -> Result<Option<Release>> {
        let plan = self.plans.pop_front();
        plan.map(|plan| self.releaser.release(plan)).transpose()
    }

    /// Says that every table has committed the releases through `sequence`.
    pub fn committed(&mut self, sequence: i64, now_unix_nano: u64) {
        self.apply(Input::Released(sequence), now_unix_nano);
    }

    /// Ends in good order.
    pub fn shutdown(&mut self, now_unix_nano: u64) {
        self.apply(Input::Shutdown, now_unix_nano);
    }

    /// The failure after which nothing is accepted until a restart.
    pub fn failure(&self) -> Option<&str> {
        self.gate.failure()
    }

    /// Where the spans are at this moment.
    pub fn conservation(&self) -> Conservation {
        self.ingest.show_pending();
        self.metrics.conservation()
    }

    fn apply(&mut self, input: Input, now_unix_nano: u64) {
        let Stepped {
            ingest,
            plans,
            syncs,
            ..
        } = self;
        ingest.apply(input, now_unix_nano, &mut |effect| {
            perform(effect, plans, syncs);
        });
    }
}

fn perform<D: Disk>(
    effect: Effect<D>,
    plans: &mut VecDeque<Plan>,
    syncs: &mut VecDeque<SyncHandle<D>>,
) {
    match effect {
        // A sender that has left will send again.
        Effect::Reply(reply, outcome) => drop(reply.send(outcome)),
        Effect::Release(plan) => plans.push_back(plan),
        Effect::Sync(handle) => syncs.push_back(handle),
        Effect::Reloaded(..) | Effect::Stopped => {}
    }
}
