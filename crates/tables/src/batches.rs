//! Table `batches`: scheduling steps of engines, and how the time of each is shared among its participants.
//!
//! # Decided
//!
//! *One row per batch and participant*, flat, so that the time of a request is a sum over its rows. What is true of the
//! batch (its id, its engine, its times) is repeated in each row.
//!
//! *The shares of one batch add up to its duration, to the nanosecond, never to more.* Time of participants that nobody
//! named is nobody's: it stands in one row without a participant, the remainder. So it does where the number of participants
//! is not known, and then all of the time is there and the named ones have NULL.
//!
//! *A share is a model, not a measurement.* `share_method` names it; `estimated` says that something in it is an assumption:
//! equal parts for want of tokens, or an end that is the beginning of the next step. It is time of the engine's step: where
//! an engine runs on several GPUs, they all worked that long.
//!
//! *A batch is written once.* Who is named later than that is counted (`lake_batch_sightings_late_total`), and what is
//! written stays.

use std::sync::Arc;

use otlp::{SpanId, TraceId};

use crate::{
    column::{Column, ColumnType::*, SortKey, Spec},
    error::Result,
    redact::cut,
    row::{Rows, offer_rows},
    time,
};

/// Table `batches`.
pub static SPEC: Spec = Spec {
    name: "batches",
    doc: "One row per scheduling step of an engine and participant, and one without a participant for what is not theirs.",
    columns: COLUMNS,
    sort: &[
        SortKey::ascending("minute"),
        SortKey::ascending("trace_id"),
        SortKey::ascending("start_time_unix_nano"),
    ],
    bloom: &["trace_id", "batch_id"],
    stats: &["minute", "start_time"],
    retention_days: 14,
};

const COLUMNS: &[Column] = &[
    Column::new("date", Date, "Day of the batch's start (UTC); the partition.")
        .key()
        .source("start_time_unix_nano"),
    Column::new("minute", Time, "Minute of the batch's start; rows of a trace are together in it.")
        .key()
        .source("start_time_unix_nano"),
    Column::new("batch_id", Text, "Batch, as the engine names it; the id of the batch's span where it names none.")
        .key()
        .source("batch_id, bid"),
    Column::new("step", Int, "Number of the engine's step.").source("step"),
    Column::new("engine", Text, "vllm, sglang, dynamo or tensorrt_llm.").source("span name and scope"),
    Column::new("model", Text, "Model.").source("gen_ai.response.model, else gen_ai.request.model"),
    Column::new("service_name", Text, "Service.").source("service.name"),
    Column::new("service_instance_id", Text, "Instance (process) of the service.").source("service.instance.id"),
    Column::new("k8s_cluster_name", Text, "Kubernetes cluster.").source("k8s.cluster.name"),
    Column::new("k8s_namespace_name", Text, "Kubernetes namespace.").source("k8s.namespace.name"),
    Column::new("k8s_pod_name", Text, "Pod of the engine.").source("k8s.pod.name"),
    Column::new("k8s_pod_uid", Text, "Pod, unique over time.").source("k8s.pod.uid"),
    Column::new("k8s_node_name", Text, "Kubernetes node.").source("k8s.node.name"),
    Column::new("host_name", Text, "Host.").source("host.name"),
    Column::new("dp_rank", Int, "Data parallel rank of the engine.").source("dp_rank"),
    Column::new("start_time", Time, "Start of the batch; NULL where only membership is known.").source("by interval_source"),
    Column::new("start_time_unix_nano", Int, "The same, exact.").unit("ns").source("by interval_source"),
    Column::new("end_time", Time, "End of the batch.").source("by interval_source"),
    Column::new("duration_ns", Int, "Length of the batch; NULL where it is not known.").unit("ns").source("by interval_source"),
    Column::new(
        "interval_source",
        Text,
        "Where start and end are from: reported, batch_span, stage_span, or next_event (the end is the next step's beginning).",
    )
    .source("computed"),
    Column::new("batch_tokens", Int, "Tokens of the batch, as the engine says.").unit("tokens").source("batch_tokens"),
    Column::new("participant_count", Int, "Participants of the batch; NULL where not known.")
        .unit("requests")
        .source("batch_size, else the links of the batch's span"),
    Column::new("listed_count", Int, "Participants that were named.").key().unit("requests").source("computed"),
    Column::new("trace_id", Text, "Trace of the participant; NULL where only its request id is known, and in the remainder.")
        .source("trace_id"),
    Column::new("span_id", Text, "Its span, as the source names it: mostly the engine span.").source("span_id"),
    Column::new("request_id", Text, "Its request id.").source("gen_ai.request.id"),
    Column::new("request_id_normalised", Text, "The part of it that other services know too.").source("gen_ai.request.id"),
    Column::new("phase", Text, "What the step did for it: prefill, decode or mixed.").source("phase, forward_mode"),
    Column::new("tokens", Int, "Its tokens in the step.").unit("tokens").source("tokens"),
    Column::new("share_ns", Int, "Its share of the batch's time; the shares of a batch add up to duration_ns.")
        .unit("ns")
        .source("computed"),
    Column::new(
        "share_method",
        Text,
        "tokens or equal; NULL where nothing was shared. The row of the remainder, which has no participant: remainder.",
    )
    .source("computed"),
    Column::new(
        "estimated",
        Bool,
        "Whether the share rests on an assumption: equal parts, an end that is the next step's beginning, all taken as named.",
    )
    .key()
    .source("computed"),
    Column::new(
        "source",
        Text,
        "Who named the participants: reported, batch_span, span_event or span_attribute.",
    )
    .key()
    .source("computed"),
    Column::new("batch_trace_id", Text, "Trace of the batch's own span.").source("trace_id"),
    Column::new("batch_span_id", Text, "The batch's own span.").source("span_id"),
    Column::new(
        "quality",
        TextList,
        "What was contradictory: end_before_start, tokens_differ, tokens_over_batch, more_than_size.",
    )
    .source("computed"),
    Column::new("received_time", Time, "When the release that named it first was decided.").source("intake"),
];

