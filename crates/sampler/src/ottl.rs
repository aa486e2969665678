//! `ottl_condition`: the part of the Collector's transformation language that configurations use.
//!
//! | what | known |
//! |---|---|
//! | contexts | `span` and `spanevent`; in the latter `span.` reaches the span |
//! | fields of a span | `name`, `kind`, `kind.string`, `status.code`, `status.message`, `start_time`, `end_time`, both `_unix_nano`, `trace_id`, `span_id`, `parent_span_id` and their `.string`, `trace_state` and its `["key"]`, `flags`, the three `dropped_*_count`, `attributes["key"]` |
//! | fields of an event | `name`, `time`, `time_unix_nano`, `dropped_attributes_count`, `attributes["key"]` |
//! | of the resource | `resource.attributes["key"]` |
//! | operators | `== != < <= > >=`, `and`, `or`, `not`, parentheses, `+ - * /` |
//! | literals | text, integer, double, `true`, `false`, `nil`, `0x..`, `STATUS_CODE_*`, `SPAN_KIND_*` |
//! | functions | `IsMatch HasPrefix HasSuffix Len Int Double String IsString IsInt IsDouble IsBool IsMap IsList IsRootSpan Duration Hours Minutes Seconds Milliseconds Microseconds Nanoseconds Unix UnixMilli UnixMicro UnixNano TraceID SpanID` |
//!
//! Everything else is an error at load that names it: a condition never silently matches nothing.
//! Not known on purpose: scopes (the sampler is not given them), functions that change data,
//! lists, and a comparison of a resource field with a span field, because conditions on a resource
//! are evaluated once for all its spans. Patterns, prefixes and suffixes are literals.
//!
//! A missing attribute is `nil`: `attributes["k"] != "v"` is true of every span without `k`, as in
//! the Collector. What cannot be evaluated (the length of a number) fails; `error_mode` says what
//! comes of that.
//!
//! Limits: 32 distinct attribute keys of spans, 32 of events, 64 conditions on resources in all
//! policies together, 64 levels of nesting. No allocation per span.

mod evaluate;
mod problem;
mod resolve;
mod syntax;
mod token;
mod value;

use otlp::attribute::{Attributes, Value};
use otlp::span::{self, SpanSummary};

use crate::atoms::AtomSet;
use crate::error::{Error, Result};
use crate::partial::Part;
use crate::policy::OttlCondition;

pub use self::problem::Problem as OttlProblem;

pub(crate) use self::evaluate::ResourceTruths;

use self::evaluate::{Check, Frame};
use self::resolve::{Context, NO_VALUES, Resolver, Shared};
use self::value::Failed;

/// The atoms of one policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// A condition was met.
    pub(crate) matched: AtomSet,
    /// A condition failed and `error_mode` is `propagate`; else no atom.
    pub(crate) failed: AtomSet,
    /// The first of match and failure wins, as in the Collector.
    pub(crate) first_wins: bool,
}

/// All conditions of all policies.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    policies: Vec<PolicyConditions>,
    shared: Shared,
    has_event_conditions: bool,
    /// Of an attribute that is repeated the first counts.
    first_counts: bool,
}

#[derive(Debug)]
struct PolicyConditions {
    span: Vec<Check>,
    event: Vec<Check>,
    outcome: Outcome,
    /// What the conditions look at.
    reads: Vec<Part>,
}

impl Conditions {
    /// Adds the conditions of one policy. `policy` is for the error.
    pub(crate) fn add(
        &mut self,
        policy: &str,
        config: &OttlCondition,
        outcome: Outcome,
    ) -> Result<()> {
        let mut resolve = |context, key, conditions: &[String]| {
            let resolve_one = |condition: &String| {
                syntax::parse(condition)
                    .and_then(|node| Resolver::new(context, &mut self.shared).check(node))
                    .map_err(|problem| Error::Ottl {
                        policy: policy.to_owned(),
                        key,
                        condition: condition.clone(),
                        problem,
                    })
            };
            conditions
                .iter()
                .map(resolve_one)
                .collect::<Result<Vec<_>>>()
        };
        let span = resolve(Context::Span, "ottl_condition.span", &config.span)?;
        let event = resolve(
            Context::SpanEvent,
            "ottl_condition.spanevent",
            &config.spanevent,
        )?;
        self.has_event_conditions |= !event.is_empty();
        self.policies.push(PolicyConditions {
            span,
            event,
            outcome,
            reads: std::mem::take(&mut self.shared.reads),
        });
        Ok(())
    }

    /// Of an attribute that is repeated the first counts, not the last.
    pub(crate) fn count_first(&mut self) {
        self.first_counts = true;
    }

