//! A trace for <https://ui.perfetto.dev>, as Chrome JSON trace events.
//!
//! Each service is a process, its spans are in lanes (threads): a span stands below the one that it lies within in
//! time, and in the next lane where it overlaps one. Phases of an engine request have a track
//! of their own. GPUs and engines are
//! processes of their own with a counter per gauge.
//!
//! Limits: times are microseconds from the first start, which is in `otherData`; JSON numbers do not hold nanoseconds since
//! 1970. More than [`LANES_MAX`] spans of a service that overlap are async events, which need no lane. Attributes are not
//! in it.

use std::collections::{BTreeMap, HashMap};

use ::arrow::array::{Array as _, AsArray as _, RecordBatch};
use ::arrow::datatypes::Int64Type;
use ::otlp::SpanId;
use bytes::Bytes;
use serde_json::{Value, json};

use super::surroundings::{Phase, Series, Surroundings};
use super::{Error, Parts, Result, StoredTrace};
use crate::explain::cells;

/// Lanes of a service.
const LANES_MAX: usize = 64;

/// Rows that are written at once.
const ROWS_PER_PART: usize = 1_024;

/// The trace of [`super::Order::Resource`], with what was measured around it.
pub(crate) fn perfetto(trace: StoredTrace, around: Surroundings) -> Result<Parts> {
    let mut tracks = Tracks {
        start_unix_nano: first_start(&trace, &around),
        phases: around.phases,
        ..Tracks::default()
    };
    let head = format!(
        "{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[{}",
        json!({
            "trace_id": trace.trace_id.to_string(),
            "start_unix_nano": tracks.start_unix_nano.to_string(),
        }),
        // So that every event that follows begins with a comma.
        json!({"ph": "M", "name": "trace", "pid": 0, "args": {}}),
    );
    let series = around.series.into_iter();
    let slices = trace.batches.into_iter().flat_map(|batch| {
        let n_rows = batch.num_rows();
        let starts = (0..n_rows).step_by(ROWS_PER_PART);
        starts.map(move |start| batch.slice(start, ROWS_PER_PART.min(n_rows - start)))
    });
    let steps = slices.map(Step::Spans).chain(series.map(Step::Series));
    let events = steps.map(move |step| {
        let mut out = String::new();
        match step {
            Step::Spans(rows) => tracks.write_spans(&rows, &mut out)?,
            Step::Series(series) => tracks.write_series(&series, &mut out),
        }
        Ok(Bytes::from(out))
    });
    let head = std::iter::once(Ok(Bytes::from(head)));
    let tail = std::iter::once(Ok(Bytes::from_static(b"]}")));
    Ok(Box::new(head.chain(events).chain(tail)))
}

enum Step {
    Spans(RecordBatch),
    Series(Series),
}

fn first_start(trace: &StoredTrace, around: &Surroundings) -> i64 {
    let starts = trace.batches.iter().filter_map(|batch| {
        let column = batch.column_by_name("start_time_unix_nano")?;
        ::arrow::compute::min(column.as_primitive_opt::<Int64Type>()?)
    });
    let samples = around.series.iter().flat_map(|series| &series.values);
    // Samples from before the first span would have negative times.
    starts
        .chain(samples.map(|(time, _, _)| *time))
        .min()
        .unwrap_or(0)
}

/// What the rows so far have led to.
#[derive(Debug, Default)]
struct Tracks {
    start_unix_nano: i64,
    phases: BTreeMap<SpanId, Vec<Phase>>,
    /// Processes that were named.
    n_processes: usize,
    services: HashMap<String, Service>,
}

#[derive(Debug, Default)]
struct Service {
    pid: usize,
    /// Of each lane, the ends of the spans that lie within each other there, outermost first.
    lanes: Vec<Vec<i64>>,
}

impl Service {
    /// The lane of a span, if there is one left. Spans come by their start.
    fn lane(&mut self, start: i64, end: i64) -> Option<usize> {
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            while lane.last().is_some_and(|open| *open <= start) {
                lane.pop();
            }
            if lane.last().is_none_or(|open| *open >= end) {
                lane.push(end);
                return Some(number);
            }
        }
        if self.lanes.len() == LANES_MAX {
            return None;
        }
        self.lanes.push(vec![end]);
        Some(self.lanes.len() - 1)
    }
}

impl Tracks {
    fn process(&mut self, name: &str, out: &mut String) -> usize {
        self.n_processes += 1;
        let pid = self.n_processes;
        let args = json!({ "name": name });
        push(
            out,
            &json!({"ph": "M", "name": "process_name", "pid": pid, "args": args}),
        );
        let args = json!({ "sort_index": pid });
        push(
            out,
            &json!({"ph": "M", "name": "process_sort_index", "pid": pid, "args": args}),
        );
        pid
    }

