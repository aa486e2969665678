//! One release into rows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use correlate::{Call, Stitching, TraceSpan};
use gateway::{Release, ReleasedLate, ReleasedSpan, ReleasedTrace};
use otlp::attribute::{self, Value};
use otlp::span::SpanSummary;
use sampler::{Decision, Reports, Trigger};
use tables::redact::Redaction;
use tables::requests::{Request, RequestsBuilder};
use tables::spans::{SpanInput, SpansBuilder, TraceContext};
use tables::traces::{LossFlag, Trace, TracesBuilder};

use super::traffic::Running;
use crate::measured::Counting;

/// Builders that are reused from release to release.
#[derive(Debug)]
pub(super) struct Rows {
    spans: SpansBuilder,
    requests: RequestsBuilder,
    traces: TracesBuilder,
    built: Built,
    /// Counts every request.
    pub(super) counting: Option<Counting>,
    /// Of the release at work.
    sequence: i64,
}

/// The rows of one release. A table has several batches where one would be too large.
#[derive(Debug, Default)]
pub(super) struct Built {
    pub(super) spans: Vec<RecordBatch>,
    pub(super) requests: Vec<RecordBatch>,
    pub(super) traces: Vec<RecordBatch>,
    /// Requests of sampled traces that no other restates.
    pub(super) kept: Vec<Request>,
    /// Calls that no engine request of their trace answered.
    pub(super) calls: Vec<Call>,
    /// Spans that could not be read.
    pub(super) n_lost: u64,
}

impl Rows {
    pub(super) fn new(redaction: &Redaction) -> Self {
        Self {
            spans: SpansBuilder::new(redaction),
            requests: RequestsBuilder::new(),
            traces: TracesBuilder::new(),
            built: Built::default(),
            counting: None,
            sequence: 0,
        }
    }

    /// Every decided trace leaves one row in `traces`, every engine request one in `requests`, every
    /// span of a sampled trace one in `spans`. `running` takes the requests, and says how many ran at the start of each
    /// as far as is known by `now`; `stitching` takes them for calls of other traces.
    pub(super) fn build(
        &mut self,
        release: &Release,
        (running, stitching): (&mut Running, &mut Stitching),
        now: i64,
    ) -> Built {
        self.sequence = release.sequence;
        let mut requests = self.requests(release);
        for request in requests.iter().flatten() {
            stitching.take_request(request, now);
        }
        count_concurrent(&mut requests, running, now);
        let mut requests = requests.into_iter();
        for trace in &release.decided {
            let requests = requests.next().unwrap_or_default();
            self.trace(trace, requests);
        }
        for late in &release.late {
            let requests = requests.next().unwrap_or_default();
            self.late(late, requests);
        }
        let mut built = std::mem::take(&mut self.built);
        built.spans.push(self.spans.finish());
        built.requests.push(self.requests.finish());
        built.traces.push(self.traces.finish());
        built
    }

    /// The engine requests of each trace, then those of each late span; beside them, the calls that have none.
    fn requests(&mut self, release: &Release) -> Vec<Vec<Request>> {
        let mut all = Vec::with_capacity(release.decided.len() + release.late.len());
        for trace in &release.decided {
            let followed = Followed {
                decision: trace.decision,
                policy: trace.policy.clone(),
                late: false,
            };
            let (mut requests, calls) = self.reported(trace.spans.iter(), &followed);
            if !requests.is_empty() || !calls.is_empty() {
                correlate::mark_wrappers(&mut requests);
                let others = self.others(trace);
                let calls = correlate::link(&mut requests, calls, &others);
                self.built.calls.extend(calls);
            }
            all.push(requests);
        }
        for late in &release.late {
            let followed = Followed {
                decision: late.decision,
                policy: late.policy.clone(),
                late: true,
            };
            let (requests, calls) = self.reported(std::iter::once(&late.span), &followed);
            let alone = calls.into_iter().filter(Call::leaves_row_alone);
            self.built.calls.extend(alone);
            all.push(requests);
        }
        all
    }

