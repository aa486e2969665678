//! A slice of simulated time: its exports and scrapes, in the groups in which they are stored.

use std::collections::HashMap;
use std::time::Duration;

use loadgen::fleet::{self, Config, Placement, Run, Scrape};
use otlp::TraceId;
use otlp::export::{Limits, SpanAt, spans};
use otlp::span::SpanSummary;

use super::{Result, SECOND};

/// Simulated at a time; its bytes are in memory.
pub(super) const SLICE: Duration = Duration::from_secs(600);

/// Time between commits of a service.
const COMMIT_INTERVAL: u64 = 30 * SECOND;

/// After the root has ended, a trace is decided.
pub(super) const GRACE: u64 = 10 * SECOND;

/// More than this is more than two engines can do.
const RATE: f64 = 12.0;

/// What goes wrong in a slice, one after the other: most of the time nothing.
const FAULTS: [Option<&str>; 6] = [
    None,
    Some("thermal@60-120"),
    None,
    Some("long_prefill@200-240"),
    Some("power@300-360"),
    Some("kv_preemption@100-130"),
];

pub(super) fn simulate(number: u64, start_unix_nano: u64) -> Run {
    let place = usize::try_from(number).unwrap_or_default() % FAULTS.len();
    let faults = FAULTS[place].and_then(|text| fleet::faults(text, SLICE).ok());
    fleet::simulate(&Config {
        seed: number,
        start_unix_nano,
        duration: SLICE,
        rate: RATE,
        faults: faults.unwrap_or_default(),
        ..Config::default()
    })
}

pub(super) fn n_spans(run: &Run) -> u64 {
    run.exports
        .iter()
        .map(|export| u64::from(export.n_spans))
        .sum()
}

/// A trace whole.
pub(super) struct Whole<'a> {
    pub(super) trace_id: TraceId,
    pub(super) spans: Vec<(SpanAt<'a>, SpanSummary<'a>)>,
    pub(super) received_unix_nano: u64,
    pub(super) decided_unix_nano: u64,
}

/// What is stored together.
#[derive(Default)]
pub(super) struct Group<'a> {
    pub(super) traces: Vec<Whole<'a>>,
    pub(super) scrapes: Vec<&'a Scrape>,
    /// Of the whole slice.
    pub(super) placements: &'a [Placement],
}

pub(super) struct Slice<'a> {
    groups: Vec<Group<'a>>,
}

impl<'a> Slice<'a> {
    /// What ends after `end_unix_nano` belongs to the last group; samples after it to the next slice.
    pub(super) fn new(run: &'a Run, end_unix_nano: u64, is_split: bool) -> Result<Self> {
        let start = end_unix_nano - u64::try_from(SLICE.as_nanos())?;
        let n_groups = if is_split {
            SLICE.as_secs() * SECOND / COMMIT_INTERVAL
        } else {
            1
        };
        let group_nanos = (end_unix_nano - start) / n_groups;
        let place = |at: u64| {
            let place = at.saturating_sub(start) / group_nanos;
            usize::try_from(place.min(n_groups - 1)).unwrap_or_default()
        };
        let mut groups: Vec<Group<'a>> = (0..n_groups)
            .map(|_| Group {
                placements: &run.placements,
                ..Group::default()
            })
            .collect();
        for trace in traces(run)? {
            groups[place(trace.decided_unix_nano)].traces.push(trace);
        }
        for scrape in &run.scrapes {
            if (start..end_unix_nano).contains(&scrape.at_unix_nano) {
                groups[place(scrape.at_unix_nano)].scrapes.push(scrape);
            }
        }
        Ok(Self { groups })
    }

    pub(super) fn groups(&self) -> &[Group<'a>] {
        &self.groups
    }
}

/// The traces of a run, in the order in which they are decided.
fn traces(run: &Run) -> Result<Vec<Whole<'_>>> {
    let limits = Limits::default();
    let mut places: HashMap<TraceId, usize> = HashMap::new();
    let mut traces: Vec<Whole<'_>> = Vec::new();
    for export in &run.exports {
        for at in spans(&export.body, &limits) {
            let at = at?;
            let summary = SpanSummary::read(at.span)?;
            let place = *places.entry(summary.trace_id).or_insert_with(|| {
                traces.push(Whole {
                    trace_id: summary.trace_id,
                    spans: Vec::new(),
                    received_unix_nano: export.due_unix_nano,
                    decided_unix_nano: 0,
                });
                traces.len() - 1
            });
            let trace = &mut traces[place];
            trace.spans.push((at, summary));
            let decided = export.due_unix_nano + GRACE;
            trace.decided_unix_nano = trace.decided_unix_nano.max(decided);
        }
    }
    traces.sort_by_key(|trace| trace.decided_unix_nano);
    Ok(traces)
}
