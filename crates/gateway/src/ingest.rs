//! The intake core: one owner of the log's writer and of the sampler, driven by a closed list of inputs.
//!
//! No lock, no clock, no thread: [`Ingest::apply`] takes an input and the time, and gives effects.
//!
//! 1. Requests are appended as they come and form a group. [`Ingest::settle`] flushes the group with one
//!    write, answers all its senders, then indexes its spans in the sampler.
//! 2. A tick decides what is due. The decision record is appended, and synced on another thread, before the
//!    release is handed on: a decision that anybody has seen is the decision after a crash, and after a
//!    power failure tables never hold a release that the log has forgotten and would decide again.
//! 3. Every span holds its segment until its release is committed; then whole segments are deleted. Undecided spans
//!    that keep a segment almost alone are carried forward.
//!
//! Metrics and reports are not decided: the next release carries them (`side_lane`).
//!
//! Every input but a request settles the group first, so that the order of observations and decisions is the
//! order of their records in the log, and a replay (`recovery`) decides what was decided.

mod backlog;
mod carry;
mod check;
mod decide;
mod index;
mod log;
mod names;
mod pressure;
mod recovery;
mod reload;
mod side_lane;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, mem, sync::Arc};

use bytes::Bytes;
use otlp::{export::Signal, span::SpanSummary};
use sampler::{Decided, Sampler, SpanHandle};
use tokio::sync::oneshot;
use wal::{Disk, Position, RealDisk, SyncHandle, Wal};

use crate::{
    admission::{Gate, Permit},
    config::{Shutdown, SyncPolicy},
    error::Result,
    holds::{Holds, SegmentCounts},
    metrics::{self, Amount, LossReason, Metrics},
    record::{self, Content, LateSpan, SpanWindow},
    release::Plan,
    status::Refusal,
};

use self::{
    backlog::Backlog, carry::Carrying, index::Source, log::refusal, names::Names,
    pressure::Reminder, recovery::DecidedAgain, reload::ReloadReply, side_lane::SideLane,
};

pub use self::reload::Reloaded;

/// Says whether a span describes a request to an engine, from its summary, scope and span bytes.
pub type IsRequest = fn(&SpanSummary<'_>, scope: &[u8], span: &[u8]) -> bool;

/// A group is settled at this many bytes, so that one write call stays short and the first sender does not
/// wait for the last.
const GROUP_BYTES_MAX: usize = 8 << 20;

/// And at this many requests.
const GROUP_REQUESTS_MAX: usize = 512;

/// A checked export that waits for its place in the log.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) content: Content,
    pub(crate) received_unix_nano: u64,
    /// The protobuf request, checked.
    pub(crate) body: Bytes,
    /// Accepted spans, points, log records or entries in it.
    pub(crate) n_items: u64,
    /// Covers the body until it is indexed.
    pub(crate) permit: Permit,
    /// Told `Ok` when the export is in the log.
    pub(crate) reply: Reply,
}

/// Where an answer goes; its sender may have left.
pub(crate) type Reply = oneshot::Sender<Result<(), Refusal>>;

/// Everything that can happen to the intake.
#[derive(Debug)]
pub(crate) enum Input {
    /// An export arrived.
    Request(Request),
    /// Time passed.
    Tick,
    /// The sync that an effect asked for has ended.
    Synced(Result<(), wal::Error>),
    /// All tables have committed the releases through this sequence, and exporters have sent them.
    Released(i64),
    /// All tables have committed the releases through this sequence.
    Stored(i64),
    /// Other policies are in force from now on.
    Reload(Box<sampler::Config>, ReloadReply),
    /// Nothing arrives any more.
    Shutdown,
}

/// What an input leads to.
#[derive(Debug)]
pub(crate) enum Effect<D: Disk = RealDisk> {
    /// Answer a sender.
    Reply(Reply, Result<(), Refusal>),
    /// Read spans back and hand them to storage.
    Release(Plan),
    /// Sync the log on another thread, then give [`Input::Synced`].
    Sync(SyncHandle<D>),
    /// Say what became of a reload.
    Reloaded(ReloadReply, Result<Reloaded, sampler::Error>),
    /// The log is synced and nothing more will come.
    Stopped,
}

/// Takes effects as they arise, so that a sender is answered before its spans are indexed.
pub(crate) type Effects<'a, D> = dyn FnMut(Effect<D>) + 'a;

/// Limits and times of the core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) window: SpanWindow,
    pub(crate) sync: SyncPolicy,
    pub(crate) log_bytes_max: u64,
    pub(crate) pending_heap_bytes_max: u64,
    pub(crate) release_backlog_spans_max: u64,
    pub(crate) shutdown: Shutdown,
    pub(crate) is_request: IsRequest,
    /// Are there exporters, for which kept spans are listed in the log?
    pub(crate) is_exporting: bool,
    /// Are there tables, for which releases carry metrics and reports?
    pub(crate) is_storing: bool,
}