    /// What spans report.
    fn reported<'a>(
        &mut self,
        spans: impl Iterator<Item = &'a ReleasedSpan>,
        followed: &Followed,
    ) -> (Vec<Request>, Vec<Call>) {
        let (mut requests, mut calls) = (Vec::new(), Vec::new());
        for span in spans {
            match span.reports {
                Reports::Itself => {}
                Reports::Request => {
                    if let Some(mut request) = self.read(correlate::request(&span.at())) {
                        followed.note(&mut request, span);
                        requests.push(request);
                    }
                }
                Reports::Call => {
                    if let Some(mut call) = self.read(correlate::call(&span.at())) {
                        followed.note(&mut call.row, span);
                        calls.push(call);
                    }
                }
            }
        }
        (requests, calls)
    }

    /// The other spans of a trace, as far as they were released.
    fn others(&mut self, trace: &ReleasedTrace) -> Vec<TraceSpan> {
        let spans = trace.spans.iter();
        let others = spans.filter(|span| span.reports == Reports::Itself);
        others
            .filter_map(|span| self.read(TraceSpan::read(&span.at())))
            .collect()
    }

    fn trace(&mut self, trace: &ReleasedTrace, requests: Vec<Request>) {
        for request in &requests {
            self.request(request);
        }

        let root = trace
            .spans
            .iter()
            .find(|span| span.is_root)
            .map(ReleasedSpan::at);
        let root_summary = root.as_ref().and_then(|at| SpanSummary::read(at.span).ok());
        let root_service = root.as_ref().and_then(|at| service_name(at.resource));
        let summary = &trace.summary;
        let flag = loss_flag(trace.trigger);
        let row = Trace {
            trace_id: trace.trace_id,
            root_service_name: root_service,
            root_name: root_summary.as_ref().map(|summary| summary.name),
            start_time_unix_nano: summary.start_time_unix_nano,
            end_time_unix_nano: summary.end_time_unix_nano,
            n_spans: u64::from(summary.n_spans),
            n_error_spans: u64::from(summary.n_error_spans),
            n_roots: u64::from(summary.n_roots),
            n_orphans: u64::from(summary.n_orphans),
            size_bytes: summary.n_bytes,
            services: &trace.services,
            decision: trace.decision.as_str(),
            policy: trace.policy.as_deref(),
            trigger: trace.trigger.as_str(),
            adjusted_count: trace.adjusted_count,
            n_requests: requests.len() as u64,
            main_request: correlate::main_request(&requests),
            first_seen_unix_nano: summary.first_seen_unix_nano,
            decided_unix_nano: trace.decided_unix_nano,
            loss_flags: flag.as_slice(),
        };
        let mut appended = self.traces.append(&row);
        if is_full(&appended) {
            self.built.traces.push(self.traces.finish());
            appended = self.traces.append(&row);
        }
        self.read(appended);

        if trace.decision == Decision::Sampled {
            self.keep(requests);
            let context = TraceContext {
                start_time_unix_nano: summary.start_time_unix_nano,
            };
            for span in &trace.spans {
                self.span(span, &context, false);
            }
        }
    }

    /// A late span follows its trace: it leaves its own row, the row of the trace stays as it was.
    fn late(&mut self, late: &ReleasedLate, requests: Vec<Request>) {
        for request in &requests {
            self.request(request);
        }
        if late.decision == Decision::Sampled {
            self.keep(requests);
            let at = late.span.at();
            let start =
                SpanSummary::read(at.span).map_or(0, |summary| summary.start_time_unix_nano);
            let context = TraceContext {
                start_time_unix_nano: start,
            };
            self.span(&late.span, &context, true);
        }
    }

    /// Evidence is for one row per request.
    fn keep(&mut self, requests: Vec<Request>) {
        let kept = requests.into_iter().filter(|request| !request.wrapper);
        self.built.kept.extend(kept);
    }

    fn span(&mut self, span: &ReleasedSpan, trace: &TraceContext, late: bool) {
        let at = span.at();
        let received_unix_nano = span.record.received_unix_nano;
        let input = SpanInput {
            at: &at,
            trace,
            late,
            received_unix_nano,
        };
        let mut appended = self.spans.append(&input);
        if is_full(&appended) {
            self.built.spans.push(self.spans.finish());
            appended = self.spans.append(&input);
        }
        self.read(appended);
    }

    fn request(&mut self, request: &Request) {
        if let Some(counting) = &self.counting {
            counting.count(self.sequence, request);
        }
        let mut appended = self.requests.append(request);
        if is_full(&appended) {
            self.built.requests.push(self.requests.finish());
            appended = self.requests.append(request);
        }
        self.read(appended);
    }

    /// Spans were checked when they arrived, so a failure here is an error of this program: it is
    /// counted and told, and the other rows go on.
    fn read<T, E: std::error::Error>(&mut self, result: Result<T, E>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.built.n_lost += 1;
                let error = crate::show::text::error_chain(&error);
                tracing::error!(error, "an accepted span could not be stored");
                None
            }
        }
    }
}

