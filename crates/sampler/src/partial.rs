//! Policies asked about traces that are known in part: what stored rows can decide, and what not.
//!
//! A stored trace may lack its spans (it was not kept), some of their attributes (they were
//! redacted or cut), or the types of their values. [`Replay`] asks the same compiled policies that a
//! [`crate::Sampler`] has, and answers with every verdict that is possible: one verdict is exact,
//! several are a doubt, and [`Doubt`] says about what.
//!
//! Everything is done twice. The *exact* view takes nothing for granted. The *likely* view takes
//! the first reading of a value whose type is not stored, believes what [`Replay::claim`] was told,
//! replays budgets of policies in the order in which traces are asked about, and takes it that no
//! sampler before this one had a say. An answer that only the likely view gives is marked as such.
//!
//! The possible verdicts are a superset: the true one is always among the exact view's (a property
//! test holds this against the sampler). So a new kind of policy must say in `possible` what it
//! gives for unknown input; the compiler insists.
//!
//! Not seen from here: when a trace would have been decided. It is judged as it was when it was, so
//! other waits change nothing; and of a span that came twice only one copy is known. Nor which traces
//! were kept because they link to a kept one (`linked`). A `budget` is not replayed: what policies keep
//! is likely kept. Rates of `adaptive` are not learned: what it says is unknown. Of an attribute that is
//! repeated within a span only the last value is stored; where the first counts (`compat: collector`),
//! the last is taken for it.

mod answer;
mod possible;
mod row;

use otlp::span::{SpanSummary, StatusCode};

pub use self::answer::{Asked, Doubt, Facts, Judged, Known, Part, Reading, Said, Why};

use self::possible::{Inputs, View};
use crate::atoms::AtomSet;
use crate::config::Config;
use crate::decision::Decision;
use crate::error::Result;
use crate::pending::Trace;
use crate::services::Services;
use crate::verdict::Policies;

/// Conditions that are met for certain, and that can be met.
#[derive(Debug, Clone, Copy, Default)]
struct Bounds {
    sure: AtomSet,
    possible: AtomSet,
}

/// What is known of one trace.
#[derive(Debug, Clone)]
pub struct PartialTrace {
    facts: Facts,
    exact: Bounds,
    likely: Bounds,
    services: Option<Vec<String>>,
    n_seen: u64,
    n_seen_errors: u64,
    /// Conditions on keys that claims know, and those that claims meet.
    claimed: (AtomSet, AtomSet),
    doubts: Vec<(AtomSet, Doubt)>,
}

/// The policies of a configuration, asked about stored traces.
#[derive(Debug)]
pub struct Replay {
    policies: Policies,
    trace_bytes_max: Option<u64>,
    parts: Vec<Part>,
    /// Of each policy in file order.
    inputs: Vec<Inputs>,
    /// A budget for all may take back that a trace is kept.
    may_cut: bool,
    /// Nobody's names.
    services: Services,
}

impl Replay {
    /// Compiles the policies. The strategy `span-ingest` judges batches, which are not stored: what
    /// is answered here is what its policies say of the whole trace.
    ///
    /// # Errors
    /// What [`Config::validate`] finds.
    pub fn new(config: &Config) -> Result<Self> {
        config.check_keys()?;
        let policies = Policies::compile(config)?;
        config.rounds(&policies)?;
        Ok(Self {
            trace_bytes_max: Some(config.maximum_trace_size_bytes).filter(|bytes| *bytes > 0),
            parts: policies.atoms.parts(),
            inputs: policies
                .tests
                .iter()
                .map(crate::verdict::Test::inputs)
                .collect(),
            may_cut: config.budget.is_some(),
            services: Services::new(),
            policies,
        })
    }

    /// Parts of spans that the policies look at and storage can lose; sorted.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Do the policies look at more of spans than what [`Facts`] say?
    #[must_use]
    pub fn reads_spans(&self) -> bool {
        let of_facts = AtomSet::of_status(StatusCode::Error);
        self.inputs
            .iter()
            .map(|inputs| inputs.atoms)
            .any(|atoms| atoms != AtomSet::EMPTY && !of_facts.contains(atoms))
    }

