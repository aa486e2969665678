//! Release: decided traces with their span bytes, read back from the log.
//!
//! The ingest thread hands on a [`Plan`], which is handles only; the release thread reads the records and
//! hands on a [`Release`]. A sampled trace comes with all its spans, any other with its root and the
//! spans that report requests and calls, which leave rows in `traces` and `requests`.

use std::{ops::Range, sync::Arc};

use otlp::{
    TraceId,
    export::{Signal, SpanAt},
    span::SpanSummary,
};
use sampler::{Decision, PendingSpan, Reports, SpanHandle, ThresholdChange, TraceSummary, Trigger};
use wal::{Disk, Position, RealDisk};

use crate::{
    error::{Error, Result},
    record::{self, Content, EXPORT_HEADER_BYTES, LateSpan},
};

/// What one decision record decided. Its rows are stored together or, after a restart, skipped together.
#[derive(Debug)]
pub struct Release {
    /// From 1, without gaps; the same after a restart.
    pub sequence: i64,
    /// When it was decided, nanoseconds since 1970.
    pub decided_unix_nano: u64,
    /// The traces.
    pub decided: Vec<ReleasedTrace>,
    /// Spans that came after the decision on their trace and leave a row.
    pub late: Vec<ReleasedLate>,
    /// Exports of metrics that came since the release before, in order of arrival. Nothing else may be in a release.
    pub metrics: Vec<Record>,
    /// The same of reports.
    pub reports: Vec<Report>,
}

/// A decided trace.
#[derive(Debug)]
pub struct ReleasedTrace {
    /// Its id.
    pub trace_id: TraceId,
    /// The answer.
    pub decision: Decision,
    /// Name of the policy that gave it.
    pub policy: Option<Arc<str>>,
    /// Why it was decided when it was.
    pub trigger: Trigger,
    /// How many traces of its kind a kept one stands for.
    pub adjusted_count: Option<f64>,
    /// Facts over all its spans, released or not.
    pub summary: TraceSummary,
    /// Names of its services, in order of arrival.
    pub services: Vec<Arc<str>>,
    /// Sampled: all spans in order of arrival. Otherwise the root and what reports a request or a call.
    pub spans: Vec<ReleasedSpan>,
    /// When it was decided, nanoseconds since 1970.
    pub decided_unix_nano: u64,
}

/// A span that follows an earlier decision on its trace.
#[derive(Debug)]
pub struct ReleasedLate {
    /// Its trace.
    pub trace_id: TraceId,
    /// The decision that it follows.
    pub decision: Decision,
    /// Name of the policy that gave it.
    pub policy: Option<Arc<str>>,
    /// The span.
    pub span: ReleasedSpan,
}

/// A report of placements or batches.
#[derive(Debug)]
pub struct Report {
    /// What it reports: how its body is read.
    pub kind: reports::Kind,
    /// The request, protobuf, checked when it was received.
    pub record: Record,
}

/// An export of the log, shared by the spans that it carried, or one of metrics; or a report.
#[derive(Debug)]
pub struct Record {
    /// As stored: the body behind its header.
    bytes: Vec<u8>,
    /// When it was received, nanoseconds since 1970.
    pub received_unix_nano: u64,
}

impl Record {
    /// The request, protobuf.
    pub fn body(&self) -> &[u8] {
        self.bytes.get(EXPORT_HEADER_BYTES..).unwrap_or_default()
    }
}

/// A span in its record.
#[derive(Clone, Debug)]
pub struct ReleasedSpan {
    /// The export that carried it.
    pub record: Arc<Record>,
    /// Where the span message begins in the body.
    pub offset: u32,
    /// What it reports.
    pub reports: Reports,
    /// Is it its trace's root, the earliest one if there are several?
    pub is_root: bool,
    ranges: Ranges,
    /// The span with another `tracestate`, where sampling changed it.
    restated: Option<Arc<[u8]>>,
}

/// Where the parts of a [`SpanAt`] are in the body.
#[derive(Clone, Debug, Default)]
struct Ranges {
    resource: Range<usize>,
    resource_offset: u32,
    resource_schema_url: Range<usize>,
    scope: Range<usize>,
    scope_schema_url: Range<usize>,
    span: Range<usize>,
}