    /// Microseconds from the start of the trace.
    fn micros(&self, unix_nano: i64) -> f64 {
        unix_nano.saturating_sub(self.start_unix_nano) as f64 / 1e3
    }

    fn write_spans(&mut self, rows: &RecordBatch, out: &mut String) -> Result<()> {
        let names = [
            "service_name",
            "name",
            "span_id",
            "parent_span_id",
            "status_code",
            "kind",
        ];
        let mut texts = Vec::with_capacity(names.len());
        for name in names {
            texts.push(cells(rows, name).map_err(Error::writing)?);
        }
        let [start, end] = ["start_time_unix_nano", "end_time_unix_nano"].map(|name| {
            let column = rows.column_by_name(name)?;
            column.as_primitive_opt::<Int64Type>()
        });
        let (Some(starts), Some(ends)) = (start, end) else {
            return Err(Error::writing("spans without times"));
        };
        for row in 0..rows.num_rows() {
            let text = |place: usize| {
                let column = texts.get(place)?.as_string_opt::<i32>()?;
                column.is_valid(row).then(|| column.value(row))
            };
            // A span without a start has no place on an axis of time.
            if starts.is_null(row) {
                continue;
            }
            let start = starts.value(row);
            let end = if ends.is_valid(row) {
                ends.value(row).max(start)
            } else {
                start
            };
            let span = Drawn {
                service: text(0).unwrap_or_default(),
                name: text(1).unwrap_or_default(),
                span_id: text(2).unwrap_or_default(),
                args: json!({
                    "span_id": text(2),
                    "parent_span_id": text(3),
                    "status": text(4),
                    "kind": text(5),
                }),
                start,
                end,
            };
            self.write_span(&span, out);
        }
        Ok(())
    }

    fn write_span(&mut self, span: &Drawn<'_>, out: &mut String) {
        if !self.services.contains_key(span.service) {
            let pid = self.process(span.service, out);
            let lanes = Vec::new();
            self.services
                .insert(span.service.to_owned(), Service { pid, lanes });
        }
        let Some(service) = self.services.get_mut(span.service) else {
            return;
        };
        let (pid, lane) = (service.pid, service.lane(span.start, span.end));
        let (ts, dur) = (
            self.micros(span.start),
            (span.end - span.start) as f64 / 1e3,
        );
        let Some(lane) = lane else {
            let begin = json!({
                "ph": "b", "cat": "span", "id": span.span_id, "name": span.name, "pid": pid, "tid": 0, "ts": ts,
                "args": span.args,
            });
            push(out, &begin);
            let end = json!({
                "ph": "e", "cat": "span", "id": span.span_id, "name": span.name, "pid": pid, "tid": 0, "ts": ts + dur,
            });
            push(out, &end);
            return;
        };
        let tid = lane + 1;
        let event = json!({
            "ph": "X", "cat": "span", "name": span.name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": span.args,
        });
        push(out, &event);
        let phases = SpanId::parse_hex(span.span_id);
        let phases = phases.ok().and_then(|id| self.phases.get(&id));
        if let Some(phases) = phases {
            write_phases(span, phases, pid, (ts, ts + dur), out);
        }
    }

    fn write_series(&mut self, series: &Series, out: &mut String) {
        let pid = self.process(&series.name, out);
        for (time, gauge, value) in &series.values {
            let args = json!({ "value": value });
            let event = json!({"ph": "C", "name": gauge, "pid": pid, "ts": self.micros(*time), "args": args});
            push(out, &event);
        }
    }
}

/// Phases are async events of one id: whatever else is in the service's lanes, they have a track of their own, and end
/// with their span.
fn write_phases(
    span: &Drawn<'_>,
    phases: &[Phase],
    pid: usize,
    (from, to): (f64, f64),
    out: &mut String,
) {
    let mut write = |ph: &str, name: &str, ts: f64| {
        let event = json!({
            "ph": ph, "cat": "phase", "id": span.span_id, "name": name, "pid": pid, "tid": 0, "ts": ts,
        });
        push(out, &event);
    };
    let title = format!("phases of {}", span.name);
    write("b", &title, from);
    for phase in phases {
        let begin = from + phase.offset_s * 1e6;
        write("b", &phase.name, begin.min(to));
        write("e", &phase.name, (begin + phase.duration_s * 1e6).min(to));
    }
    write("e", &title, to);
}

struct Drawn<'a> {
    service: &'a str,
    name: &'a str,
    span_id: &'a str,
    args: Value,
    start: i64,
    end: i64,
}

fn push(out: &mut String, event: &Value) {
    out.push(',');
    out.push_str(&event.to_string());
}
