//! The records of the log: what the gateway appends, and reads back after a crash.
//!
//! Limits: a record holds one export or one decision; times are nanoseconds since 1970; a policy name is
//! at most 65,534 bytes; integers are little endian. The log itself guards every record by a checksum.
//!
//! ```text
//! export    kind u8 (1 traces, 2 metrics, 3 logs)
//!           received_unix_nano u64
//!           body: the protobuf export request as it arrived, uncompressed, to the end of the record
//!
//! report    kind u8 (8 placements, 9 batches)
//!           received_unix_nano u64
//!           body: the protobuf request of `whyslow.v1`, uncompressed, to the end of the record
//!
//! carried   kind u8 (5)             undecided spans of an older record, which may be deleted with its segment
//!           received_unix_nano u64  as there
//!           body: a protobuf export request of these spans, to the end of the record
//!
//! sequence  kind u8 (6)             nothing new: the decision record that held it may be deleted
//!           sequence i64            the last release sequence
//!
//! kept      kind u8 (7)             spans that a release keeps; only where there are exporters, before the decision
//!           sequence i64            of the release; one whose decision does not follow counts for nothing
//!           previous u64            position of the part before this one, 0 for none
//!           n_spans u64             of the release, through this part
//!           n_bytes u64             of the spans of its kept traces
//!           n_handles u32           at most 65,536
//!             position u64, offset u32, flags u8 (2 and 4 as of a trace), threshold u64 (only with flag 2)
//!
//! decision  kind u8 (4)
//!           sequence i64            release sequence: from 1, without gaps
//!           decided_unix_nano u64
//!           n_policies u16          names used below
//!             n_bytes u16, UTF-8
//!           n_traces u32
//!             trace_id [16], decision u8, trigger u8, policy u16 (0xffff none),
//!             flags u8, adjusted_count f64 (of no meaning without flag 1), threshold u64 (only with flag 2)
//!               1 has an adjusted count, 2 `th` of its spans is raised to the threshold, 4 is erased
//!           n_late u32              spans that came after the decision on their trace
//!             trace_id [16], position u64, offset u32, decision u8, policy u16,
//!             flags u8: 1 it describes a request, 2 its `th` is erased
//!           n_duplicates u32        copies of spans of decided traces
//!             position u64, offset u32
//!           n_side_lane u32         exports of metrics and reports that the release carries
//!             position u64
//! ```
//!
//! A decision record is appended and flushed before its release is handed on, so a decision that anybody
//! has seen is the decision after a crash. The numbers of [`Decision`] and [`Trigger`] are fixed here, by
//! `decision_code` and `trigger_code`, apart from the order of the enums.
//!
//! Decided: a late span stands in the record by its handle, sampled or not. On replay the decision it
//! followed may be gone with its segment, and without the handle it would start a trace of its own. The same
//! holds for a copy of a span of a decided trace, for metrics and for reports: each is in exactly one release.

mod kept;
mod reader;

use std::{sync::Arc, time::Duration};

use otlp::{
    TraceId,
    export::{Limits, Signal, TimeWindow},
};
use sampler::{Decision, SpanHandle, ThresholdChange, Trigger};
use wal::Position;

use self::reader::Reader;

pub(crate) use self::kept::{KEPT_PER_RECORD_MAX, Kept, KeptSpan};

/// Bytes before the body of an export.
pub(crate) const EXPORT_HEADER_BYTES: usize = 9;

const KIND_DECISION: u8 = 4;
const KIND_CARRIED: u8 = 5;
const KIND_SEQUENCE: u8 = 6;
const KIND_KEPT: u8 = 7;
const KIND_PLACEMENTS: u8 = 8;
const KIND_BATCHES: u8 = 9;
const NO_POLICY: u16 = u16::MAX;

const HAS_ADJUSTED_COUNT: u8 = 1;
const RAISES_THRESHOLD: u8 = 2;
const ERASES_THRESHOLD: u8 = 4;

const IS_REQUEST: u8 = 1;
const ERASES_LATE_THRESHOLD: u8 = 2;

/// Which span times are accepted, relative to the time of receipt; so a replay accepts what was accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanWindow {
    pub(crate) age_max: Duration,
    pub(crate) ahead_max: Duration,
}