impl ReleasedSpan {
    /// The span and what surrounds it, byte for byte as sent, but for a `tracestate` that sampling changed (`th`, see
    /// [`sampler::ThresholdChange`]). Costs nothing per call.
    pub fn at(&self) -> SpanAt<'_> {
        let body = self.record.body();
        let bytes = |range: &Range<usize>| body.get(range.clone()).unwrap_or_default();
        // The ranges were taken from `str`s of this body.
        let text = |range| std::str::from_utf8(bytes(range)).unwrap_or_default();
        SpanAt {
            resource: bytes(&self.ranges.resource),
            resource_offset: self.ranges.resource_offset,
            resource_schema_url: text(&self.ranges.resource_schema_url),
            scope: bytes(&self.ranges.scope),
            scope_schema_url: text(&self.ranges.scope_schema_url),
            span: self.restated.as_deref().unwrap_or(bytes(&self.ranges.span)),
            offset: self.offset,
        }
    }
}

/// The span with the `tracestate` that is true of it now; `None` where that is the one it has.
pub(crate) fn restate(span: &[u8], change: ThresholdChange) -> Option<Arc<[u8]>> {
    if change == ThresholdChange::Unchanged {
        return None;
    }
    // It was read when it was indexed.
    let summary = SpanSummary::read(span).ok()?;
    let trace_state = change.apply(&summary.trace_id, summary.trace_state)?;
    let restated = otlp::retrace::with_trace_state(span, &trace_state).ok()?;
    Some(restated.into())
}

impl Ranges {
    fn of(body: &[u8], at: &SpanAt<'_>) -> Ranges {
        let range = |part: &[u8]| {
            let start = part.as_ptr().addr().wrapping_sub(body.as_ptr().addr());
            match start.checked_add(part.len()) {
                Some(end) if end <= body.len() => start..end,
                // An empty part may point anywhere.
                Some(_) | None => 0..0,
            }
        };
        Ranges {
            resource: range(at.resource),
            resource_offset: at.resource_offset,
            resource_schema_url: range(at.resource_schema_url.as_bytes()),
            scope: range(at.scope),
            scope_schema_url: range(at.scope_schema_url.as_bytes()),
            span: range(at.span),
        }
    }
}

/// A release that is not read yet.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) sequence: i64,
    pub(crate) decided_unix_nano: u64,
    pub(crate) traces: Vec<PlannedTrace>,
    pub(crate) late: Vec<LateSpan>,
    /// Exports of metrics and reports.
    pub(crate) side_lane: Vec<Position>,
    /// For the exporters.
    pub(crate) kept: Option<KeptList>,
}

/// Where the spans are listed that a release keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptList {
    /// Of the last part of the list.
    pub(crate) position: Position,
    pub(crate) n_spans: u64,
    /// Of the spans of kept traces; late ones are not counted.
    pub(crate) n_bytes: u64,
}

/// A decided trace with the names that the sampler knows.
#[derive(Debug)]
pub(crate) struct PlannedTrace {
    pub(crate) trace_id: TraceId,
    pub(crate) decision: Decision,
    pub(crate) policy: Option<Arc<str>>,
    pub(crate) trigger: Trigger,
    pub(crate) adjusted_count: Option<f64>,
    pub(crate) threshold: ThresholdChange,
    pub(crate) summary: TraceSummary,
    pub(crate) services: Vec<Arc<str>>,
    /// Those that are released.
    pub(crate) spans: Vec<PendingSpan>,
}

impl PlannedTrace {
    fn is_root(&self, span: &PendingSpan) -> bool {
        self.summary.root == Some(span.handle)
    }
}

/// Reads plans back from the log.
#[derive(Debug)]
pub(crate) struct Releaser<D: Disk = RealDisk> {
    pub(crate) reader: wal::Reader<D>,
}

/// A span that is wanted, and where it goes.
#[derive(Clone, Copy)]
struct Wanted {
    handle: SpanHandle,
    /// Place in the list of all released spans.
    idx: usize,
    reports: Reports,
    is_root: bool,
    threshold: ThresholdChange,
}

