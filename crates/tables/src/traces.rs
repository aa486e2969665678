//! Table `traces`: every trace, kept or not.
//!
//! # Decided
//!
//! Every trace leaves a row here whatever was decided, so that percentiles and counts are those of
//! all traffic. Numbers of the main request are those of one engine request
//! ([`Trace::main_request`]), not sums: a sum over attempts and parent spans counts twice.

use std::sync::Arc;

use otlp::TraceId;

use crate::{
    column::{Column, ColumnType::*, SortKey, Spec},
    error::Result,
    redact::cut,
    requests::Request,
    row::{Rows, offer_rows},
    time,
};

/// Longest stored name of a span, service or policy.
const NAME_BYTES_MAX: usize = 1_024;

/// Table `traces`.
pub static SPEC: Spec = Spec {
    name: "traces",
    doc: "One row per trace and decision, kept or not, as it was decided; spans that came later are in `spans` with `late`.",
    columns: COLUMNS,
    sort: &[SortKey::descending("start_time_unix_nano")],
    bloom: &["trace_id"],
    stats: &["start_time", "duration_ns", "decision"],
    retention_days: 30,
};

const COLUMNS: &[Column] = &[
    Column::new(
        "date",
        Date,
        "Day of the trace's start (UTC); the partition.",
    )
    .key()
    .source("earliest start of its spans"),
    Column::new("trace_id", Text, "Trace, 32 hex digits.").distinct()
        .key()
        .source("trace_id"),
    Column::new(
        "root_service_name",
        Text,
        "Service of the earliest root span.",
    )
    .source("service.name"),
    Column::new("root_name", Text, "Name of the earliest root span.").source("name"),
    Column::new("start_time", Time, "Earliest start of its spans.").distinct().source("start_time_unix_nano"),
    Column::new("start_time_unix_nano", Int, "The same, exact.").distinct()
        .unit("ns")
        .source("start_time_unix_nano"),
    Column::new("end_time", Time, "Latest end of its spans.").distinct().source("end_time_unix_nano"),
    Column::new("end_time_unix_nano", Int, "The same, exact.").distinct()
        .unit("ns")
        .source("end_time_unix_nano"),
    Column::new("duration_ns", Int, "Latest end minus earliest start.").distinct()
        .unit("ns")
        .source("computed"),
    Column::new("span_count", Int, "Spans when it was decided.").source("counted"),
    Column::new("error_span_count", Int, "Of them with status ERROR.").source("status.code"),
    Column::new("error", Bool, "Whether any of its spans has status ERROR.").source("status.code"),
    Column::new("services", TextList, "Services in it, each once.").source("service.name"),
    Column::new("decision", Text, "sampled, not_sampled or dropped.").source("sampling"),
    Column::new("policy", Text, "Policy that decided.").source("sampling"),
    Column::new(
        "trigger",
        Text,
        "Why it was decided then: root_ended, waited, idle, max_wait, matched, too_large, memory, disk, shutdown, late or linked; budget: its policy asked for it, and it did not fit.",
    )
    .source("sampling"),
    Column::new(
        "adjusted_count",
        Float,
        "Traces that this one stands for; NULL if unknown.",
    )
    .source("sampling"),
    Column::new("root_count", Int, "Spans without a parent id.").source("parent_span_id"),
    Column::new(
        "orphan_count",
        Int,
        "Spans whose parent is not among the spans.",
    )
    .source("parent_span_id"),
    Column::new("complete", Bool, "Whether a root was seen, and no orphan.")
        .source("root_count, orphan_count"),
    Column::new("request_count", Int, "Engine requests in it.").source("requests"),
    Column::new("model", Text, "Model of its main request.").source("requests"),
    Column::new(
        "engine_ttft_s",
        Float,
        "Time to first token of its main request, at the engine.",
    )
    .unit("s")
    .source("requests"),
    Column::new("e2e_s", Float, "Engine time of its main request.")
        .unit("s")
        .source("requests"),
    Column::new(
        "tpot_s",
        Float,
        "Time per output token of its main request.",
    )
    .unit("s")
    .source("requests"),
    Column::new("input_tokens", Int, "Prompt tokens of its main request.")
        .unit("tokens")
        .source("requests"),
    Column::new(
        "output_tokens",
        Int,
        "Generated tokens of its main request.",
    )
    .unit("tokens")
    .source("requests"),
    Column::new(
        "cached_tokens",
        Int,
        "Prompt tokens of its main request found in a prefix cache.",
    )
    .unit("tokens")
    .source("requests"),
    Column::new(
        "outcome",
        Text,
        "Outcome of its main request: ok, error, cancelled or no_output.",
    )
    .source("requests"),
    Column::new("size_bytes", Int, "Bytes of its spans as they arrived.")
        .unit("bytes")
        .source("counted"),
    Column::new("first_seen_time", Time, "When its first span was received.").source("intake"),
    Column::new("decided_time", Time, "When it was decided.").source("sampling"),
    Column::new(
        "loss_flags",
        TextList,
        "Why it may not be whole; see the list of flags.",
    )
    .source("sampling"),
    Column::new("stored", Bool, "Whether its spans are in `spans`.").source("decision"),
];