impl SpanWindow {
    /// The limits that hold for an export received at this time.
    pub(crate) fn limits(self, received_unix_nano: u64) -> Limits {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let time_window = Some(TimeWindow {
            earliest_unix_nano: received_unix_nano.saturating_sub(nanos(self.age_max)),
            latest_unix_nano: received_unix_nano.saturating_add(nanos(self.ahead_max)),
        });
        Limits {
            time_window,
            ..Limits::default()
        }
    }
}

/// What comes in and is appended as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Export(Signal),
    Report(reports::Kind),
}

impl From<Signal> for Content {
    fn from(signal: Signal) -> Content {
        Content::Export(signal)
    }
}

/// The first bytes of the record of an export or a report.
pub(crate) fn content_header(
    content: Content,
    received_unix_nano: u64,
) -> [u8; EXPORT_HEADER_BYTES] {
    let kind = match content {
        Content::Export(Signal::Traces) => 1,
        Content::Export(Signal::Metrics) => 2,
        Content::Export(Signal::Logs) => 3,
        Content::Report(reports::Kind::Placements) => KIND_PLACEMENTS,
        Content::Report(reports::Kind::Batches) => KIND_BATCHES,
    };
    header(kind, received_unix_nano)
}

/// The first bytes of a record of carried spans; as many as of an export's.
pub(crate) fn carried_header(received_unix_nano: u64) -> [u8; EXPORT_HEADER_BYTES] {
    header(KIND_CARRIED, received_unix_nano)
}

/// A whole record of the last release sequence.
pub(crate) fn sequence_record(sequence: i64) -> [u8; EXPORT_HEADER_BYTES] {
    let [a, b, c, d, e, f, g, h] = sequence.to_le_bytes();
    [KIND_SEQUENCE, a, b, c, d, e, f, g, h]
}

fn header(kind: u8, received_unix_nano: u64) -> [u8; EXPORT_HEADER_BYTES] {
    let [a, b, c, d, e, f, g, h] = received_unix_nano.to_le_bytes();
    [kind, a, b, c, d, e, f, g, h]
}

/// A record, read back.
#[derive(Debug, PartialEq)]
pub(crate) enum Record<'a> {
    Content {
        content: Content,
        received_unix_nano: u64,
        body: &'a [u8],
    },
    Decision(DecisionRecord),
    /// Spans that stand in an older record too, if that is still there.
    Carried {
        received_unix_nano: u64,
        body: &'a [u8],
    },
    /// The last release sequence.
    Sequence(i64),
    Kept(Kept),
}

/// What one release decided.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DecisionRecord {
    pub(crate) sequence: i64,
    pub(crate) decided_unix_nano: u64,
    pub(crate) traces: Vec<DecidedTrace>,
    pub(crate) late: Vec<LateSpan>,
    /// Copies of spans that were decided before, or came late before.
    pub(crate) duplicates: Vec<SpanHandle>,
    /// Exports of metrics and reports that the release carries, in the order of the log.
    pub(crate) side_lane: Vec<Position>,
}

/// The decision on one trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DecidedTrace {
    pub(crate) trace_id: TraceId,
    pub(crate) decision: Decision,
    pub(crate) trigger: Trigger,
    pub(crate) policy: Option<Arc<str>>,
    pub(crate) adjusted_count: Option<f64>,
    pub(crate) threshold: ThresholdChange,
}

/// A span that came after the decision on its trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LateSpan {
    pub(crate) trace_id: TraceId,
    pub(crate) handle: SpanHandle,
    pub(crate) decision: Decision,
    pub(crate) policy: Option<Arc<str>>,
    pub(crate) is_request: bool,
    /// Its `th` says what is not true of its trace.
    pub(crate) erases_threshold: bool,
}

impl LateSpan {
    pub(crate) fn threshold(&self) -> ThresholdChange {
        if self.erases_threshold {
            ThresholdChange::Erased
        } else {
            ThresholdChange::Unchanged
        }
    }

    /// Does it leave a row somewhere?
    pub(crate) fn is_released(&self) -> bool {
        self.decision == Decision::Sampled || self.is_request
    }
}