impl<D: Disk> Releaser<D> {
    /// Reads the spans of a plan; each record once.
    ///
    /// # Errors
    ///
    /// The log's, or a record that does not hold what was indexed.
    pub(crate) fn release(&self, plan: Plan) -> Result<Release> {
        let n_spans: usize = plan.traces.iter().map(|trace| trace.spans.len()).sum();
        let mut wanted = Vec::with_capacity(n_spans + plan.late.len());
        let mut want = |handle, reports, is_root, threshold| {
            wanted.push(Wanted {
                handle,
                idx: wanted.len(),
                reports,
                is_root,
                threshold,
            });
        };
        for trace in &plan.traces {
            for span in &trace.spans {
                let is_root = trace.is_root(span);
                want(span.handle, span.reports, is_root, trace.threshold);
            }
        }
        for late in plan.late.iter().filter(|late| late.is_released()) {
            want(late.handle, late.reports, false, late.threshold());
        }
        let mut spans = self.read(wanted)?.into_iter();
        let (metrics, reports) = self.read_aside(&plan.side_lane)?;

        let mut decided = Vec::with_capacity(plan.traces.len());
        for trace in plan.traces {
            decided.push(ReleasedTrace {
                trace_id: trace.trace_id,
                decision: trace.decision,
                policy: trace.policy,
                trigger: trace.trigger,
                adjusted_count: trace.adjusted_count,
                summary: trace.summary,
                services: trace.services,
                spans: spans.by_ref().take(trace.spans.len()).collect(),
                decided_unix_nano: plan.decided_unix_nano,
            });
        }
        let late = plan
            .late
            .into_iter()
            .filter(LateSpan::is_released)
            .zip(spans);
        let late = late
            .map(|(late, span)| ReleasedLate {
                trace_id: late.trace_id,
                decision: late.decision,
                policy: late.policy,
                span,
            })
            .collect();
        Ok(Release {
            sequence: plan.sequence,
            decided_unix_nano: plan.decided_unix_nano,
            decided,
            late,
            metrics,
            reports,
        })
    }

    /// Reads the wanted spans, in the order of their `idx`.
    fn read(&self, mut wanted: Vec<Wanted>) -> Result<Vec<ReleasedSpan>> {
        wanted.sort_unstable_by_key(|wanted| wanted.handle);
        let mut found: Vec<Option<ReleasedSpan>> = vec![None; wanted.len()];
        for of_record in wanted.chunk_by(|a, b| a.handle.position == b.handle.position) {
            let Some(first) = of_record.first() else {
                continue;
            };
            let position = Position::from_u64(first.handle.position);
            let record = Arc::new(self.read_record(position)?);
            let offsets: Vec<u32> = of_record
                .iter()
                .map(|wanted| wanted.handle.offset)
                .collect();
            let body = record.body();
            let mut walk = otlp::export::spans_at(body, &offsets);
            for wanted in of_record {
                let offset = wanted.handle.offset;
                let at = match walk.next() {
                    Some(Ok(at)) if at.offset == offset => at,
                    Some(Err(source)) => return Err(Error::Export { position, source }),
                    Some(Ok(_)) | None => {
                        return Err(Error::Record {
                            position,
                            problem: "lacks an indexed span",
                        });
                    }
                };
                let span = ReleasedSpan {
                    record: Arc::clone(&record),
                    offset,
                    reports: wanted.reports,
                    is_root: wanted.is_root,
                    ranges: Ranges::of(body, &at),
                    restated: restate(at.span, wanted.threshold),
                };
                found[wanted.idx] = Some(span);
            }
        }
        // All are there: each was found or the record lacks it, which is an error.
        Ok(found.into_iter().flatten().collect())
    }

    fn read_aside(&self, positions: &[Position]) -> Result<(Vec<Record>, Vec<Report>)> {
        let (mut metrics, mut reports) = (Vec::new(), Vec::new());
        for position in positions {
            match self.read_content(*position)? {
                (Content::Report(kind), record) => reports.push(Report { kind, record }),
                (Content::Export(_), record) => metrics.push(record),
            }
        }
        Ok((metrics, reports))
    }

    pub(crate) fn read_record(&self, position: Position) -> Result<Record> {
        self.read_content(position).map(|(_, record)| record)
    }

    fn read_content(&self, position: Position) -> Result<(Content, Record)> {
        let mut bytes = Vec::new();
        self.reader
            .read(position, &mut bytes)
            .map_err(|source| Error::Log {
                operation: "read a span back from",
                source,
            })?;
        let (content, received_unix_nano) = match record::Record::read(&bytes) {
            Ok(record::Record::Content {
                content,
                received_unix_nano,
                ..
            }) => (content, received_unix_nano),
            Ok(record::Record::Carried {
                received_unix_nano, ..
            }) => (Content::Export(Signal::Traces), received_unix_nano),
            Ok(
                record::Record::Decision(_) | record::Record::Sequence(_) | record::Record::Kept(_),
            ) => {
                return Err(Error::Record {
                    position,
                    problem: "is a decision where an export was indexed",
                });
            }
            Err(problem) => return Err(Error::Record { position, problem }),
        };
        let record = Record {
            bytes,
            received_unix_nano,
        };
        Ok((content, record))
    }
}