/// Why a trace may not be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LossFlag {
    /// No root span was seen.
    NoRoot,
    /// A span's parent is not among the spans.
    Orphans,
    /// Decided before its time, for memory.
    DecidedEarly,
    /// Decided when it reached the largest size of a trace.
    TooLarge,
    /// A sender discarded attributes, events or links of its spans.
    DroppedBySender,
    /// Spans of it were lost after they were acknowledged.
    SpansLost,
}

impl LossFlag {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::NoRoot,
        Self::Orphans,
        Self::DecidedEarly,
        Self::TooLarge,
        Self::DroppedBySender,
        Self::SpansLost,
    ];

    /// As stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoRoot => "no_root",
            Self::Orphans => "orphans",
            Self::DecidedEarly => "decided_early",
            Self::TooLarge => "too_large",
            Self::DroppedBySender => "dropped_by_sender",
            Self::SpansLost => "spans_lost",
        }
    }
}

/// One row of `traces`. Times are nanoseconds since 1970 (UTC), 0 where unknown.
#[derive(Clone, Debug)]
pub struct Trace<'a> {
    /// The trace.
    pub trace_id: TraceId,
    /// Service of its earliest root span.
    pub root_service_name: Option<&'a str>,
    /// Name of its earliest root span.
    pub root_name: Option<&'a str>,
    /// Earliest start of its spans.
    pub start_time_unix_nano: u64,
    /// Latest end of its spans.
    pub end_time_unix_nano: u64,
    /// Spans when it was decided.
    pub n_spans: u64,
    /// Of them with status ERROR.
    pub n_error_spans: u64,
    /// Spans without a parent id.
    pub n_roots: u64,
    /// Spans whose parent is not among the spans.
    pub n_orphans: u64,
    /// Bytes of its spans as they arrived.
    pub size_bytes: u64,
    /// Services in it, each once.
    pub services: &'a [Arc<str>],
    /// `sampled`, `not_sampled` or `dropped`.
    pub decision: &'a str,
    /// Policy that decided, if one did.
    pub policy: Option<&'a str>,
    /// Why it was decided then.
    pub trigger: &'a str,
    /// Traces that this one stands for.
    pub adjusted_count: Option<f64>,
    /// Engine requests in it.
    pub n_requests: u64,
    /// The engine request whose numbers the row repeats.
    pub main_request: Option<&'a Request>,
    /// When its first span was received.
    pub first_seen_unix_nano: u64,
    /// When it was decided.
    pub decided_unix_nano: u64,
    /// Why it may not be whole, beside what the counts of roots and orphans say.
    pub loss_flags: &'a [LossFlag],
}

impl Trace<'_> {
    /// Was a root seen, and no orphan?
    pub const fn is_complete(&self) -> bool {
        self.n_roots > 0 && self.n_orphans == 0
    }
}

