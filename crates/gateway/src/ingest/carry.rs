//! Carrying forward: undecided spans that keep a segment almost alone are appended again, so that it can be deleted.
//!
//! A long stream would keep the log from its first span to its end otherwise. The spans of one record become one
//! record of another kind, which tells a replay that they may have been here before: a span that is pending takes the
//! new place, any other is observed at the time at which it was received. So it makes no difference which of the two
//! records a replay finds. The old place is held until the new one is synced; a span is never in no record.
//!
//! The last decision record is kept because it holds the sequence; a record of the sequence alone takes its place.

use otlp::{reframe::Reframer, span::SpanSummary};
use sampler::SpanHandle;
use wal::{Disk, Position};

use crate::{
    error::{self, Error, Result},
    holds::{SegmentCounter, SegmentCounts},
    ingest::{Ingest, decide::TRACES_PER_RELEASE_MAX},
    metrics, record,
    release::Releaser,
};

/// Segments are freed by carrying when the log is over this part of its limit.
const LOG_PART: u64 = 4;

/// And when what is carried is at most this part of a segment: so a byte is carried for three that are freed.
const SEGMENT_PART: u64 = 4;

/// Spans that one tick carries, about 11 MB: the thread answers nobody meanwhile.
const SPANS_MAX: usize = 4 * TRACES_PER_RELEASE_MAX;

/// What an append leaves behind, until it is synced.
#[derive(Debug)]
pub(super) struct Carrying {
    position: Position,
    /// Where the spans were.
    before: SegmentCounts,
}

impl<D: Disk> Ingest<D> {
    /// Carries what keeps the first segments, if that frees them.
    pub(super) fn carry_if_due(&mut self) {
        if self.gate.failure().is_some()
            || self.wal.bytes_on_disk() <= self.settings.log_bytes_max / LOG_PART
        {
            return;
        }
        let (end, n_spans) = self.freeable();
        let mut handles = Vec::new();
        if n_spans > 0 {
            self.sampler.pending_before(end.as_u64(), &mut handles);
            handles.sort_unstable();
        }
        handles.truncate(SPANS_MAX);
        let appended = self.append_carried(&handles, end);
        if let Err(error) = appended {
            let is_full = matches!(&error, Error::Log { source, .. } if source.is_full());
            if !is_full {
                self.fail_with(error::chain(&error));
            }
        }
    }

    /// The end of the first segments that carrying frees ([`Position::MIN`] for none), and the spans that hold them.
    fn freeable(&self) -> (Position, u64) {
        let mut end = Position::MIN;
        let mut n_spans = 0_u64;
        for segment in self.wal.segments().filter(|segment| segment.is_sealed) {
            let is_held_otherwise = [&self.decided, &self.carrying_holds]
                .iter()
                .any(|holds| holds.of_segment(segment.number).0 > 0);
            let (n_held, held_bytes) = self.pending.of_segment(segment.number);
            let n_with = n_spans.saturating_add(n_held);
            let is_too_much = n_with > SPANS_MAX as u64 && end != Position::MIN;
            if is_held_otherwise || is_too_much || held_bytes > segment.size_bytes / SEGMENT_PART {
                break;
            }
            n_spans = n_with;
            end = Position::from_u64((u64::from(segment.number) + 1) << 32);
        }
        (end, n_spans)
    }

    /// Appends these spans once more, and the sequence where a decision before `end` holds it.
    fn append_carried(&mut self, handles: &[SpanHandle], end: Position) -> Result<()> {
        let log_error = |source| Error::Log {
            operation: "carry spans forward in",
            source,
        };
        let reader = Releaser {
            reader: self.wal.reader(),
        };
        let mut appended = Vec::new();
        let mut outcome = Ok(());
        for of_record in handles.chunk_by(|a, b| a.position == b.position) {
            let (received_unix_nano, body) = reframe(&reader, of_record)?;
            let header = record::carried_header(received_unix_nano);
            match self.wal.append(&[&header, &body]) {
                Ok(position) => appended.push((position, body)),
                Err(source) => {
                    outcome = Err(log_error(source));
                    break;
                }
            }
        }
        let mut sequence = None;
        if outcome.is_ok() && self.last_decision.is_some_and(|last| last < end) {
            let last = self.next_sequence.saturating_sub(1);
            match self.wal.append(&[&record::sequence_record(last)]) {
                Ok(position) => sequence = Some(position),
                Err(source) => outcome = Err(log_error(source)),
            }
        }
        let flushed = self.wal.flush().map_err(log_error);
        // What the disk took counts, also where it did not take all: a replay finds it.
        let in_log = self.wal.flushed_position();
        for (position, body) in appended {
            if position < in_log {
                self.relocate(position, &body)?;
            }
        }
        if let Some(position) = sequence.filter(|position| *position < in_log)
            && let Some(before) = self.last_decision.replace(position)
        {
            self.hold_until_synced(position, vec![(before.segment(), 1)]);
        }
        outcome.and(flushed)
    }

    /// The spans of a carried record have their place there now.
    fn relocate(&mut self, position: Position, body: &[u8]) -> Result<()> {
        let mut before = SegmentCounter::default();
        let mut n_spans = 0_u64;
        let unreadable = |source| Error::Export { position, source };
        for at in otlp::export::spans(body, &otlp::export::Limits::default()) {
            let at = at.map_err(unreadable)?;
            let summary = SpanSummary::read(at.span).map_err(unreadable)?;
            let handle = SpanHandle {
                position: position.as_u64(),
                offset: at.offset,
            };
            if let Some(was) = self.sampler.relocate(&summary, handle) {
                before.count(was.position);
                n_spans = n_spans.saturating_add(1);
            }
        }
        let before = before.into_counts();
        self.pending.remove(&before);
        self.pending
            .add(position.segment(), n_spans, body.len() as u64);
        self.hold_until_synced(position, before);
        metrics::add(&self.metrics.spans_carried, n_spans);
        Ok(())
    }

    fn hold_until_synced(&mut self, position: Position, before: SegmentCounts) {
        self.carrying_holds.add_all(&before);
        self.carrying.push_back(Carrying { position, before });
    }

    /// Gives up the old places of spans whose new one survives a power failure.
    pub(super) fn leave_old_places(&mut self) {
        let synced = self.wal.synced_position();
        while let Some(carried) = self
            .carrying
            .pop_front_if(|carried| carried.position < synced)
        {
            self.carrying_holds.remove(&carried.before);
        }
    }
}

/// One request of these spans of one record, and when that was received.
fn reframe<D: Disk>(reader: &Releaser<D>, handles: &[SpanHandle]) -> Result<(u64, Vec<u8>)> {
    let first = handles.first().map_or(0, |handle| handle.position);
    let position = Position::from_u64(first);
    let record = reader.read_record(position)?;
    let offsets: Vec<u32> = handles.iter().map(|handle| handle.offset).collect();
    let mut reframer = Reframer::new();
    for at in otlp::export::spans_at(record.body(), &offsets) {
        reframer.push(&at.map_err(|source| Error::Export { position, source })?);
    }
    if reframer.n_spans() != handles.len() {
        return Err(Error::Record {
            position,
            problem: "lacks an indexed span",
        });
    }
    Ok((record.received_unix_nano, reframer.finish()))
}