/// Says of each request how many ran on its engine when it started, itself among them.
fn count_concurrent(requests: &mut [Vec<Request>], running: &mut Running, now: i64) {
    let all = || requests.iter().flatten();
    for request in all() {
        running.add(request, now);
    }
    let starts = || all().map(|request| correlate::interval(request).0);
    let (Some(from), Some(to)) = (starts().min(), starts().max()) else {
        return;
    };
    let engines: Vec<_> = all().filter_map(correlate::engine_key).collect();
    let traffic = running.during(engines.iter().map(AsRef::as_ref), from, to);
    let counted = requests
        .iter_mut()
        .flatten()
        .filter(|request| !request.wrapper);
    for request in counted {
        let start = correlate::interval(request).0;
        let n = correlate::engine_key(request).and_then(|it| traffic.running_at(&it, start));
        // One without length is over when it starts.
        request.concurrent_requests = n.and_then(|n| i64::try_from(n.max(1)).ok());
    }
}

/// What the trigger says about the trace being whole.
fn loss_flag(trigger: Trigger) -> Option<LossFlag> {
    match trigger {
        Trigger::Memory | Trigger::Disk => Some(LossFlag::DecidedEarly),
        Trigger::TooLarge => Some(LossFlag::TooLarge),
        Trigger::RootEnded
        | Trigger::Waited
        | Trigger::Idle
        | Trigger::MaxWait
        | Trigger::Matched
        | Trigger::Shutdown
        | Trigger::Late
        | Trigger::Linked
        | Trigger::Budget => None,
    }
}

/// Must the batch be finished before the row fits?
fn is_full(appended: &tables::Result<()>) -> bool {
    appended.as_ref().is_err_and(tables::Error::is_full)
}

/// The decision that a span follows.
struct Followed {
    decision: Decision,
    policy: Option<Arc<str>>,
    late: bool,
}

impl Followed {
    fn note(&self, row: &mut Request, span: &ReleasedSpan) {
        row.decision = Some(self.decision.as_str());
        row.policy = self.policy.clone();
        row.late = self.late;
        row.received_unix_nano = span.record.received_unix_nano;
    }
}

/// The calls of a release that no engine request of their trace answered.
#[cfg(test)]
pub(crate) fn calls_of(release: &Release) -> Vec<(otlp::TraceId, otlp::SpanId)> {
    let redaction = Redaction::new(&tables::redact::Config::default());
    let mut rows = Rows::new(&redaction.expect("the default is valid"));
    rows.requests(release);
    let calls = rows.built.calls.iter();
    calls
        .map(|call| (call.row.trace_id, call.row.span_id))
        .collect()
}

/// What a span reports, asked of every span at intake.
pub(crate) fn reports_of(summary: &SpanSummary<'_>, scope: &[u8], span: &[u8]) -> Reports {
    if correlate::is_request_span(summary, scope, span) {
        Reports::Request
    } else if correlate::is_call_span(summary, span) {
        Reports::Call
    } else {
        Reports::Itself
    }
}

fn service_name(resource: &[u8]) -> Option<&str> {
    match attribute::lookup(attribute::of_resource(resource), "service.name") {
        Some(Value::Str(name)) => Some(name),
        _ => None,
    }
}
