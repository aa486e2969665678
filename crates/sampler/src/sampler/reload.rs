//! Reload: another configuration for a sampler that has undecided traces.
//!
//! # Decided
//!
//! A trace is judged by the policies in force at its decision, over all its spans. What is folded of a span depends on
//! the policies (atoms are numbered by them, and triggers set due times), and the spans are not here. So a reload gives
//! the undecided spans back, and the caller observes each of them again, from its bytes, in the order of its handle: the
//! outcome is that of a start with the new configuration, as after a restart. Rejected: to let undecided traces finish
//! under the old policies, because after a crash nobody would know which those were.
//!
//! What is remembered stays: decisions, spans of decided traces, service names, what policies have said. A policy whose
//! text is the same goes on with its budget or its rates, any other begins anew; so does `budget`. Of a span that came
//! in two versions only the one that counts is folded again; a trace's first arrival is kept, so that it is due as if
//! nothing had happened. One that is due and waits for a trace that it links to waits anew.

use std::mem;

use otlp::span::SpanSummary;

use super::{ResourceFacts, Sampler};
use crate::config::Config;
use crate::decision::{Observed, PolicyIndex, SpanHandle};
use crate::error::{Error, Result};
use crate::spans::Reports;
use crate::verdict::{Policies, Test};

/// A span of an undecided trace, to be observed again after a reload. Ordered by its handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Undecided {
    /// Where its bytes are.
    pub handle: SpanHandle,
    /// When the first span of its trace was observed.
    first_seen_unix_nano: u64,
}

impl Sampler {
    /// Goes on with another configuration. Gives all undecided spans, in the order of their handles; each must be given
    /// to [`Self::observe_again`] before anything else is observed or decided.
    ///
    /// # Errors
    /// What [`Sampler::new`] refuses, or too many names of policies; then nothing has changed.
    pub fn reload(&mut self, config: &Config) -> Result<Vec<Undecided>> {
        let mut next = Self::new(config)?;
        let names = config.policies.iter().map(|policy| policy.name.as_str());
        let numbers: Option<Vec<PolicyIndex>> =
            names.map(|name| self.intern_policy(name)).collect();
        let limit = usize::from(u16::MAX) + 1;
        next.policies
            .renumber(numbers.ok_or(Error::TooManyNames { limit })?);
        next.policies.stopwatch = self.policies.stopwatch;
        let is_same_behaviour = config.compat == self.config.compat;
        for (position, policy) in config.policies.iter().enumerate() {
            let mut before = self.config.policies.iter();
            if let Some(was) = before.position(|before| before.name == policy.name) {
                let is_same = is_same_behaviour && self.config.policies.get(was) == Some(policy);
                next.policies
                    .go_on(position, &mut self.policies, was, is_same);
            }
        }
        if let (Some(rounds), Some(before)) = (&mut next.rounds, &mut self.rounds)
            && config.budget == self.config.budget
        {
            rounds.go_on(before);
        }
        mem::swap(&mut next.policy_names, &mut self.policy_names);
        mem::swap(&mut next.services, &mut self.services);
        mem::swap(&mut next.recent, &mut self.recent);
        if let (Some(links), Some(before)) = (&mut next.links, &self.links) {
            links.counts = before.counts;
        }
        next.last_batch = self.last_batch;
        next.n_unreadable = self.n_unreadable;
        let before = mem::replace(self, next);
        if (config.decision_cache, config.num_traces)
            == (before.config.decision_cache, before.config.num_traces)
        {
            self.decided = before.decided;
        } else {
            self.decided.take_over(before.decided);
        }
        let mut undecided = Vec::with_capacity(usize::try_from(before.n_spans).unwrap_or(0));
        for trace in before.pending.into_traces() {
            undecided.extend(trace.spans.handles().map(|handle| Undecided {
                handle,
                first_seen_unix_nano: trace.first_seen_unix_nano,
            }));
        }
        undecided.sort_unstable();
        Ok(undecided)
    }

    /// Takes note of a span that was undecided at a reload. Its trace waits from the time on at which its first span
    /// was observed, whatever is remembered of it.
    pub fn observe_again(
        &mut self,
        undecided: &Undecided,
        facts: &ResourceFacts,
        span: &[u8],
        summary: &SpanSummary<'_>,
        reports: Reports,
        received_unix_nano: u64,
    ) -> Observed {
        self.reopen(summary.trace_id, undecided.first_seen_unix_nano);
        let handle = undecided.handle;
        self.observe(facts, span, summary, handle, reports, received_unix_nano)
    }
}

impl Policies {
    /// The policy at `position` has the name of the one that was at `was`.
    fn go_on(&mut self, position: usize, before: &mut Self, was: usize, is_same: bool) {
        if let (Some((test, counts)), Some((test_before, counts_before))) =
            (self.at(position), before.at(was))
        {
            *counts = *counts_before;
            if is_same {
                test.take_budget(test_before);
            }
        }
    }
}

impl Test {
    /// Takes what the same test has left of its budget.
    fn take_budget(&mut self, before: &mut Self) {
        match (self, before) {
            (Self::SpanLimit(limit), Self::SpanLimit(before))
            | (Self::ByteLimit(limit), Self::ByteLimit(before)) => mem::swap(limit, before),
            (Self::AllOf(tests), Self::AllOf(before)) | (Self::Drop(tests), Self::Drop(before)) => {
                for (test, before) in tests.iter_mut().zip(before) {
                    test.take_budget(before);
                }
            }
            (Self::Not(test), Self::Not(before)) => test.take_budget(before),
            (Self::Adaptive(adaptive), Self::Adaptive(before)) => adaptive.go_on(before),
            (Self::Composite(composite), Self::Composite(before)) => {
                mem::swap(&mut composite.total, &mut before.total);
                for (sub, before) in composite.subs.iter_mut().zip(&mut before.subs) {
                    mem::swap(&mut sub.used, &mut before.used);
                    sub.test.take_budget(&mut before.test);
                }
            }
            // These have none.
            (
                Self::Always
                | Self::AnyOf { .. }
                | Self::Ottl(_)
                | Self::Latency { .. }
                | Self::Probabilistic { .. }
                | Self::Passing(_)
                | Self::Adaptive(_)
                | Self::Sql(_)
                | Self::SpanCount { .. }
                | Self::SpanLimit(_)
                | Self::ByteLimit(_)
                | Self::AllOf(_)
                | Self::Not(_)
                | Self::Drop(_)
                | Self::Composite(_),
                _,
            ) => {}
        }
    }
}
