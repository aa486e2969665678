//! What requests took, over all traffic, for `/metrics`: histograms by model and input band, and counters of objectives.
//!
//! # What counts
//!
//! - Every row of `requests`, of kept and dropped traces alike, as soon as it is a row: an engine request at once, a call that
//!   no engine request answered after its wait. Not a row that restates another (`wrapper`). One whose caller got another's
//!   output (`superseded`) is counted as such and nowhere else. So a request counts once: what counts here is
//!   `FROM requests WHERE NOT wrapper AND NOT superseded` in SQL.
//! - Times of requests that answered (`outcome` = `ok`). Failed, cancelled and empty ones are counted by outcome in
//!   `llm_requests_total`, and are in no time.
//! - A time to first token stands under the position of its clock: sums over `position` mean nothing. The other times are
//!   those of engines; a call that is a row has none of them.
//!
//! For an objective about errors, `error` and `no_output` are bad and `ok` is good; a cancelled request is neither, because its
//! caller gave it up. For one about a time, requests that answered and have the time are all; those without it are counted
//! as unmeasured, not as good.
//!
//! # A restart
//!
//! All of this begins at 0 with the process, as Prometheus expects. Rows that the tables had at the start are repeated by the
//! log and do not count again. Those that the process before counted and did not commit are counted by both: after a kill at
//! most what came within `lake::commit_interval` (more where commits failed), after a stop nothing.
//!
//! # Limits
//!
//! `label_sets_max` pairs of model and input band, the first that come; later ones, and models with names of more than
//! 128 bytes, are under `other`. An unknown model or band is the empty label.
//!
//! It must not know how a page is written.

pub(crate) mod histogram;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tables::requests::{Outcome, Position as MeasuredAt, Request, band};

use crate::config::Slo;
use crate::config::slo::{Measure, Position};
use crate::exposition::{Family, Kind, Value};
use histogram::Histogram;

/// Longest name of a model that is a label.
const MODEL_BYTES_MAX: usize = 128;

/// Label of what has no series of its own.
const OTHER: &str = "other";

const OUTCOMES: [Outcome; 4] = [
    Outcome::Ok,
    Outcome::Error,
    Outcome::Cancelled,
    Outcome::NoOutput,
];

/// Counts the rows of a writer that are not stored yet.
#[derive(Debug)]
pub(crate) struct Counting {
    measured: Arc<Measured>,
    stored_through: i64,
}

impl Counting {
    /// The writer's table has the releases through this one.
    pub(crate) fn new(measured: &Arc<Measured>, stored_through: i64) -> Self {
        Self {
            measured: Arc::clone(measured),
            stored_through,
        }
    }

    /// Counts a row of a release.
    pub(crate) fn count(&self, sequence: i64, request: &Request) {
        if sequence > self.stored_through {
            self.measured.count(request);
        }
    }
}

/// The counts of this process.
#[derive(Debug)]
pub(crate) struct Measured {
    slo: Slo,
    counts: Mutex<Counts>,
    created_unix_nano: u64,
}

#[derive(Debug, Default)]
struct Counts {
    /// By model, then input band.
    sets: HashMap<Box<str>, HashMap<&'static str, Times>>,
    n_sets: usize,
    other: Times,
    /// By objective and promise, in the order of the file.
    kept: Vec<Kept>,
}

/// What requests of one kind took.
#[derive(Debug, Default)]
struct Times {
    outcomes: [u64; OUTCOMES.len()],
    superseded: u64,
    ttft: [Histogram; Position::ALL.len()],
    tpot: Histogram,
    e2e: Histogram,
    queue: Histogram,
}

/// How a promise was kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Kept {
    total: u64,
    good: u64,
    unmeasured: u64,
}

/// What a request is to a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    Good,
    Bad,
    Unmeasured,
    /// It is not promised anything.
    Outside,
}

impl Measured {
    /// Nothing is counted yet; it is `now_unix_nano`.
    pub(crate) fn new(slo: Slo, now_unix_nano: u64) -> Self {
        let n_promises = slo.objectives.iter().map(|o| o.promises.len()).sum();
        let counts = Counts {
            kept: vec![Kept::default(); n_promises],
            ..Counts::default()
        };
        Self {
            slo,
            counts: Mutex::new(counts),
            created_unix_nano: now_unix_nano,
        }
    }

    /// When counting began.
    pub(crate) fn created_unix_nano(&self) -> u64 {
        self.created_unix_nano
    }

    /// The promises that requests are judged by.
    pub(crate) fn slo(&self) -> &Slo {
        &self.slo
    }