/// The core.
#[derive(Debug)]
pub(crate) struct Ingest<D: Disk = RealDisk> {
    wal: Wal<D>,
    sampler: Sampler,
    settings: Settings,
    metrics: Arc<Metrics>,
    gate: Arc<Gate>,
    names: Names,
    /// Appended, not flushed.
    group: Vec<(Position, Request)>,
    group_bytes: usize,
    /// Of undecided and of late spans that no decision record names.
    pending: Holds,
    /// Of decided spans, metrics and reports, until their release is committed.
    decided: Holds,
    /// Decided, but the disk had no room for the decision yet.
    unrecorded: Vec<Decided>,
    /// Late spans for the next decision record.
    late: Vec<LateSpan>,
    /// Copies of decided spans for the next decision record.
    duplicates: Vec<SpanHandle>,
    /// Metrics and reports for the next decision record.
    side_lane: SideLane,
    /// The sampler has more to decide than one release takes.
    is_behind: bool,
    /// Of the next release.
    next_sequence: i64,
    /// Kept, because it holds the sequence.
    last_decision: Option<Position>,
    /// Recorded, and handed on once their decision record is synced; in order.
    unsynced: VecDeque<(Position, Plan)>,
    /// Recorded, not committed; in order.
    uncommitted: VecDeque<Uncommitted>,
    /// Storage has committed the releases through this one, exporters may be behind; `i64::MAX` without storage.
    stored: i64,
    /// What of it is to be stored.
    backlog: Backlog,
    /// Carried forward, and still held at their old places; in order.
    carrying: VecDeque<Carrying>,
    carrying_holds: Holds,
    sync: SyncState,
    /// Of the last input.
    now_unix_nano: u64,
    full_warning: Reminder,
    early_warning: Reminder,
    is_stopped: bool,
    /// Undecided, but a reload could not read them back; the intake is closed then.
    n_spans_unread: u64,
    /// Only while replaying.
    decided_again: DecidedAgain,
}

/// A release that storage has not committed.
#[derive(Debug)]
struct Uncommitted {
    sequence: i64,
    segments: SegmentCounts,
    /// What storage has to write for it.
    n_rows: u64,
    /// 0 in a replay, which has no time.
    recorded_unix_nano: u64,
}

#[derive(Debug, Default)]
struct SyncState {
    is_running: bool,
    started_unix_nano: u64,
}

impl<D: Disk> Ingest<D> {
    /// A core over an opened log. [`Ingest::recover`] must follow before any input.
    pub(crate) fn new(
        wal: Wal<D>,
        sampler: Sampler,
        settings: Settings,
        metrics: Arc<Metrics>,
        gate: Arc<Gate>,
    ) -> Ingest<D> {
        let backlog = Backlog::new(sampler.shortest_wait());
        Ingest {
            wal,
            sampler,
            settings,
            metrics,
            gate,
            names: Names::default(),
            group: Vec::new(),
            group_bytes: 0,
            pending: Holds::default(),
            decided: Holds::default(),
            unrecorded: Vec::new(),
            late: Vec::new(),
            duplicates: Vec::new(),
            side_lane: SideLane::default(),
            is_behind: false,
            next_sequence: 1,
            last_decision: None,
            unsynced: VecDeque::new(),
            uncommitted: VecDeque::new(),
            stored: 0,
            backlog,
            carrying: VecDeque::new(),
            carrying_holds: Holds::default(),
            sync: SyncState::default(),
            now_unix_nano: 0,
            full_warning: Reminder::default(),
            early_warning: Reminder::default(),
            is_stopped: false,
            n_spans_unread: 0,
            decided_again: DecidedAgain::default(),
        }
    }

    /// Does one input's work.
    pub(crate) fn apply(&mut self, input: Input, now_unix_nano: u64, effects: &mut Effects<'_, D>) {
        self.now_unix_nano = now_unix_nano;
        match input {
            Input::Request(request) => self.append(request, effects),
            Input::Tick => {
                self.settle(effects);
                self.decide(now_unix_nano, effects);
                self.carry_if_due();
                self.sync_if_due(now_unix_nano, effects);
                self.delete_committed();
                self.refresh();
            }
            Input::Synced(result) => {
                self.settle(effects);
                self.sync.is_running = false;
                match result {
                    Ok(()) => self.hand_on_synced(effects),
                    Err(source) => self.fail("sync", &source),
                }
                self.sync_if_due(now_unix_nano, effects);
            }
            Input::Released(sequence) => {
                self.settle(effects);
                self.commit(sequence);
                self.delete_committed();
                self.refresh();
            }
            Input::Reload(config, reply) => {
                self.settle(effects);
                let reloaded = self.reload(&config);
                effects(Effect::Reloaded(reply, reloaded));
                self.refresh();
            }
            Input::Stored(sequence) => {
                self.store(sequence);
                self.refresh();
            }
            Input::Shutdown => {
                self.settle(effects);
                self.stop(now_unix_nano, effects);
                self.refresh();
            }
        }
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
    }