/// Longest stored text of a sender.
const TEXT_BYTES_MAX: usize = 256;

/// An engine that runs batches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Worker {
    /// Kind of engine.
    pub engine: Option<&'static str>,
    /// `service.name`.
    pub service_name: Option<Arc<str>>,
    /// `service.instance.id`.
    pub service_instance_id: Option<Arc<str>>,
    /// Kubernetes cluster.
    pub k8s_cluster_name: Option<Arc<str>>,
    /// Kubernetes namespace.
    pub k8s_namespace_name: Option<Arc<str>>,
    /// Pod name.
    pub k8s_pod_name: Option<Arc<str>>,
    /// Pod UID.
    pub k8s_pod_uid: Option<Arc<str>>,
    /// Node.
    pub k8s_node_name: Option<Arc<str>>,
    /// Host.
    pub host_name: Option<Arc<str>>,
}

/// What is true of a batch, in each of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its id.
    pub batch_id: Arc<str>,
    /// Step of the engine.
    pub step: Option<i64>,
    /// The engine.
    pub worker: Arc<Worker>,
    /// Data parallel rank.
    pub dp_rank: Option<i64>,
    /// Model.
    pub model: Option<Arc<str>>,
    /// Start and end, nanoseconds since 1970; the end is not before the start.
    pub interval: Option<(u64, u64)>,
    /// Where they are from.
    pub interval_source: Option<&'static str>,
    /// A moment near it, where its start is not known: for the partition.
    pub near_unix_nano: u64,
    /// Tokens of the batch as the engine says.
    pub batch_tokens: Option<u64>,
    /// Participants, named or not.
    pub participant_count: Option<u64>,
    /// Participants that were named.
    pub listed_count: u64,
    /// Who named them.
    pub source: &'static str,
    /// Its own span.
    pub span: Option<(TraceId, SpanId)>,
    /// What was contradictory.
    pub quality: Vec<&'static str>,
    /// When it was heard of first.
    pub received_unix_nano: u64,
}

/// A participant that was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    /// Its trace.
    pub trace_id: Option<TraceId>,
    /// Its span.
    pub span_id: Option<SpanId>,
    /// Its request id; known where the trace is not.
    pub request_id: Option<Arc<str>>,
    /// `request_id` without what engines add.
    pub request_id_normalised: Option<Arc<str>>,
    /// What the step did for it.
    pub phase: Option<&'static str>,
    /// Its tokens in the step.
    pub tokens: Option<u64>,
}

/// What a row gets of the batch's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Nanoseconds; `None` where the time or the number of participants is not known.
    pub nanos: Option<u64>,
    /// How it was shared.
    pub method: Option<&'static str>,
    /// Does it rest on an assumption?
    pub estimated: bool,
}

