//! What may have made a phase long, in the order of ruling out, with the facts for and against.

use std::fmt;

use super::{
    Course, DeviceFact, EngineSample, Facts,
    path::{Part, Role},
    phases::{Phase, PhaseTime},
};

mod devices;
mod engine;
mod prompt;

/// A cause that can be told from the facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// Nothing exceeds the usual.
    Usual,
    /// The client itself, or the way from it.
    Client,
    /// The gateway held the request before it called on.
    Gateway,
    /// The search for documents.
    Retrieval,
    /// Another service before the engine.
    Service,
    /// A GPU error; the engine stood still.
    Xid,
    /// Memory of a GPU had errors that could not be corrected.
    Ecc,
    /// More requests than the engine takes at once.
    Queueing,
    /// The KV cache had no room.
    KvCache,
    /// Less of its prompt than usual was in the prefix cache.
    PrefixCache,
    /// Its own prompt is longer than those of requests like it.
    InputLength,
    /// Long prompts of others took the engine's steps.
    LongPrefill,
    /// A device was slowed by heat.
    ThermalThrottle,
    /// A device was slowed by an external power brake.
    PowerThrottle,
    /// The link between the devices made errors.
    Nvlink,
    /// The answer was taken slowly after the engine was done.
    Delivery,
    /// The facts carry no cause.
    Unknown,
}

impl Cause {
    /// In snake case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Usual => "usual",
            Self::Client => "client",
            Self::Gateway => "gateway",
            Self::Retrieval => "retrieval",
            Self::Service => "service",
            Self::Xid => "xid",
            Self::Ecc => "ecc",
            Self::Queueing => "queueing",
            Self::KvCache => "kv_cache",
            Self::PrefixCache => "prefix_cache",
            Self::InputLength => "input_length",
            Self::LongPrefill => "long_prefill",
            Self::ThermalThrottle => "thermal_throttle",
            Self::PowerThrottle => "power_throttle",
            Self::Nvlink => "nvlink",
            Self::Delivery => "delivery",
            Self::Unknown => "unknown",
        }
    }
}

/// How a hypothesis stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Facts speak for it, none against.
    Supported,
    /// Facts speak against it.
    Contradicted,
    /// The facts that would decide it are missing.
    Undecided,
}

impl Standing {
    /// In snake case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Contradicted => "contradicted",
            Self::Undecided => "undecided",
        }
    }
}

/// How strong a fact is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strength {
    /// Measured on this request.
    Observed,
    /// Measured at the same time on something that it used.
    CoTemporal,
    /// Computed from others.
    Derived,
}

impl Strength {
    /// In snake case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Observed => "observed",
            Self::CoTemporal => "co_temporal",
            Self::Derived => "derived",
        }
    }
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// In words.
    pub text: String,
    /// The rows behind it.
    pub source: FactSource,
    /// How strong it is.
    pub strength: Strength,
}

/// Which rows a fact was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FactRows {
    /// Spans of the trace.
    Spans,
    /// The request itself.
    Request,
    /// Other requests on its engine.
    Neighbours,
    /// What its engine's gauges said.
    EngineSamples,
    /// Its devices.
    Devices,
    /// The steps that it was in.
    Batches,
}

impl FactRows {
    /// The table that holds them.
    #[must_use]
    pub const fn table(self) -> &'static str {
        match self {
            Self::Spans => "spans",
            Self::Request | Self::Neighbours => "requests",
            Self::EngineSamples => "engine_samples",
            Self::Devices => "evidence",
            Self::Batches => "batches",
        }
    }
}

/// Where a fact stands; reads as `table` or `table: key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactSource {
    /// Which rows.
    pub rows: FactRows,
    /// One of them: a span, a request id, a device.
    pub key: Option<String>,
}

impl FactSource {
    fn one(rows: FactRows, key: impl Into<String>) -> Self {
        Self {
            rows,
            key: Some(key.into()),
        }
    }
}

impl From<FactRows> for FactSource {
    fn from(rows: FactRows) -> Self {
        Self { rows, key: None }
    }
}

impl fmt::Display for FactSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rows.table())?;
        match &self.key {
            Some(key) => write!(f, ": {key}"),
            None => Ok(()),
        }
    }
}

/// One hypothesis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hypothesis {
    /// What it says.
    pub cause: Cause,
    /// How it stands.
    pub standing: Standing,
    /// What speaks for it.
    pub facts_for: Vec<Fact>,
    /// What speaks against it.
    pub facts_against: Vec<Fact>,
}

impl Hypothesis {
    pub(super) fn new(cause: Cause) -> Self {
        Self {
            cause,
            standing: Standing::Undecided,
            facts_for: Vec::new(),
            facts_against: Vec::new(),
        }
    }