    /// Flushes the group, answers its senders and indexes its spans. The loop calls it when no input waits.
    pub(crate) fn settle(&mut self, effects: &mut Effects<'_, D>) {
        if self.group.is_empty() {
            return;
        }
        self.group_bytes = 0;
        let (in_log, outcome) = self.write_group();
        if let Err(source) = &outcome {
            self.note_log_error("write to", source);
        }
        let mut appended = Vec::with_capacity(self.group.len());
        for (position, request) in self.group.drain(..) {
            let Request {
                content,
                received_unix_nano,
                body,
                n_items,
                permit,
                reply,
            } = request;
            if position < in_log {
                self.metrics.count_appended(content, n_items, body.len());
                effects(Effect::Reply(reply, Ok(())));
                appended.push((position, content, received_unix_nano, body, n_items, permit));
            } else {
                let refusal = outcome.as_ref().err().map_or(Refusal::Unavailable, refusal);
                effects(Effect::Reply(reply, Err(refusal)));
            }
        }
        let before = self.sampler.stats();
        let mut received = Amount::default();
        for (position, content, received_unix_nano, body, n_items, permit) in appended {
            match content {
                Content::Export(Signal::Traces) => {
                    let indexed = self.index(position, received_unix_nano, &body, Source::Sender);
                    received.n_spans = received.n_spans.saturating_add(indexed.n_spans);
                    received.n_bytes = received.n_bytes.saturating_add(indexed.n_bytes);
                }
                Content::Export(Signal::Metrics) | Content::Report(_) => {
                    self.take_aside(content, position, n_items, body.len());
                }
                Content::Export(Signal::Logs) => {
                    self.metrics
                        .count_lost(content, LossReason::NoConsumer, n_items);
                }
            }
            drop(permit);
        }
        // Observing never removes a trace.
        let after = self.sampler.stats();
        received.n_traces = after.n_traces.saturating_sub(before.n_traces);
        self.metrics.count_received(received);
        let n_arrived = after.n_spans.saturating_sub(before.n_spans);
        self.backlog.add_arrived(n_arrived);
        self.close_if_storage_is_behind();
    }

    /// Is there more to decide at once?
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Has it stopped?
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Reads back what was appended.
    pub(crate) fn reader(&self) -> wal::Reader<D> {
        self.wal.reader()
    }

    fn append(&mut self, request: Request, effects: &mut Effects<'_, D>) {
        let header = record::content_header(request.content, request.received_unix_nano);
        match self.wal.append(&[&header, &request.body]) {
            Ok(position) => {
                self.group_bytes = self.group_bytes.saturating_add(request.body.len());
                self.group.push((position, request));
                if self.group_bytes >= GROUP_BYTES_MAX || self.group.len() >= GROUP_REQUESTS_MAX {
                    self.settle(effects);
                }
            }
            Err(source) => {
                self.note_log_error("append to", &source);
                effects(Effect::Reply(request.reply, Err(refusal(&source))));
            }
        }
    }

    /// Writes the group; gives the position before which it is in the log, as a full disk can cut it.
    fn write_group(&mut self) -> (Position, wal::Result<()>) {
        let outcome = self.wal.flush();
        // Also after a cut: what the disk took will be replayed, so it must be acknowledged and indexed.
        if self.settings.sync == SyncPolicy::Always
            && let Err(failed) = self.wal.sync()
        {
            // Nothing counts, and no more is decided until the restart.
            let first = outcome.err().filter(|source| !source.is_full());
            return (Position::MIN, Err(first.unwrap_or(failed)));
        }
        (self.wal.flushed_position(), outcome)
    }

    /// Takes what storage has committed and exporters have sent.
    fn commit(&mut self, sequence: i64) {
        self.store(sequence);
        while let Some(release) = self
            .uncommitted
            .pop_front_if(|release| release.sequence <= sequence)
        {
            self.decided.remove(&release.segments);
            let committed = u64::try_from(release.sequence).unwrap_or_default();
            metrics::set(&self.metrics.committed_sequence, committed);
        }
    }

    /// Takes what storage has committed; exporters may need it still.
    fn store(&mut self, sequence: i64) {
        let (mut n_rows, mut since_unix_nano) = (0_u64, 0);
        let first = self
            .uncommitted
            .partition_point(|release| release.sequence <= self.stored);
        for release in self.uncommitted.range_mut(first..) {
            if release.sequence > sequence {
                break;
            }
            n_rows = n_rows.saturating_add(mem::take(&mut release.n_rows));
            since_unix_nano = release.recorded_unix_nano;
        }
        self.stored = self.stored.max(sequence);
        if n_rows > 0 {
            self.backlog
                .remove_committed(n_rows, since_unix_nano, self.now_unix_nano);
        }
    }

    fn stop(&mut self, now_unix_nano: u64, effects: &mut Effects<'_, D>) {
        self.record_all(now_unix_nano, effects);
        if self.settings.shutdown == Shutdown::Decide {
            let n_before = self.unrecorded.len();
            self.sampler.drain(now_unix_nano, &mut self.unrecorded);
            self.hold_as_decided(n_before);
            self.record_all(now_unix_nano, effects);
        }
        match self.wal.sync() {
            Ok(()) => self.hand_on_synced(effects),
            Err(source) => self.note_log_error("sync", &source),
        }
        self.is_stopped = true;
        effects(Effect::Stopped);
    }
}