/// Builds batches of [`SPEC`].
#[derive(Debug)]
pub struct BatchesBuilder {
    rows: Rows,
    scratch: String,
}

offer_rows!(BatchesBuilder);

impl BatchesBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        Self {
            rows: Rows::new(&SPEC),
            scratch: String::new(),
        }
    }

    /// Appends the row of one participant, or of the remainder. Texts longer than 256 bytes are cut.
    ///
    /// # Errors
    /// [`crate::Error::Full`] if the batch must be finished first; it is unchanged then.
    pub fn append(
        &mut self,
        batch: &Batch,
        participant: Option<&Participant>,
        share: Share,
    ) -> Result<()> {
        self.rows.check_room()?;
        self.append_batch(batch);
        self.append_participant(participant);
        let rows = &mut self.rows;
        rows.int(
            "share_ns",
            share.nanos.and_then(|nanos| i64::try_from(nanos).ok()),
        );
        rows.text("share_method", share.method);
        rows.bool("estimated", Some(share.estimated));
        rows.text("source", Some(batch.source));
        rows.id_or_null("batch_trace_id", batch.span.map(|(trace_id, _)| trace_id));
        rows.span_id("batch_span_id", batch.span.map(|(_, span_id)| span_id));
        rows.texts("quality", Some(batch.quality.iter().copied()));
        rows.time("received_time", batch.received_unix_nano);
        rows.end_row();
        Ok(())
    }

    fn append_batch(&mut self, batch: &Batch) {
        let start = batch.interval.map_or(0, |(start, _)| start);
        let end = batch.interval.map_or(0, |(_, end)| end);
        let near = if start == 0 {
            batch.near_unix_nano
        } else {
            start
        };
        let received = batch.received_unix_nano;
        self.rows.date("date", time::partition_date(near, received));
        self.rows
            .micros("minute", Some(time::minute(near, received)));
        self.text("batch_id", Some(&batch.batch_id));
        self.rows.int("step", batch.step);
        let worker = &batch.worker;
        self.rows.text("engine", worker.engine);
        self.text("model", batch.model.as_deref());
        self.text("service_name", worker.service_name.as_deref());
        self.text("service_instance_id", worker.service_instance_id.as_deref());
        self.text("k8s_cluster_name", worker.k8s_cluster_name.as_deref());
        self.text("k8s_namespace_name", worker.k8s_namespace_name.as_deref());
        self.text("k8s_pod_name", worker.k8s_pod_name.as_deref());
        self.text("k8s_pod_uid", worker.k8s_pod_uid.as_deref());
        self.text("k8s_node_name", worker.k8s_node_name.as_deref());
        self.text("host_name", worker.host_name.as_deref());
        let rows = &mut self.rows;
        rows.int("dp_rank", batch.dp_rank);
        rows.time("start_time", start);
        rows.int("start_time_unix_nano", time::nanos(start));
        rows.time("end_time", end);
        rows.int("duration_ns", time::duration_ns(start, end));
        rows.text("interval_source", batch.interval_source);
        rows.int("batch_tokens", count(batch.batch_tokens));
        rows.int("participant_count", count(batch.participant_count));
        rows.int("listed_count", count(Some(batch.listed_count)));
    }

    fn append_participant(&mut self, participant: Option<&Participant>) {
        let trace_id = participant.and_then(|participant| participant.trace_id);
        self.rows.id_or_null("trace_id", trace_id);
        let span_id = participant.and_then(|participant| participant.span_id);
        self.rows.span_id("span_id", span_id);
        let text = |pick: fn(&Participant) -> Option<&Arc<str>>| participant.and_then(pick);
        self.text(
            "request_id",
            text(|one| one.request_id.as_ref()).map(|id| &**id),
        );
        let normalised = text(|one| one.request_id_normalised.as_ref());
        self.text("request_id_normalised", normalised.map(|id| &**id));
        let rows = &mut self.rows;
        rows.text(
            "phase",
            participant.and_then(|participant| participant.phase),
        );
        rows.int(
            "tokens",
            count(participant.and_then(|participant| participant.tokens)),
        );
    }

    fn text(&mut self, column: &str, text: Option<&str>) {
        let text = text.map(|text| cut(text, TEXT_BYTES_MAX, &mut self.scratch).0);
        self.rows.text(column, text);
    }
}

/// As stored: 64 bits with a sign.
fn count(number: Option<u64>) -> Option<i64> {
    number.and_then(|number| i64::try_from(number).ok())
}