impl<'a> Record<'a> {
    /// Reads a record; what is wrong with it otherwise.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Record<'a>, &'static str> {
        let mut reader = Reader { bytes };
        let content = match reader.u8()? {
            1 => Content::Export(Signal::Traces),
            2 => Content::Export(Signal::Metrics),
            3 => Content::Export(Signal::Logs),
            KIND_PLACEMENTS => Content::Report(reports::Kind::Placements),
            KIND_BATCHES => Content::Report(reports::Kind::Batches),
            KIND_DECISION => return DecisionRecord::read(reader).map(Record::Decision),
            KIND_KEPT => return Kept::read(reader).map(Record::Kept),
            KIND_CARRIED => {
                let received_unix_nano = u64::from_le_bytes(reader.array()?);
                let body = reader.bytes;
                return Ok(Record::Carried {
                    received_unix_nano,
                    body,
                });
            }
            KIND_SEQUENCE => {
                let sequence = i64::from_le_bytes(reader.array()?);
                return match reader.bytes {
                    [] => Ok(Record::Sequence(sequence)),
                    _ => Err("has bytes after its end"),
                };
            }
            _ => return Err("is of an unknown kind"),
        };
        let received_unix_nano = u64::from_le_bytes(reader.array()?);
        Ok(Record::Content {
            content,
            received_unix_nano,
            body: reader.bytes,
        })
    }
}

impl DecisionRecord {
    /// The record's bytes.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut policies: Vec<&Arc<str>> = Vec::new();
        let named = self.traces.iter().map(|trace| &trace.policy);
        for policy in named
            .chain(self.late.iter().map(|late| &late.policy))
            .flatten()
        {
            if !policies.contains(&policy) {
                policies.push(policy);
            }
        }
        // The sampler has far fewer policies, with shorter names; a name without a number reads as none.
        policies.retain(|policy| policy.len() < usize::from(NO_POLICY));
        policies.truncate(usize::from(NO_POLICY));
        let policy_idx = |policy: &Option<Arc<str>>| {
            let policy = policy.as_ref()?;
            policies
                .iter()
                .position(|known| *known == policy)
                .and_then(|idx| u16::try_from(idx).ok())
        };
        out.push(KIND_DECISION);
        out.extend(self.sequence.to_le_bytes());
        out.extend(self.decided_unix_nano.to_le_bytes());
        out.extend(
            u16::try_from(policies.len())
                .unwrap_or(NO_POLICY)
                .to_le_bytes(),
        );
        for policy in &policies {
            out.extend(
                u16::try_from(policy.len())
                    .unwrap_or(NO_POLICY)
                    .to_le_bytes(),
            );
            out.extend(policy.as_bytes());
        }
        out.extend(count(self.traces.len()));
        for trace in &self.traces {
            out.extend(trace.trace_id.as_bytes());
            out.push(decision_code(trace.decision));
            out.push(trigger_code(trace.trigger));
            out.extend(policy_idx(&trace.policy).unwrap_or(NO_POLICY).to_le_bytes());
            let has_count = u8::from(trace.adjusted_count.is_some()) * HAS_ADJUSTED_COUNT;
            out.push(has_count | threshold_flag(trace.threshold));
            out.extend(trace.adjusted_count.unwrap_or_default().to_le_bytes());
            write_threshold(trace.threshold, out);
        }
        out.extend(count(self.late.len()));
        for late in &self.late {
            out.extend(late.trace_id.as_bytes());
            out.extend(late.handle.position.to_le_bytes());
            out.extend(late.handle.offset.to_le_bytes());
            out.push(decision_code(late.decision));
            out.extend(policy_idx(&late.policy).unwrap_or(NO_POLICY).to_le_bytes());
            let erases = u8::from(late.erases_threshold) * ERASES_LATE_THRESHOLD;
            out.push((u8::from(late.is_request) * IS_REQUEST) | erases);
        }
        out.extend(count(self.duplicates.len()));
        for handle in &self.duplicates {
            out.extend(handle.position.to_le_bytes());
            out.extend(handle.offset.to_le_bytes());
        }
        out.extend(count(self.side_lane.len()));
        for position in &self.side_lane {
            out.extend(position.as_u64().to_le_bytes());
        }
    }

    fn read(mut reader: Reader<'_>) -> Result<DecisionRecord, &'static str> {
        let sequence = i64::from_le_bytes(reader.array()?);
        let decided_unix_nano = u64::from_le_bytes(reader.array()?);
        let mut policies: Vec<Arc<str>> = Vec::new();
        for _ in 0..u16::from_le_bytes(reader.array()?) {
            let n_bytes = u16::from_le_bytes(reader.array()?);
            let name = reader.take(usize::from(n_bytes))?;
            policies.push(
                std::str::from_utf8(name)
                    .map_err(|_| "names a policy not in UTF-8")?
                    .into(),
            );
        }
        let policy = |idx: u16| policies.get(usize::from(idx)).cloned();
        let mut record = DecisionRecord {
            sequence,
            decided_unix_nano,
            ..DecisionRecord::default()
        };
        for _ in 0..u32::from_le_bytes(reader.array()?) {
            let trace_id = reader.trace_id()?;
            let decision = decision(reader.u8()?)?;
            let trigger = trigger(reader.u8()?)?;
            let policy = policy(u16::from_le_bytes(reader.array()?));
            let flags = reader.u8()?;
            let adjusted_count = f64::from_le_bytes(reader.array()?);
            let has_adjusted_count = flags & HAS_ADJUSTED_COUNT != 0;
            let adjusted_count = has_adjusted_count.then_some(adjusted_count);
            let threshold = reader.threshold(flags & !HAS_ADJUSTED_COUNT)?;
            record.traces.push(DecidedTrace {
                trace_id,
                decision,
                trigger,
                policy,
                adjusted_count,
                threshold,
            });
        }
        for _ in 0..u32::from_le_bytes(reader.array()?) {
            let trace_id = reader.trace_id()?;
            let handle = reader.handle()?;
            let decision = decision(reader.u8()?)?;
            let policy = policy(u16::from_le_bytes(reader.array()?));
            let flags = reader.u8()?;
            if flags & !(IS_REQUEST | ERASES_LATE_THRESHOLD) != 0 {
                return Err("holds unknown flags");
            }
            record.late.push(LateSpan {
                trace_id,
                handle,
                decision,
                policy,
                is_request: flags & IS_REQUEST != 0,
                erases_threshold: flags & ERASES_LATE_THRESHOLD != 0,
            });
        }
        for _ in 0..u32::from_le_bytes(reader.array()?) {
            record.duplicates.push(reader.handle()?);
        }
        for _ in 0..u32::from_le_bytes(reader.array()?) {
            let position = u64::from_le_bytes(reader.array()?);
            record.side_lane.push(Position::from_u64(position));
        }
        if reader.bytes.is_empty() {
            Ok(record)
        } else {
            Err("has bytes after its end")
        }
    }
}