    fn supported(mut self, fact: Fact) -> Self {
        self.facts_for.push(fact);
        self.standing = Standing::Supported;
        self
    }

    fn contradicted(mut self, fact: Fact) -> Self {
        self.facts_against.push(fact);
        self.standing = Standing::Contradicted;
        self
    }
}

pub(super) fn fact(
    strength: Strength,
    source: impl Into<FactSource>,
    text: impl Into<String>,
) -> Fact {
    Fact {
        text: text.into(),
        source: source.into(),
        strength,
    }
}

/// Part of the excess that one place must explain to be the cause of it.
const SHARE_MIN: f64 = 0.5;

/// Hypotheses about the slow phase, in order.
pub(super) fn judge(
    facts: &Facts,
    course: Option<&Course>,
    slow: PhaseTime,
    open: &mut Vec<String>,
) -> Vec<Hypothesis> {
    match slow.phase {
        Phase::Before => places(course.map_or(&[][..], |course| &course.before), slow),
        Phase::Delivery => vec![delivery(course, slow)],
        Phase::Queue | Phase::Prefill | Phase::Decode => {
            let devices = devices::judge(&facts.devices, slow.phase, open);
            let engine = engine::judge(facts, slow, open);
            // An error stops the engine, and everything behind it queues: it comes first.
            let (errors, slowed): (Vec<_>, Vec<_>) = devices
                .into_iter()
                .partition(|hypothesis| matches!(hypothesis.cause, Cause::Xid | Cause::Ecc));
            let mut all = errors;
            if slow.phase == Phase::Prefill {
                all.extend(prompt::judge(facts, slow));
            }
            if slow.phase == Phase::Queue {
                all.extend(engine);
                all.extend(slowed);
            } else {
                all.extend(slowed);
                all.extend(engine);
            }
            all
        }
    }
}

/// Who took the time before the engine.
fn places(parts: &[Part], slow: PhaseTime) -> Vec<Hypothesis> {
    let causes = [
        (Cause::Client, Role::Client),
        (Cause::Gateway, Role::Gateway),
        (Cause::Retrieval, Role::Retrieval),
        (Cause::Service, Role::Service),
    ];
    let enough = slow.excess_s() * SHARE_MIN;
    causes
        .into_iter()
        .map(|(cause, role)| {
            let own = || parts.iter().filter(|part| part.role == role);
            let seconds = own().map(|part| part.nanos).sum::<i64>() as f64 / 1e9;
            let Some(longest) = own().max_by_key(|part| part.nanos) else {
                return Hypothesis::new(cause).contradicted(fact(
                    Strength::Observed,
                    FactRows::Spans,
                    "no span of this kind is on the way",
                ));
            };
            let said = fact(
                Strength::Observed,
                FactSource::one(FactRows::Spans, longest.span_id.to_string()),
                format!(
                    "`{}` of {} took {seconds:.3} s before it handed on",
                    longest.name, longest.service
                ),
            );
            if seconds >= enough {
                Hypothesis::new(cause).supported(said)
            } else {
                Hypothesis::new(cause).contradicted(said)
            }
        })
        .collect()
}

fn delivery(course: Option<&Course>, slow: PhaseTime) -> Hypothesis {
    let hypothesis = Hypothesis::new(Cause::Delivery);
    match course.and_then(|course| course.after.first()) {
        Some(longest) => {
            let mut hypothesis = hypothesis.supported(fact(
                Strength::Observed,
                FactSource::one(FactRows::Spans, longest.span_id.to_string()),
                format!(
                    "`{}` of {} went on for {:.3} s after what it waited for was over, of {:.3} s after the engine",
                    longest.name,
                    longest.service,
                    longest.nanos as f64 / 1e9,
                    slow.seconds
                ),
            ));
            let who = match longest.role {
                Role::Client => Some("the client read the answer slowly, or worked on it"),
                Role::Gateway => Some(
                    "the gateway held the answer: it may have buffered it, or its reader was slow",
                ),
                Role::Retrieval | Role::Service => None,
            };
            let said = who.map(|who| fact(Strength::Derived, FactRows::Spans, who));
            hypothesis.facts_for.extend(said);
            hypothesis
        }
        None => hypothesis,
    }
}

/// Samples of the engine that speak about the slow phase: those within, and the one after it.
fn samples_of(samples: &[EngineSample], slow: PhaseTime) -> &[EngineSample] {
    let from = samples.partition_point(|sample| sample.at_unix_nano < slow.start_unix_nano);
    let to = samples.partition_point(|sample| sample.at_unix_nano <= slow.end_unix_nano);
    &samples[from..(to + 1).min(samples.len())]
}

/// A device whose values speak about this request.
fn is_attributed(device: &DeviceFact) -> bool {
    device.gpu_uuid.is_some() && device.missing_link.is_none()
}