    /// Counts a request.
    pub(crate) fn count(&self, request: &Request) {
        if request.wrapper {
            return;
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts
            .times(request, self.slo.label_sets_max)
            .count(request);
        if request.superseded {
            return;
        }
        let mut kept = counts.kept.iter_mut();
        for objective in &self.slo.objectives {
            let is_matched = objective.matches(request);
            for (promise, kept) in objective.promises.iter().zip(&mut kept) {
                if is_matched {
                    kept.count(judge(promise.measure, promise.threshold, request));
                }
            }
        }
    }

    /// The families of the page.
    pub(crate) fn families(&self) -> Vec<Family> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut families = counts.families();
        families.extend(self.objectives(&counts.kept));
        families.retain(|family| !family.series.is_empty());
        families
    }

    fn objectives(&self, kept: &[Kept]) -> Vec<Family> {
        if self.slo.objectives.is_empty() {
            return Vec::new();
        }
        let family = |name: &str, kind, help: &str| Family::new(name, kind, help);
        let mut total = family(
            "slo_requests_total",
            Kind::Counter,
            "Requests that an objective is about and that have its measure.",
        );
        let mut good = family(
            "slo_requests_good_total",
            Kind::Counter,
            "Those of them that are as promised.",
        );
        let mut unmeasured = family(
            "slo_requests_unmeasured_total",
            Kind::Counter,
            "Requests that an objective is about and that answered without its measure; neither good nor bad.",
        );
        let mut target = family(
            "slo_target_ratio",
            Kind::Gauge,
            "Share of the requests that is promised to be good.",
        );
        let mut threshold = family(
            "slo_threshold_seconds",
            Kind::Gauge,
            "Longest time that is good.",
        );
        let mut window = family(
            "slo_window_seconds",
            Kind::Gauge,
            "Time over which the target holds.",
        );
        let promises = self.slo.objectives.iter();
        let promises = promises.flat_map(|o| o.promises.iter().map(|promise| (&o.name, promise)));
        for ((name, promise), kept) in promises.zip(kept) {
            let labels = [
                ("objective", name.as_str()),
                ("measure", promise.measure.as_str()),
            ];
            total.push(&labels, number(kept.total));
            good.push(&labels, number(kept.good));
            if promise.measure != Measure::Errors {
                unmeasured.push(&labels, number(kept.unmeasured));
            }
            target.push(&labels, Value::Number(promise.target));
            if let Some(longest) = promise.threshold {
                threshold.push(&labels, Value::Number(longest.as_secs_f64()));
            }
            window.push(&labels, Value::Number(self.slo.window.as_secs_f64()));
        }
        vec![total, good, unmeasured, target, threshold, window]
    }
}

impl Counts {
    /// Where the times of a request belong.
    fn times(&mut self, request: &Request, label_sets_max: usize) -> &mut Times {
        let model = request.model.as_deref().unwrap_or_default();
        let band = request.input_tokens.map_or("", band);
        let sets = self.sets.get(model);
        if sets.is_none_or(|sets| !sets.contains_key(band)) {
            if self.n_sets >= label_sets_max || model.len() > MODEL_BYTES_MAX {
                return &mut self.other;
            }
            self.n_sets += 1;
            if sets.is_none() {
                self.sets.insert(Box::from(model), HashMap::new());
            }
        }
        match self.sets.get_mut(model) {
            Some(sets) => sets.entry(band).or_default(),
            None => &mut self.other,
        }
    }