/// A count; what is counted is bounded far below 2^32 by the sampler's limits.
fn count(n: usize) -> [u8; 4] {
    u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes()
}

fn decision_code(decision: Decision) -> u8 {
    match decision {
        Decision::Sampled => 1,
        Decision::NotSampled => 2,
        Decision::Dropped => 3,
    }
}

fn decision(code: u8) -> Result<Decision, &'static str> {
    let all = [Decision::Sampled, Decision::NotSampled, Decision::Dropped];
    all.into_iter()
        .find(|decision| decision_code(*decision) == code)
        .ok_or("holds an unknown decision")
}

fn threshold_flag(change: ThresholdChange) -> u8 {
    match change {
        ThresholdChange::Unchanged => 0,
        ThresholdChange::RaisedTo(_) => RAISES_THRESHOLD,
        ThresholdChange::Erased => ERASES_THRESHOLD,
    }
}

fn write_threshold(change: ThresholdChange, out: &mut Vec<u8>) {
    if let ThresholdChange::RaisedTo(threshold) = change {
        out.extend(threshold.bits().to_le_bytes());
    }
}

fn trigger_code(trigger: Trigger) -> u8 {
    match trigger {
        Trigger::RootEnded => 1,
        Trigger::Waited => 2,
        Trigger::TooLarge => 3,
        Trigger::Memory => 4,
        Trigger::Shutdown => 5,
        Trigger::Late => 6,
        Trigger::Linked => 7,
        Trigger::Matched => 8,
        Trigger::Disk => 9,
        Trigger::Idle => 10,
        Trigger::MaxWait => 11,
        Trigger::Budget => 20,
    }
}

fn trigger(code: u8) -> Result<Trigger, &'static str> {
    let all = [
        Trigger::RootEnded,
        Trigger::Waited,
        Trigger::TooLarge,
        Trigger::Memory,
        Trigger::Shutdown,
        Trigger::Late,
        Trigger::Linked,
        Trigger::Matched,
        Trigger::Disk,
        Trigger::Idle,
        Trigger::MaxWait,
        Trigger::Budget,
    ];
    all.into_iter()
        .find(|trigger| trigger_code(*trigger) == code)
        .ok_or("holds an unknown trigger")
}

#[cfg(test)]
mod tests;
