//! What undecided traces cost when there are many: memory, time to add a span, time to decide.

use std::{hint::black_box, time::Duration};

use measure::{Arrived, Shape, T0, Template};
use otlp::{TraceId, span::SpanSummary};
use sampler::{Reports, ResourceFacts, Sampler, SpanHandle};

use crate::{Result, now, sampling};

/// Of the given time, between two exports.
const EXPORT_INTERVAL_NS: u64 = 1_000;
/// Of an export: traces of many spans come side by side too.
const SPANS_PER_EXPORT_MAX: usize = 3_000;
const TRACES_PER_EXPORT_MAX: usize = 100;
/// Decided at once, as the intake has it.
const TRACES_PER_TICK: usize = 10_000;
/// Of which the time is taken.
const DECIDED_MAX: usize = 200_000;

/// Adds the traces, decides some, and prints a line of JSON. Times are those of the last tenth of the spans, when nearly all
/// traces are there; `longest_export_ms` is the longest stop at any export, which is where tables grow.
pub(crate) fn measure(n_traces: u64, spans_per_trace: usize) -> Result<()> {
    let n_traces_max = SPANS_PER_EXPORT_MAX / spans_per_trace.max(1);
    let shape = Shape {
        n_traces: n_traces_max.clamp(1, TRACES_PER_EXPORT_MAX),
        spans_per_trace,
        ..Shape::USUAL
    };
    let spans = measure::arrived(&Template::new(shape, 1), 1)?;
    let n_exports = n_traces.div_ceil(shape.n_traces as u64);
    let mut config = sampling()?;
    // As one sets it: not much more than there are, because as many decisions are remembered.
    config.num_traces = n_exports * shape.n_traces as u64;
    let mut sampler = Sampler::new(&config)?;
    let resident_before = resident_bytes()?;

    let mut exports = Exports::default();
    for export in 0..n_exports {
        let begun = now();
        add(&mut sampler, &spans, export)?;
        exports.add(
            begun.elapsed(),
            export >= n_exports - n_exports.div_ceil(10),
        );
    }
    let stats = sampler.stats();
    let resident = resident_bytes()?.saturating_sub(resident_before);
    let peak = peak_bytes()?.saturating_sub(resident_before);

    let (mut n_decided, mut deciding) = (0, Duration::ZERO);
    while n_decided < DECIDED_MAX {
        let mut decided = Vec::new();
        let begun = now();
        sampler.tick(u64::MAX, TRACES_PER_TICK, &mut decided);
        deciding += begun.elapsed();
        n_decided += decided.len();
        if decided.is_empty() {
            break;
        }
    }
    println!(
        "{{\"traces\": {}, \"spans_per_trace\": {spans_per_trace}, \"spans\": {}, \"heap_bytes\": {}, \"resident_bytes\": \
         {resident}, \"peak_bytes\": {peak}, \"add_ns_per_span\": {:.1}, \"decide_ns_per_trace\": {:.1}, \
         \"longest_export_ms\": {:.3}}}",
        stats.n_traces,
        stats.n_spans,
        stats.pending_heap_bytes,
        exports.measured.as_nanos() as f64 / (exports.n_measured * shape.n_spans() as u64) as f64,
        deciding.as_nanos() as f64 / n_decided as f64,
        exports.longest.as_secs_f64() * 1e3,
    );
    Ok(())
}

/// Times of exports.
#[derive(Default)]
struct Exports {
    measured: Duration,
    n_measured: u64,
    longest: Duration,
}

impl Exports {
    fn add(&mut self, took: Duration, is_measured: bool) {
        self.longest = self.longest.max(took);
        if is_measured {
            self.measured += took;
            self.n_measured += 1;
        }
    }
}

/// The spans as those of another export: only their trace ids differ, which policies do not read again.
fn add(sampler: &mut Sampler, spans: &[Arrived], export: u64) -> Result<()> {
    let mut facts: Option<ResourceFacts> = None;
    for span in spans {
        let known = match facts {
            Some(known) if !span.has_new_resource => known,
            Some(_) | None => sampler.read_resource(span.at.resource)?,
        };
        facts = Some(known);
        let summary = SpanSummary {
            trace_id: renumbered(span.summary.trace_id, export)?,
            ..span.summary
        };
        let handle = SpanHandle {
            position: export,
            offset: span.at.offset,
        };
        let now_unix_nano = T0 + export * EXPORT_INTERVAL_NS;
        let (reports, bytes) = (Reports::Itself, span.at.span);
        black_box(sampler.observe(&known, bytes, &summary, handle, reports, now_unix_nano));
    }
    Ok(())
}

/// Ids of a template are hashes of a counter, so that their halves are random already.
fn renumbered(trace_id: TraceId, export: u64) -> Result<TraceId> {
    let mut id = *trace_id.as_bytes();
    for (byte, changed) in id.iter_mut().zip(export.to_be_bytes()) {
        *byte ^= changed;
    }
    Ok(TraceId::from_slice(&id)?)
}

fn resident_bytes() -> Result<u64> {
    status_bytes("VmRSS:")
}

fn peak_bytes() -> Result<u64> {
    status_bytes("VmHWM:")
}

fn status_bytes(key: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kib: u64 = kib
        .ok_or("the system does not say how much memory is used")?
        .trim()
        .parse()?;
    Ok(kib * 1024)
}
