//! Sightings, and rows as tests look at them.

use std::sync::Arc;

use arrow::{
    array::{Array as _, AsArray as _, RecordBatch},
    datatypes::Int64Type,
};
use otlp::testing::{T0, sid, tid};
use tables::batches::{Participant, Worker};

use crate::batch::{BatchSource, BatchTimes, BatchWindow, Sighting};

pub(super) const MILLI: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000 * MILLI;

/// Decided when everything in these tests is over, and the capture of SGLang too.
pub(super) const DECIDED: u64 = T0 + 366 * 86_400 * SECOND;

pub(super) fn worker(pod: &str) -> Arc<Worker> {
    Arc::new(Worker {
        engine: Some("vllm"),
        k8s_pod_name: Some(pod.into()),
        ..Worker::default()
    })
}

pub(super) fn participant(n: u32, tokens: Option<u64>) -> Participant {
    Participant {
        trace_id: Some(tid(n)),
        span_id: Some(sid(n)),
        request_id: None,
        request_id_normalised: None,
        phase: None,
        tokens,
    }
}

/// A batch of 10 ms, `at` milliseconds after the beginning, as an event of one participant says it.
pub(super) fn event(pod: &str, id: &str, at: u64, size: Option<u64>, one: Participant) -> Sighting {
    let (start, end) = (T0 + at * MILLI, T0 + (at + 10) * MILLI);
    Sighting {
        source: BatchSource::SpanEvent,
        worker: worker(pod),
        dp_rank: None,
        batch_id: id.into(),
        step: None,
        times: Some((BatchTimes::Reported, start, end)),
        around: (start, end),
        size,
        batch_tokens: None,
        model: None,
        span: None,
        participants: vec![one],
    }
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) pod: Option<String>,
    pub(super) batch_id: String,
    pub(super) step: Option<i64>,
    pub(super) start: Option<i64>,
    pub(super) duration: Option<i64>,
    pub(super) trace_id: Option<String>,
    pub(super) span_id: Option<String>,
    pub(super) tokens: Option<i64>,
    pub(super) share: Option<i64>,
    pub(super) method: Option<String>,
    pub(super) estimated: bool,
    pub(super) count: Option<i64>,
    pub(super) listed: i64,
    pub(super) source: String,
    pub(super) times: Option<String>,
    pub(super) quality: Vec<String>,
}

pub(super) fn rows(batch: &RecordBatch) -> Vec<Row> {
    let text = |name: &str, row: usize| {
        let column = batch[name].as_string::<i32>();
        column.is_valid(row).then(|| column.value(row).to_owned())
    };
    let int = |name: &str, row: usize| {
        let column = batch[name].as_primitive::<Int64Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    let list = |name: &str, row: usize| {
        let items = batch[name].as_list::<i32>().value(row);
        let items = items.as_string::<i32>().iter().flatten();
        items.map(str::to_owned).collect()
    };
    let row = |row| Row {
        pod: text("k8s_pod_name", row),
        batch_id: text("batch_id", row).unwrap(),
        step: int("step", row),
        start: int("start_time_unix_nano", row),
        duration: int("duration_ns", row),
        trace_id: text("trace_id", row),
        span_id: text("span_id", row),
        tokens: int("tokens", row),
        share: int("share_ns", row),
        method: text("share_method", row),
        estimated: batch["estimated"].as_boolean().value(row),
        count: int("participant_count", row),
        listed: int("listed_count", row).unwrap(),
        source: text("source", row).unwrap(),
        times: text("interval_source", row),
        quality: list("quality", row),
    };
    (0..batch.num_rows()).map(row).collect()
}

/// Settles everything that waits.
pub(super) fn settle_all(window: &mut BatchWindow) -> Vec<Row> {
    let mut all = Vec::new();
    while let Some(settled) = window.settle_first() {
        all.extend(settled.rows.iter().flat_map(rows));
    }
    all
}

/// Rows of a window that took these sightings in one release.
pub(super) fn settled(sightings: Vec<Sighting>) -> Vec<Row> {
    let mut window = BatchWindow::new(Default::default(), false);
    window.take(1, DECIDED, sightings);
    settle_all(&mut window)
}

/// Trace, share and method of each row, as text.
pub(super) fn shares(rows: &[Row]) -> Vec<String> {
    let line = |row: &Row| {
        let who = row
            .trace_id
            .as_deref()
            .map_or("-", |id| id.get(..8).unwrap_or(id));
        let share = row
            .share
            .map_or("NULL".to_owned(), |share| share.to_string());
        let method = row.method.as_deref().unwrap_or("NULL");
        let estimated = if row.estimated { " estimated" } else { "" };
        format!("{who} {share} {method}{estimated}")
    };
    rows.iter().map(line).collect()
}
