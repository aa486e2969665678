//! Releases whose evidence lacks samples that may still come: an exporter that was away, a Collector that sends what it
//! kept.
//!
//! A release with nothing incomplete is not here at all. Another waits until its requests are complete, each of which gets
//! its rows again then; or until its time is over, the log fills up, too many requests wait, or the process stops: then
//! what is not complete stays as it is. So a request has one later revision at most.

use std::collections::{BTreeMap, HashSet};

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use correlate::{KeptRequest, Placements};
use otlp::{SpanId, TraceId};

use super::window::Window;

/// Requests that wait; beyond it the oldest stay as they are.
const WAITING_MAX: usize = 1 << 16;

/// What tells one request from another.
pub(super) type Key = (TraceId, SpanId);

pub(super) fn key(request: &KeptRequest) -> Key {
    (request.trace_id, request.span_id)
}

/// A release of which some requests are incomplete.
#[derive(Debug)]
struct Release {
    until_unix_nano: i64,
    requests: Vec<KeptRequest>,
}

/// What waits, by release sequence.
#[derive(Debug, Default)]
pub(super) struct Late {
    releases: BTreeMap<i64, Release>,
    n_waiting: usize,
}

impl Late {
    pub(super) const fn n_waiting(&self) -> usize {
        self.n_waiting
    }

    /// The first release that waits.
    pub(super) fn first(&self) -> Option<i64> {
        self.releases.keys().next().copied()
    }

    /// Requests of a release that are incomplete wait until then.
    pub(super) fn add(
        &mut self,
        sequence: i64,
        until_unix_nano: i64,
        incomplete: impl IntoIterator<Item = KeptRequest>,
    ) {
        let mut incomplete: Vec<KeptRequest> = incomplete.into_iter().collect();
        if incomplete.is_empty() {
            return;
        }
        let release = self.releases.entry(sequence).or_insert(Release {
            until_unix_nano,
            requests: Vec::new(),
        });
        // A span that came twice in one release is one request.
        let mut known: HashSet<Key> = release.requests.iter().map(key).collect();
        incomplete.retain(|request| known.insert(key(request)));
        self.n_waiting += incomplete.len();
        release.requests.append(&mut incomplete);
    }

    /// Requests that are complete by now, which wait no more. Of releases whose time is over, the others wait no more
    /// either.
    pub(super) fn take_complete(
        &mut self,
        window: &Window,
        placements: &Placements,
        is_urgent: bool,
        now: i64,
    ) -> Vec<(i64, Vec<KeptRequest>)> {
        let mut complete = Vec::new();
        let mut n_waiting = self.n_waiting;
        self.releases.retain(|sequence, release| {
            let is_over = is_urgent || n_waiting > WAITING_MAX || now >= release.until_unix_nano;
            n_waiting -= release.requests.len();
            let requests = std::mem::take(&mut release.requests);
            let (due, rest): (Vec<_>, Vec<_>) = requests
                .into_iter()
                .partition(|request| window.completes(request, placements));
            if !due.is_empty() {
                complete.push((*sequence, due));
            }
            if is_over {
                return false;
            }
            n_waiting += rest.len();
            release.requests = rest;
            !release.requests.is_empty()
        });
        self.n_waiting = n_waiting;
        complete
    }
}

/// The requests of some rows of `evidence` of which a device was not sampled beyond the end.
pub(super) fn incomplete(rows: &RecordBatch) -> HashSet<Key> {
    let texts = |name: &str| rows.column_by_name(name)?.as_string_opt::<i32>();
    let complete = rows.column_by_name("complete");
    let (Some(traces), Some(spans), Some(complete)) = (
        texts("trace_id"),
        texts("span_id"),
        complete.and_then(|column| column.as_boolean_opt()),
    ) else {
        return HashSet::new();
    };
    let incomplete =
        (0..rows.num_rows()).filter(|row| complete.is_valid(*row) && !complete.value(*row));
    let keys = incomplete.filter_map(|row| {
        let trace_id = TraceId::parse_hex(traces.value(row)).ok()?;
        Some((trace_id, SpanId::parse_hex(spans.value(row)).ok()?))
    });
    keys.collect()
}