    /// Every set of labels with its times, sorted.
    fn all(&self) -> Vec<([(&'static str, &str); 2], &Times)> {
        let mut all: Vec<_> = self
            .sets
            .iter()
            .flat_map(|(model, bands)| {
                let bands = bands.iter();
                bands.map(|(band, times)| ([("model", &**model), ("input_band", *band)], times))
            })
            .collect();
        all.sort_unstable_by_key(|(labels, _)| *labels);
        if self.other.is_used() {
            all.push(([("model", OTHER), ("input_band", OTHER)], &self.other));
        }
        all
    }

    fn families(&self) -> Vec<Family> {
        let all = self.all();
        let mut requests = Family::new(
            "llm_requests_total",
            Kind::Counter,
            "Requests of all traffic, kept or not, by how they ended; superseded: the caller got another's output.",
        );
        let mut ttft = Family::new(
            "llm_request_ttft_seconds",
            Kind::Histogram,
            "Start to first output of requests that answered, by the position of the clock; do not sum over positions.",
        );
        for (labels, times) in &all {
            for (outcome, count) in OUTCOMES.iter().zip(&times.outcomes) {
                let [model, band] = *labels;
                requests.push(
                    &[model, band, ("outcome", outcome.as_str())],
                    number(*count),
                );
            }
            if times.superseded > 0 {
                let [model, band] = *labels;
                let labels = [model, band, ("outcome", "superseded")];
                requests.push(&labels, number(times.superseded));
            }
            for (position, histogram) in Position::ALL.iter().zip(&times.ttft) {
                let [model, band] = *labels;
                if !histogram.is_empty() {
                    let labels = [("position", position.as_str()), model, band];
                    ttft.push(&labels, Value::Histogram(histogram.clone()));
                }
            }
        }
        let of = |name: &str, help: &str, histogram: fn(&Times) -> &Histogram| {
            let mut family = Family::new(name, Kind::Histogram, help);
            for (labels, times) in &all {
                let histogram = histogram(times);
                if !histogram.is_empty() {
                    family.push(labels, Value::Histogram(histogram.clone()));
                }
            }
            family
        };
        let tpot = of(
            "llm_request_tpot_seconds",
            "Time per output token after the first, of requests that answered with two or more.",
            |times| &times.tpot,
        );
        let e2e = of(
            "llm_request_e2e_seconds",
            "Arrival at the engine to completion, of requests that answered.",
            |times| &times.e2e,
        );
        let queue = of(
            "llm_request_queue_seconds",
            "Waiting to be scheduled, of requests that answered.",
            |times| &times.queue,
        );
        vec![requests, ttft, tpot, e2e, queue]
    }
}

impl Times {
    fn is_used(&self) -> bool {
        self.superseded > 0 || self.outcomes.iter().any(|count| *count > 0)
    }

    fn count(&mut self, request: &Request) {
        if request.superseded {
            self.superseded = self.superseded.saturating_add(1);
            return;
        }
        let mut outcomes = OUTCOMES.iter().zip(&mut self.outcomes);
        if let Some((_, count)) = outcomes.find(|(outcome, _)| **outcome == request.outcome) {
            *count = count.saturating_add(1);
        }
        if request.outcome != Outcome::Ok {
            return;
        }
        let is_kept = request.decision == Some(sampler::Decision::Sampled.as_str());
        let kept = is_kept.then_some((request.trace_id, request.end_time_unix_nano));
        for (position, histogram) in Position::ALL.into_iter().zip(&mut self.ttft) {
            if let Some(seconds) = ttft_s(position, request) {
                histogram.add(seconds, kept);
            }
        }
        for (seconds, histogram) in [
            (request.tpot_s, &mut self.tpot),
            (request.e2e_s, &mut self.e2e),
            (request.queue_s, &mut self.queue),
        ] {
            if let Some(seconds) = of_engine(request, seconds) {
                histogram.add(seconds, kept);
            }
        }
    }
}

impl Kept {
    fn count(&mut self, judged: Judged) {
        let add = |count: &mut u64| *count = count.saturating_add(1);
        match judged {
            Judged::Good => {
                add(&mut self.total);
                add(&mut self.good);
            }
            Judged::Bad => add(&mut self.total),
            Judged::Unmeasured => add(&mut self.unmeasured),
            Judged::Outside => {}
        }
    }
}

fn judge(measure: Measure, threshold: Option<Duration>, request: &Request) -> Judged {
    let seconds = match measure {
        Measure::Errors => {
            return match request.outcome {
                Outcome::Ok => Judged::Good,
                Outcome::Error | Outcome::NoOutput => Judged::Bad,
                Outcome::Cancelled => Judged::Outside,
            };
        }
        Measure::Ttft(position) => ttft_s(position, request),
        Measure::Tpot => of_engine(request, request.tpot_s),
        Measure::E2e => of_engine(request, request.e2e_s),
    };
    match (request.outcome, seconds, threshold) {
        (Outcome::Ok, Some(seconds), Some(longest)) if seconds <= longest.as_secs_f64() => {
            Judged::Good
        }
        (Outcome::Ok, Some(_), _) => Judged::Bad,
        (Outcome::Ok, None, _) => Judged::Unmeasured,
        (Outcome::Error | Outcome::Cancelled | Outcome::NoOutput, ..) => Judged::Outside,
    }
}

fn ttft_s(position: Position, request: &Request) -> Option<f64> {
    match position {
        Position::Engine => request.engine_ttft_s,
        Position::App => request.app_ttft_s,
        Position::Gateway => request.gateway_ttft_s,
        Position::Client => request.client_ttft_s,
    }
}

/// A time that is only kept of engines: that of a call ends elsewhere.
fn of_engine(request: &Request, seconds: Option<f64>) -> Option<f64> {
    seconds.filter(|_| request.position == MeasuredAt::Engine)
}

fn number(count: u64) -> Value {
    #[expect(
        clippy::cast_precision_loss,
        reason = "the page's numbers are of this kind; counts are exact up to 2^53"
    )]
    let number = count as f64;
    Value::Number(number)
}

#[cfg(test)]
mod tests;
