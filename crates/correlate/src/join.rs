//! Evidence: kept requests joined with the samples of the devices that they ran on.
//!
//! 1. Each request is mapped to the devices that its pod held in its time (`placement`): pairs of request and
//!    device, or one row that names the missing link.
//! 2. For each pair the samples of that time are two places in the device's series (`index`, `series`), guessed from
//!    the scrape interval and searched for from there.
//! 3. What the samples between those places say is computed for one device after the other (`measured`, `range`,
//!    `counter`), so that the cost is O((requests + samples) log samples) however long requests are, and what is read
//!    of a device is read from memory once and not for each request.
//! 4. The other columns of `evidence` are written for all pairs at once (`columns`).
//!
//! Nothing is shared out: a device's values are the device's, and `attribution` says who else was on it.

mod columns;
mod concurrency;
mod counter;
mod index;
mod measure;
mod measured;
mod pairs;
mod range;
mod series;

#[cfg(test)]
pub(crate) mod tests;

use std::{borrow::Cow, collections::HashMap, sync::Arc, time::Duration};

use arrow::array::RecordBatch;
use otlp::{SpanId, TraceId};
use tables::requests::Request;

use crate::placement::{Placements, Pod};

use self::pairs::Pairs;

pub use concurrency::Intervals;
pub use index::SampleIndex;

/// Times of the join.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How far away the one sample may be, where none was taken within a request.
    pub nearest_max: Duration,
    /// How long before a request the same device is compared with.
    pub baseline: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            nearest_max: Duration::from_secs(60),
            baseline: Duration::from_secs(600),
        }
    }
}

/// A request of a kept trace, as far as the join needs it.
#[derive(Clone, Debug)]
pub struct KeptRequest {
    /// Its trace.
    pub trace_id: TraceId,
    /// Its engine span.
    pub span_id: SpanId,
    /// Pod of the engine.
    pub pod: Pod,
    /// Node of the engine.
    pub node: Option<Arc<str>>,
    /// See [`engine_key`].
    pub engine: Option<Arc<str>>,
    /// Start of the engine span, nanoseconds since 1970.
    pub start_unix_nano: i64,
    /// Its end.
    pub end_unix_nano: i64,
}

impl KeptRequest {
    /// What the join needs of a row of `requests`.
    #[must_use]
    pub fn of(request: &Request) -> Self {
        let text = |text: &Option<String>| {
            text.as_deref()
                .filter(|text| !text.is_empty())
                .map(Arc::from)
        };
        let (start_unix_nano, end_unix_nano) = interval(request);
        Self {
            trace_id: request.trace_id,
            span_id: request.span_id,
            pod: Pod {
                cluster: text(&request.k8s_cluster_name),
                namespace: text(&request.k8s_namespace_name),
                name: text(&request.k8s_pod_name),
                uid: text(&request.k8s_pod_uid),
            },
            node: text(&request.k8s_node_name).or_else(|| text(&request.host_name)),
            engine: engine_key(request).map(Arc::from),
            start_unix_nano,
            end_unix_nano,
        }
    }
}

/// Start and end of its engine span, nanoseconds since 1970; it does not end before it starts.
#[must_use]
pub fn interval(request: &Request) -> (i64, i64) {
    let start = i64::try_from(request.start_time_unix_nano).unwrap_or(i64::MAX);
    let end = i64::try_from(request.end_time_unix_nano).unwrap_or(i64::MAX);
    (start, end.max(start))
}

/// What tells one engine process from another, in this order: its instance id, its pod's UID, its pod's name with the
/// namespace; `None` where a request says none of them.
#[must_use]
pub fn engine_key(request: &Request) -> Option<Cow<'_, str>> {
    let known = |text| Option::as_deref(text).filter(|text: &&str| !text.is_empty());
    known(&request.service_instance_id)
        .or_else(|| known(&request.k8s_pod_uid))
        .map(Cow::Borrowed)
        .or_else(|| {
            let name = known(&request.k8s_pod_name)?;
            let namespace = known(&request.k8s_namespace_name).unwrap_or_default();
            Some(Cow::Owned(format!("{namespace}/{name}")))
        })
}

/// When requests ran, by engine: all traffic, kept or not.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// An engine's may come in parts, which are shared with whoever remembers them.
    engines: HashMap<Arc<str>, Vec<Arc<Intervals>>>,
}

impl Traffic {
    /// Takes `(engine, start, end)` in any order.
    #[must_use]
    pub fn new(requests: impl IntoIterator<Item = (Arc<str>, i64, i64)>) -> Self {
        let mut engines: HashMap<Arc<str>, Vec<(i64, i64)>> = HashMap::new();
        for (engine, start, end) in requests {
            engines.entry(engine).or_default().push((start, end));
        }
        Self::of_parts(engines.into_iter().map(|(engine, each)| {
            let mut intervals = Intervals::default();
            intervals.extend(each);
            (engine, Arc::new(intervals))
        }))
    }

    /// Takes what is sorted already; an engine may come several times, a request only once.
    #[must_use]
    pub fn of_parts(parts: impl IntoIterator<Item = (Arc<str>, Arc<Intervals>)>) -> Self {
        let mut engines: HashMap<Arc<str>, Vec<Arc<Intervals>>> = HashMap::new();
        for (engine, part) in parts {
            engines.entry(engine).or_default().push(part);
        }
        Self { engines }
    }

    /// Requests on the engine at a moment, the one that starts then among them; `None` for an unknown engine.
    #[must_use]
    pub fn running_at(&self, engine: &str, at: i64) -> Option<usize> {
        let parts = self.engines.get(engine)?.iter();
        Some(parts.map(|part| part.at(at)).sum())
    }

    /// Requests that shared time with `start..end`, the one that had it among them.
    #[must_use]
    pub fn overlapping(&self, engine: &str, start: i64, end: i64) -> Option<usize> {
        let parts = self.engines.get(engine)?.iter();
        let (began, over) = parts
            .map(|part| part.began_and_over(start, end))
            .fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        // One that is empty at `start` is over then and did not begin before it.
        Some(began.saturating_sub(over))
    }
}

/// Joins kept requests with samples: rows of `evidence`, those of one request in the order of its devices.
///
/// `revision` is 0 for what is written first, 1 for what late samples completed.
#[must_use]
pub fn evidence(
    requests: &[KeptRequest],
    samples: &SampleIndex,
    placements: &Placements,
    traffic: &Traffic,
    settings: Settings,
    revision: i64,
) -> RecordBatch {
    let pairs = Pairs::new(requests, samples, placements, traffic, settings);
    columns::build(requests, &pairs, revision)
}