    /// Evaluates what concerns a resource alone.
    pub(crate) fn read_resource(&self, resource: &[u8]) -> ResourceTruths {
        let frame = Frame {
            resource,
            first_counts: self.first_counts,
            truths: ResourceTruths::default(),
            span: None,
            span_attributes: &[],
            event: None,
            event_attributes: &[],
        };
        let mut truths = ResourceTruths::default();
        for (check, number) in self.shared.resource_checks.iter().zip(0_u32..) {
            match check.evaluate(&frame) {
                Ok(true) => truths.are_true |= 1 << number,
                Ok(false) => {}
                Err(Failed) => truths.have_failed |= 1 << number,
            }
        }
        truths
    }

    /// The atoms that this span adds to those already `satisfied`.
    pub(crate) fn read_span(
        &self,
        truths: ResourceTruths,
        span: &[u8],
        summary: &SpanSummary<'_>,
        satisfied: AtomSet,
    ) -> Result<AtomSet, otlp::Error> {
        let mut found = AtomSet::EMPTY;
        if self
            .policies
            .iter()
            .all(|policy| policy.is_settled(satisfied))
        {
            return Ok(found);
        }
        let mut span_attributes = NO_VALUES;
        let attributes = otlp::attribute::of_span(span);
        let keys = &self.shared.span_keys;
        collect(attributes, keys, self.first_counts, &mut span_attributes)?;
        let frame = Frame {
            resource: &[],
            first_counts: self.first_counts,
            truths,
            span: Some(summary),
            span_attributes: &span_attributes,
            event: None,
            event_attributes: &[],
        };
        for policy in &self.policies {
            if !policy.is_settled(satisfied) {
                found |= policy.evaluate(&policy.span, &frame);
            }
        }
        if self.has_event_conditions {
            self.read_events(span, &frame, satisfied, &mut found)?;
        }
        Ok(found)
    }

    /// The outcomes of the policies that look at this part of a span.
    pub(crate) fn reading(&self, part: &Part) -> AtomSet {
        let mut found = AtomSet::EMPTY;
        for policy in &self.policies {
            if policy.reads.contains(part) {
                found |= policy.outcome.matched;
                found |= policy.outcome.failed;
            }
        }
        found
    }

    /// What all conditions look at, with repetitions.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.policies.iter().flat_map(|policy| &policy.reads)
    }

    fn read_events(
        &self,
        span: &[u8],
        frame: &Frame<'_>,
        satisfied: AtomSet,
        found: &mut AtomSet,
    ) -> Result<(), otlp::Error> {
        for event in span::events(span) {
            let event = event?;
            let mut event_attributes = NO_VALUES;
            let keys = &self.shared.event_keys;
            let attributes = event.attributes();
            collect(attributes, keys, self.first_counts, &mut event_attributes)?;
            let frame = Frame {
                event: Some(&event),
                event_attributes: &event_attributes,
                ..*frame
            };
            for policy in &self.policies {
                let mut known = satisfied;
                known |= *found;
                if !policy.is_settled(known) {
                    *found |= policy.evaluate(&policy.event, &frame);
                }
            }
        }
        Ok(())
    }
}

impl PolicyConditions {
    /// Nothing that comes can change the verdict.
    fn is_settled(&self, satisfied: AtomSet) -> bool {
        satisfied.intersects(self.outcome.matched)
            || (self.outcome.first_wins && satisfied.intersects(self.outcome.failed))
    }

    fn evaluate(&self, checks: &[Check], frame: &Frame<'_>) -> AtomSet {
        let mut found = AtomSet::EMPTY;
        for check in checks {
            match check.evaluate(frame) {
                Ok(true) => {
                    found |= self.outcome.matched;
                    return found;
                }
                Ok(false) => {}
                Err(Failed) if self.outcome.first_wins => return self.outcome.failed,
                Err(Failed) => found |= self.outcome.failed,
            }
        }
        found
    }
}

/// The values of `keys`; of repeated keys the last counts, or the first.
fn collect<'a>(
    attributes: Attributes<'a>,
    keys: &[Box<str>],
    first_counts: bool,
    values: &mut [Value<'a>],
) -> Result<(), otlp::Error> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut seen = [false; NO_VALUES.len()];
    for attribute in attributes {
        let (name, value) = attribute?;
        let Some(slot) = keys.iter().position(|key| **key == *name) else {
            continue;
        };
        if let (Some(place), Some(seen)) = (values.get_mut(slot), seen.get_mut(slot))
            && !(first_counts && *seen)
        {
            *seen = true;
            *place = value;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
