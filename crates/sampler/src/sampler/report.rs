//! What the sampler tells of itself: names, counts, sizes.

use super::{Sampler, Stats};
use crate::counts::PolicyCounts;
use crate::decision::PolicyIndex;
use crate::linked::{LinkCounts, LinkIndex};
use crate::services::ServiceId;

impl Sampler {
    /// Name of a policy that this sampler has given out.
    #[must_use]
    pub fn policy_name(&self, policy: PolicyIndex) -> &str {
        self.policy_names
            .get(usize::from(policy.0))
            .map_or("", AsRef::as_ref)
    }

    /// Times policies from now on, for [`PolicyCounts::n_nanos`] alone: no decision depends on it. `stopwatch` gives
    /// nanoseconds of a clock that only goes on.
    pub fn time_policies(&mut self, stopwatch: fn() -> u64) {
        self.policies.stopwatch = Some(stopwatch);
    }

    /// Every policy's name and what it has said since the start, in file order.
    pub fn policy_counts(&self) -> impl Iterator<Item = (&str, PolicyCounts)> {
        let counts = self.policies.counts();
        counts.map(|(policy, counts)| (self.policy_name(policy), counts))
    }

    /// Name of a service that this sampler has given out.
    #[must_use]
    pub fn service_name(&self, service: ServiceId) -> &str {
        self.services.name(service)
    }

    /// Present size.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let link_bytes = self.links.as_ref().map_or(0, LinkIndex::heap_bytes);
        let heap_bytes = self.pending.heap_bytes()
            + self.list_bytes
            + link_bytes
            + self.decided.heap_bytes()
            + self.recent.heap_bytes()
            + self.services.heap_bytes();
        Stats {
            n_traces: self.pending.len() as u64,
            n_spans: self.n_spans,
            n_bytes: self.n_bytes,
            heap_bytes: heap_bytes as u64,
            pending_heap_bytes: (self.pending.used_bytes() + self.list_bytes + link_bytes) as u64,
            n_unreadable: self.n_unreadable,
            n_policies_failed: self
                .policy_counts()
                .map(|(_, counts)| counts.n_failed)
                .sum(),
            links: self
                .links
                .as_ref()
                .map_or(LinkCounts::default(), |links| links.counts),
            n_keys_overflowed: self.policies.n_keys_overflowed(),
        }
    }
}