    /// Does the order of traces matter?
    #[must_use]
    pub fn has_budget(&self) -> bool {
        self.may_cut || self.inputs.iter().any(|inputs| inputs.has_budget)
    }

    /// A trace of which no span is known yet.
    #[must_use]
    pub fn begin(&self, facts: Facts) -> PartialTrace {
        let (sure, possible) = self.policies.atoms.durations_up_to(facts.duration_ns);
        let bounds = Bounds { sure, possible };
        PartialTrace {
            facts,
            exact: bounds,
            likely: bounds,
            services: None,
            n_seen: 0,
            n_seen_errors: 0,
            claimed: (AtomSet::EMPTY, AtomSet::EMPTY),
            doubts: Vec::new(),
        }
    }

    /// Adds a span in all ways in which it can be read, the likely one first, and what of it is
    /// lost in every reading.
    ///
    /// # Errors
    /// Bytes that are not a resource and a span; the trace is as before then.
    pub fn add_span(
        &self,
        trace: &mut PartialTrace,
        readings: &[Reading<'_>],
        lost: &[(Part, Why)],
    ) -> Result<(), otlp::Error> {
        let mut found = Vec::with_capacity(readings.len());
        for reading in readings {
            found.push(self.read(*reading)?);
        }
        let Some((first, is_error)) = found.first().copied() else {
            return Ok(());
        };
        let mut of_lost = AtomSet::EMPTY;
        for (part, why) in lost {
            let atoms = self.policies.atoms.reading(part);
            of_lost |= atoms;
            trace.doubt(atoms, part.to_string(), *why);
        }
        let (mut every, mut any) = (first, first);
        for (atoms, _) in &found {
            every = every.and(*atoms);
            any |= *atoms;
        }
        for (atom, what) in self.policies.atoms.describe(any.without(every)) {
            trace.doubt(atom, what, Why::Type);
        }
        trace.exact.add(every, any, of_lost);
        trace.likely.add(first, first, of_lost);
        trace.n_seen += 1;
        trace.n_seen_errors += u64::from(is_error);
        Ok(())
    }

    fn read(&self, reading: Reading<'_>) -> Result<(AtomSet, bool), otlp::Error> {
        let Reading { resource, span } = reading;
        let atoms = &self.policies.atoms;
        let (mut found, truths) = atoms.read_resource(resource)?;
        let summary = SpanSummary::read(span)?;
        found |= AtomSet::of_status(summary.status_code);
        found |= atoms.read_span(truths, span, &summary, AtomSet::EMPTY)?;
        Ok((found, summary.status_code == StatusCode::Error))
    }

    /// Says of a trace without its spans what is known otherwise: attributes that some span or
    /// resource has, as a `Resource` message. With `is_certain` they are there for certain, else
    /// probably. That no span has another value for their keys is likely in both cases.
    ///
    /// # Errors
    /// Bytes that are no resource.
    pub fn claim(
        &self,
        trace: &mut PartialTrace,
        resource: &[u8],
        is_certain: bool,
    ) -> Result<(), otlp::Error> {
        let (on_keys, met) = self.policies.atoms.read_claim(resource)?;
        trace.claimed.0 |= on_keys;
        trace.claimed.1 |= met;
        if is_certain {
            trace.exact.add(met, met, AtomSet::EMPTY);
        }
        Ok(())
    }

    /// Asks every policy. Budgets are taken from, so the order of traces is that of decisions.
    pub fn judge(&mut self, trace: &PartialTrace) -> Judged {
        let (exact, likely) = self.close(trace);
        let facts = &trace.facts;
        let is_too_large = self.trace_bytes_max.is_some_and(|max| facts.n_bytes > max);
        let exact = View {
            bounds: exact,
            facts,
            services: trace.services.as_deref(),
            stand_in: &Trace::new(facts.trace_id, 0, 0),
            names: &self.services,
            is_likely: false,
            is_asked: !is_too_large,
        };
        let likely = View {
            bounds: likely,
            is_likely: true,
            ..exact
        };
        let exact = self.policies.possible(&exact);
        let likely = self.policies.possible(&likely);
        let verdicts = exact.said.iter().zip(&likely.said);
        let verdicts = verdicts.map(|(exact, likely)| Asked {
            said: Known::of(exact.only(), likely.only()),
            is_asked: likely.is_asked,
        });
        let verdicts = verdicts.collect();
        if is_too_large {
            return Judged {
                decision: Known::Exact(Decision::NotSampled),
                policy: Known::Unknown,
                verdicts,
                is_too_large,
            };
        }
        let is_kept = |decision: &Decision| *decision == Decision::Sampled;
        let certain = exact
            .decision()
            .filter(|one| !(self.may_cut && is_kept(one)));
        Judged {
            decision: Known::of(certain, likely.decision()),
            policy: Known::of(exact.decision().and(exact.policy), likely.policy),
            verdicts,
            is_too_large,
        }
    }

    /// What the exact verdict of a policy hangs on, where it is not known.
    #[must_use]
    pub fn doubts(&self, trace: &PartialTrace, policy: usize) -> Vec<Doubt> {
        let (exact, _) = self.close(trace);
        let Some(inputs) = self.inputs.get(policy) else {
            return Vec::new();
        };
        let mut open = inputs.atoms.and(exact.possible.without(exact.sure));
        let mut doubts = Vec::new();
        for (atoms, doubt) in &trace.doubts {
            if open.intersects(*atoms) {
                doubts.push(doubt.clone());
            }
        }
        for (atoms, _) in &trace.doubts {
            open = open.without(*atoms);
        }
        for (atom, what) in self.policies.atoms.describe(open) {
            let is_claimed = trace.claimed.0.contains(atom);
            let why = if is_claimed {
                Why::Claimed
            } else {
                Why::NotStored
            };
            doubts.push(Doubt { what, why });
        }
        if inputs.has_budget {
            doubts.push(Doubt {
                what: "budget".to_owned(),
                why: Why::Budget,
            });
        }
        doubts.extend(inputs.others.iter().map(|(what, why)| Doubt {
            what: (*what).to_owned(),
            why: *why,
        }));
        doubts.sort_unstable();
        doubts.dedup();
        doubts
    }

    /// The bounds with what the spans that were not seen can have met.
    fn close(&self, trace: &PartialTrace) -> (Bounds, Bounds) {
        let (mut exact, mut likely) = (trace.exact, trace.likely);
        let facts = &trace.facts;
        let n_unseen = facts.n_spans.saturating_sub(trace.n_seen);
        if n_unseen == 0 {
            return (exact, likely);
        }
        let n_errors = facts.n_error_spans.saturating_sub(trace.n_seen_errors);
        let error = AtomSet::of_status(StatusCode::Error);
        let mut others = AtomSet::of_status(StatusCode::Unset);
        others |= AtomSet::of_status(StatusCode::Ok);
        let mut impossible = self.policies.atoms.durations_up_to(u64::MAX).1;
        let mut sure = AtomSet::EMPTY;
        if n_errors == 0 {
            impossible |= error;
        } else {
            sure |= error;
        }
        if n_unseen <= n_errors {
            impossible |= others;
        }
        let possible = self.policies.atoms.all().without(impossible);
        exact.add(sure, possible, AtomSet::EMPTY);
        let (on_keys, met) = trace.claimed;
        let refuted = on_keys.without(met);
        sure |= met;
        likely.add(sure, possible.without(refuted), AtomSet::EMPTY);
        (exact, likely)
    }
}

impl PartialTrace {
    /// What it was begun with.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Names all services in it.
    pub fn set_services(&mut self, services: &[String]) {
        self.services = Some(services.to_vec());
    }

    /// Spans that were added.
    #[must_use]
    pub fn n_seen(&self) -> u64 {
        self.n_seen
    }

    fn doubt(&mut self, atoms: AtomSet, what: String, why: Why) {
        if atoms == AtomSet::EMPTY {
            return;
        }
        let doubt = Doubt { what, why };
        match self.doubts.iter_mut().find(|(_, known)| *known == doubt) {
            Some((known, _)) => *known |= atoms,
            None => self.doubts.push((atoms, doubt)),
        }
    }
}

impl Bounds {
    /// One more span; `lost` are conditions of which it is not known whether it meets them.
    fn add(&mut self, sure: AtomSet, possible: AtomSet, lost: AtomSet) {
        self.sure |= sure.without(lost);
        self.possible |= possible;
        self.possible |= sure;
        self.possible |= lost;
    }
}
