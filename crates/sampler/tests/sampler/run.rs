//! Feeding spans to a sampler with given time.

use otlp::span::SpanSummary;
use sampler::{Config, Decided, Observed, Reports, Sampler, SpanHandle};
use serde_json::{Value as Json, json};

use crate::bytes::Span;

/// Where the tests' clock starts: 2026-03-01T12:00:00Z.
pub(crate) const T0: u64 = 1_772_366_400_000_000_000;
/// A millisecond in nanoseconds.
pub(crate) const MS: u64 = 1_000_000;

/// A configuration from the Collector's keys.
pub(crate) fn config(keys: Json) -> Config {
    serde_json::from_value(keys).unwrap()
}

/// A sampler with these policies and otherwise these keys.
pub(crate) fn sampler_of(policies: Json, mut keys: Json) -> Sampler {
    keys["policies"] = policies;
    Sampler::new(&config(keys)).unwrap()
}

/// `[{name: p, type: T, T: section}]`.
pub(crate) fn one_policy(policy_type: &str, section: &Json) -> Json {
    json!([{"name": "p", "type": policy_type, policy_type: section}])
}

/// Numbers the spans it sends and keeps what comes back.
#[derive(Debug)]
pub(crate) struct Run {
    /// Under test.
    pub(crate) sampler: Sampler,
    /// All decisions so far.
    pub(crate) decided: Vec<Decided>,
    /// Spans sent so far; each handle's position is its number.
    pub(crate) n_sent: u64,
}

impl Run {
    /// Nothing sent yet.
    pub(crate) fn new(sampler: Sampler) -> Self {
        Self {
            sampler,
            decided: Vec::new(),
            n_sent: 0,
        }
    }

    /// Sends one span at `T0 + at_ms`.
    pub(crate) fn send(&mut self, at_ms: u64, span: &Span) -> Observed {
        let facts = self.sampler.read_resource(&span.encode_resource()).unwrap();
        let bytes = span.encode();
        let summary = SpanSummary::read(&bytes).unwrap();
        let handle = SpanHandle {
            position: self.n_sent,
            offset: 7,
        };
        self.n_sent += 1;
        self.sampler.observe(
            &facts,
            &bytes,
            &summary,
            handle,
            Reports::Itself,
            T0 + at_ms * MS,
        )
    }

    /// Ticks at `T0 + at_ms`.
    pub(crate) fn tick(&mut self, at_ms: u64) {
        self.sampler
            .tick(T0 + at_ms * MS, usize::MAX, &mut self.decided);
    }

    /// The decision on a span's trace, which must be one.
    pub(crate) fn decision_on(&self, span: &Span) -> &Decided {
        let is_of_trace = |decided: &&Decided| decided.trace_id.as_bytes() == &span.trace_id();
        let found: Vec<&Decided> = self.decided.iter().filter(is_of_trace).collect();
        assert_eq!(found.len(), 1, "decisions on trace {}", span.trace);
        found[0]
    }
}