/// Builds batches of [`SPEC`].
#[derive(Debug)]
pub struct TracesBuilder {
    rows: Rows,
    scratch: String,
}

offer_rows!(TracesBuilder);

impl TracesBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        Self {
            rows: Rows::new(&SPEC),
            scratch: String::new(),
        }
    }

    /// Appends one trace. Names longer than 1,024 bytes are cut.
    ///
    /// # Errors
    /// [`crate::Error::Full`] if the batch must be finished first; it is unchanged then.
    pub fn append(&mut self, trace: &Trace<'_>) -> Result<()> {
        self.rows.check_room()?;
        let (start, end) = (trace.start_time_unix_nano, trace.end_time_unix_nano);
        self.rows
            .date("date", time::partition_date(start, trace.decided_unix_nano));
        self.rows.trace_id("trace_id", trace.trace_id);
        self.name("root_service_name", trace.root_service_name);
        self.name("root_name", trace.root_name);
        let rows = &mut self.rows;
        rows.time("start_time", start);
        rows.int("start_time_unix_nano", time::nanos(start));
        rows.time("end_time", end);
        rows.int("end_time_unix_nano", time::nanos(end));
        rows.int("duration_ns", time::duration_ns(start, end));
        rows.int("span_count", count(trace.n_spans));
        rows.int("error_span_count", count(trace.n_error_spans));
        rows.bool("error", Some(trace.n_error_spans > 0));
        rows.texts("services", Some(trace.services.iter().map(|name| &**name)));
        rows.text("decision", Some(trace.decision));
        self.name("policy", trace.policy);
        let rows = &mut self.rows;
        rows.text("trigger", Some(trace.trigger));
        rows.float("adjusted_count", trace.adjusted_count);
        rows.int("root_count", count(trace.n_roots));
        rows.int("orphan_count", count(trace.n_orphans));
        rows.bool("complete", Some(trace.is_complete()));
        self.append_main_request(trace);
        let rows = &mut self.rows;
        rows.int("size_bytes", count(trace.size_bytes));
        rows.time("first_seen_time", trace.first_seen_unix_nano);
        rows.time("decided_time", trace.decided_unix_nano);
        let implied = [
            (LossFlag::NoRoot, trace.n_roots == 0),
            (LossFlag::Orphans, trace.n_orphans > 0),
        ];
        let implied = implied
            .iter()
            .filter(|(flag, is_set)| *is_set && !trace.loss_flags.contains(flag));
        let flags = implied.map(|(flag, _)| flag).chain(trace.loss_flags);
        rows.texts("loss_flags", Some(flags.map(|flag| flag.as_str())));
        rows.bool("stored", Some(trace.decision == "sampled"));
        rows.end_row();
        Ok(())
    }

    fn append_main_request(&mut self, trace: &Trace<'_>) {
        let main = trace.main_request;
        self.rows.int("request_count", count(trace.n_requests));
        self.name("model", main.and_then(|request| request.model.as_deref()));
        let rows = &mut self.rows;
        rows.float(
            "engine_ttft_s",
            main.and_then(|request| request.engine_ttft_s),
        );
        rows.float("e2e_s", main.and_then(|request| request.e2e_s));
        rows.float("tpot_s", main.and_then(|request| request.tpot_s));
        rows.int(
            "input_tokens",
            main.and_then(|request| request.input_tokens),
        );
        rows.int(
            "output_tokens",
            main.and_then(|request| request.output_tokens),
        );
        rows.int(
            "cached_tokens",
            main.and_then(|request| request.cached_tokens),
        );
        rows.text("outcome", main.map(|request| request.outcome.as_str()));
    }

    fn name(&mut self, column: &str, name: Option<&str>) {
        let name = name.map(|name| cut(name, NAME_BYTES_MAX, &mut self.scratch).0);
        self.rows.text(column, name);
    }
}

fn count(n: u64) -> Option<i64> {
    i64::try_from(n).ok()
}
