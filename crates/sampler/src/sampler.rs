//! The sampler: spans in, decisions out.

mod on_arrival;
mod replay;

use std::time::Duration;

use otlp::attribute::{self, Value};
use otlp::span::{SpanSummary, StatusCode};
use otlp::{SpanId, TraceId};

use self::on_arrival::judge_batch;
use crate::atoms::AtomSet;
use crate::config::{Config, SamplingStrategy};
use crate::counts::PolicyCounts;
use crate::decided::{DecidedTraces, Remembered};
use crate::decision::{Decided, Observed, PolicyIndex, SpanHandle, TraceSummary, Trigger, Version};
use crate::error::{Error, Result};
use crate::ottl::ResourceTruths;
use crate::pending::{PendingTraces, Slot, Trace};
use crate::recent::RecentSpans;
use crate::services::{ServiceId, Services};
use crate::spans::{Added, PendingSpan};
use crate::verdict::{Evidence, Judgement, Policies};

/// Groups spans by trace and decides each trace once.
///
/// The caller gives the time with every call; it need not be monotonic. [`Self::observe`] never
/// decides: decisions come from [`Self::tick`], so that they can be recorded before they take
/// effect, and from [`Self::apply`], which repeats recorded ones.
#[derive(Debug)]
pub struct Sampler {
    policies: Policies,
    /// Names by [`PolicyIndex`]: the configured ones, then those that only recorded decisions name.
    policy_names: Vec<Box<str>>,
    services: Services,
    pending: PendingTraces,
    decided: DecidedTraces,
    recent: RecentSpans,
    decision_wait_nanos: u64,
    root_wait_nanos: Option<u64>,
    n_traces_max: usize,
    trace_bytes_max: Option<u64>,
    judges_on_arrival: bool,
    /// Sampling that a `drop` policy defers takes place when the trace is due.
    honours_deferred: bool,
    drops_pending_on_shutdown: bool,
    /// Number of the resource read last, which is that of the batch of its spans.
    last_batch: u32,
    n_spans: u64,
    n_bytes: u64,
    /// Heap of the pending traces' lists.
    list_bytes: usize,
    n_unreadable: u64,
    id_scratch: Vec<SpanId>,
    error_id_scratch: Vec<SpanId>,
}

/// What policies and summaries need of a resource, for all spans that come under it.
#[derive(Debug, Clone, Copy)]
pub struct ResourceFacts {
    atoms: AtomSet,
    truths: ResourceTruths,
    batch: u32,
    service: Option<ServiceId>,
}

/// What is undecided, and what memory all of this takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Undecided traces.
    pub n_traces: u64,
    /// Their spans.
    pub n_spans: u64,
    /// Sum of the sizes of those spans' messages, which are not held here.
    pub n_bytes: u64,
    /// Heap of the sampler, estimated: undecided traces, spans, remembered decisions and names.
    pub heap_bytes: u64,
    /// The part of it that undecided traces and their spans are using; a decision gives it back.
    pub pending_heap_bytes: u64,
    /// Spans whose attributes could not be read to the end and so satisfied no attribute policy; 0
    /// as long as only checked export requests are observed.
    pub n_unreadable: u64,
    /// Times a policy had no verdict on a trace, because a condition of it could not be evaluated.
    pub n_policies_failed: u64,
}

impl Sampler {
    /// Compiles the policies.
    ///
    /// # Errors
    /// What [`Config::validate`] finds.
    pub fn new(config: &Config) -> Result<Self> {
        config.check_keys()?;
        let policies = Policies::compile(config)?;
        let policy_names = config
            .policies
            .iter()
            .map(|policy| policy.name.as_str().into())
            .collect();
        Ok(Self {
            policies,
            policy_names,
            services: Services::new(),
            pending: PendingTraces::new(),
            decided: DecidedTraces::new(config),
            recent: RecentSpans::new(),
            decision_wait_nanos: nanos(config.decision_wait),
            root_wait_nanos: config.decision_wait_after_root_received.map(nanos),
            n_traces_max: usize::try_from(config.num_traces).unwrap_or(usize::MAX),
            trace_bytes_max: Some(config.maximum_trace_size_bytes).filter(|bytes| *bytes > 0),
            judges_on_arrival: config.sampling_strategy == SamplingStrategy::SpanIngest,
            honours_deferred: !config.compat.is_collector(),
            drops_pending_on_shutdown: config.drop_pending_traces_on_shutdown,
            last_batch: 0,
            n_spans: 0,
            n_bytes: 0,
            list_bytes: 0,
            n_unreadable: 0,
            id_scratch: Vec::new(),
            error_id_scratch: Vec::new(),
        })
    }

    /// Reads a resource once for all its spans that come together: they are one batch.
    ///
    /// # Errors
    /// Attributes that cannot be read.
    pub fn read_resource(&mut self, resource: &[u8]) -> Result<ResourceFacts> {
        let broken = |source| Error::Resource { source };
        let (atoms, truths) = self
            .policies
            .atoms
            .read_resource(resource)
            .map_err(broken)?;
        let service = match attribute::lookup(attribute::of_resource(resource), "service.name") {
            Some(Value::Str(name)) if !name.is_empty() => Some(self.services.intern(name)),
            _ => None,
        };
        self.last_batch = self.last_batch.wrapping_add(1);
        Ok(ResourceFacts {
            atoms,
            truths,
            batch: self.last_batch,
            service,
        })
    }

    /// From a trace's first span to its decision at least, unless a limit or a policy hastens it.
    pub fn shortest_wait(&self) -> Duration {
        let root_wait_nanos = self.root_wait_nanos.unwrap_or(self.decision_wait_nanos);
        Duration::from_nanos(root_wait_nanos.min(self.decision_wait_nanos))
    }

    /// Takes note of one span. `summary` must be that of `span`.
    pub fn observe(
        &mut self,
        facts: &ResourceFacts,
        span: &[u8],
        summary: &SpanSummary<'_>,
        handle: SpanHandle,
        is_request: bool,
        now_unix_nano: u64,
    ) -> Observed {
        let trace_id = summary.trace_id;
        let slot = match self.pending.find(&trace_id) {
            Some(slot) => slot,
            None => match self.recall(summary) {
                Some(observed) => return observed,
                None => {
                    let due_unix_nano = now_unix_nano.saturating_add(self.decision_wait_nanos);
                    self.pending.open(trace_id, now_unix_nano, due_unix_nano)
                }
            },
        };
        if self.judges_on_arrival && !self.is_copy(slot, summary) {
            // Before the span is added: the batch before this one is judged without it.
            self.begin_batch(slot, facts.batch, now_unix_nano);
        }
        if let Added::Known(place) = self.keep(slot, summary, handle, is_request) {
            return self.see_again(slot, place, facts, span, summary, handle);
        }
        self.fold(slot, facts, span, summary);
        self.count_bytes(slot, span.len() as u64);
        self.schedule(slot, summary, handle, now_unix_nano);
        if self.judges_on_arrival {
            // For the next tick, when the batch is there.
            self.pending.hasten(slot, now_unix_nano);
        }
        if self.pending.len() > self.n_traces_max {
            Observed::Overflow
        } else {
            Observed::Pending
        }
    }

    /// A span of a decided trace is late, or was there before; `None` where nothing is known of either.
    fn recall(&mut self, summary: &SpanSummary<'_>) -> Option<Observed> {
        let SpanSummary {
            trace_id, span_id, ..
        } = *summary;
        let is_error = summary.status_code == StatusCode::Error;
        let remembered = self.decided.recall(&trace_id);
        let known = self.recent.find(&trace_id, span_id);
        // An error is not lost because a copy without it came first: it follows the decision.
        if known.is_some_and(|known| known.is_error || !is_error || remembered.is_none()) {
            return Some(Observed::Duplicate(Version::Decided));
        }
        let Remembered { decision, policy } = remembered?;
        self.recent.add_late(trace_id, span_id, is_error);
        Some(Observed::Late(decision, policy))
    }

    /// Of copies of one span the first counts, unless a later one has an error and it had none.
    fn see_again(
        &mut self,
        slot: Slot,
        place: usize,
        facts: &ResourceFacts,
        span: &[u8],
        summary: &SpanSummary<'_>,
        handle: SpanHandle,
    ) -> Observed {
        let trace = self.pending.trace_mut(slot);
        if !trace.spans.is_superseded(place, summary) {
            return Observed::Duplicate(Version::First);
        }
        trace.spans.set_error(place);
        let before = trace.replace(place, handle);
        self.fold(slot, facts, span, summary);
        Observed::Duplicate(Version::Replaces(before))
    }

    /// Folds what policies and the summary need of a span into its trace.
    fn fold(&mut self, slot: Slot, facts: &ResourceFacts, span: &[u8], summary: &SpanSummary<'_>) {
        let trace = self.pending.trace_mut(slot);
        let atoms = &self.policies.atoms;
        trace.atoms |= facts.atoms;
        trace.atoms |= AtomSet::of_status(summary.status_code);
        match atoms.read_span(facts.truths, span, summary, trace.atoms) {
            Ok(found) => trace.atoms |= found,
            Err(_) => self.n_unreadable += 1,
        }
        trace.add_times(summary.start_time_unix_nano, summary.end_time_unix_nano);
        trace.atoms |= atoms.read_duration(trace.duration_ns());
        if let Some(arrival) = &mut trace.arrival {
            arrival.add_times(summary.start_time_unix_nano, summary.end_time_unix_nano);
        }
        if summary.status_code == StatusCode::Error {
            trace.n_error_spans = trace.n_error_spans.saturating_add(1);
        }
        if let Some(service) = facts.service {
            let before = trace.services_heap_bytes();
            trace.add_service(service);
            self.list_bytes += trace.services_heap_bytes() - before;
        }
    }

    fn count_bytes(&mut self, slot: Slot, n_bytes: u64) {
        self.pending.trace_mut(slot).n_bytes += n_bytes;
        self.n_bytes += n_bytes;
    }

    /// Keeps the span's place for the release, unless a span with its id is there.
    fn keep(
        &mut self,
        slot: Slot,
        summary: &SpanSummary<'_>,
        handle: SpanHandle,
        is_request: bool,
    ) -> Added {
        let span = PendingSpan {
            span_id: summary.span_id,
            parent_span_id: summary.parent_span_id,
            handle,
            is_request,
        };
        let is_error = summary.status_code == StatusCode::Error;
        let (trace, hash) = self.pending.trace_and_hash(slot);
        let before = trace.spans.heap_bytes();
        let added = trace.spans.add(span, is_error, hash);
        self.list_bytes += trace.spans.heap_bytes() - before;
        if added == Added::New {
            self.n_spans += 1;
        }
        added
    }

    /// Sees to the due time of a trace with a new span.
    fn schedule(
        &mut self,
        slot: Slot,
        summary: &SpanSummary<'_>,
        handle: SpanHandle,
        now_unix_nano: u64,
    ) {
        let trace = self.pending.trace_mut(slot);
        let is_too_large = self.trace_bytes_max.is_some_and(|max| trace.n_bytes > max);
        if summary.parent_span_id.is_none() {
            trace.add_root(summary.start_time_unix_nano, handle);
            if let Some(root_wait_nanos) = self.root_wait_nanos {
                let due_unix_nano = now_unix_nano.saturating_add(root_wait_nanos);
                let is_sooner = match &mut trace.arrival {
                    Some(arrival) => arrival.hasten(due_unix_nano),
                    None => self.pending.hasten(slot, due_unix_nano),
                };
                if is_sooner {
                    self.pending.trace_mut(slot).is_due_by_root = true;
                }
            }
        }
        if is_too_large {
            self.pending.hasten(slot, now_unix_nano);
        }
    }

    /// Decides what is due, in order of due time, at most `max_traces` traces; then, while more
    /// than `num_traces` are undecided, those that are due next.
    ///
    /// Those due next are those whose decision is nearest anyway: the oldest, or traces whose root
    /// has arrived and which are likely to be complete.
    pub fn tick(&mut self, now_unix_nano: u64, max_traces: usize, out: &mut Vec<Decided>) {
        let mut n_decided = 0;
        while n_decided < max_traces {
            if let Some(slot) = self.pending.first_due(now_unix_nano) {
                if self.judges_on_arrival && !self.is_ready(slot, now_unix_nano) {
                    continue;
                }
                let trace = self.pending.take(slot);
                let trigger = if trace.is_due_by_root {
                    Trigger::RootEnded
                } else {
                    Trigger::Waited
                };
                out.push(self.decide(trace, trigger, now_unix_nano));
            } else if self.pending.len() > self.n_traces_max
                && let Some(trace) = self.pending.take_next()
            {
                out.push(self.decide(trace, Trigger::Memory, now_unix_nano));
            } else {
                return;
            }
            n_decided += 1;
        }
    }

    /// Decides the trace that is due next, early, for this reason; is there one?
    pub fn decide_next(
        &mut self,
        trigger: Trigger,
        now_unix_nano: u64,
        out: &mut Vec<Decided>,
    ) -> bool {
        let Some(trace) = self.pending.take_next() else {
            return false;
        };
        out.push(self.decide(trace, trigger, now_unix_nano));
        true
    }

    /// Shutdown: decides everything that is pending, on what is there, or as not sampled with
    /// `drop_pending_traces_on_shutdown`.
    pub fn drain(&mut self, now_unix_nano: u64, out: &mut Vec<Decided>) {
        self.tick(now_unix_nano, usize::MAX, out);
        while let Some(trace) = self.pending.take_next() {
            out.push(if self.drops_pending_on_shutdown {
                self.close(trace, Trigger::Shutdown, Judgement::NOT_SAMPLED)
            } else {
                self.decide(trace, Trigger::Shutdown, now_unix_nano)
            });
        }
    }

    fn decide(&mut self, mut trace: Trace, trigger: Trigger, now_unix_nano: u64) -> Decided {
        if self.trace_bytes_max.is_some_and(|max| trace.n_bytes > max) {
            return self.close(trace, Trigger::TooLarge, Judgement::NOT_SAMPLED);
        }
        judge_batch(&mut self.policies, &mut trace, now_unix_nano);
        if let Some(arrival) = &trace.arrival {
            let (trigger, judgement) = match arrival.decided() {
                Some(judgement) => (Trigger::Matched, judgement),
                None => (trigger, arrival.deferred(self.honours_deferred)),
            };
            return self.close(trace, trigger, judgement);
        }
        let duration_ns = trace.duration_ns();
        let judgement = self
            .policies
            .judge(evidence(&trace, duration_ns, now_unix_nano));
        self.close(trace, trigger, judgement)
    }

    fn close(&mut self, trace: Trace, trigger: Trigger, judgement: Judgement) -> Decided {
        self.remember(trace.trace_id, judgement);
        self.n_spans -= trace.spans.len() as u64;
        self.n_bytes -= trace.n_bytes;
        self.list_bytes -= trace.spans.heap_bytes() + trace.services_heap_bytes();
        trace.spans.sorted_ids(&mut self.id_scratch);
        trace.spans.sorted_error_ids(&mut self.error_id_scratch);
        self.recent
            .add_trace(trace.trace_id, &self.id_scratch, &self.error_id_scratch);
        let n_orphans = trace.spans.count_orphans(&self.id_scratch);
        let start_is_set = trace.start_time_unix_nano != u64::MAX;
        Decided {
            trace_id: trace.trace_id,
            decision: judgement.decision,
            policy: judgement.policy,
            trigger,
            adjusted_count: judgement.adjusted_count,
            summary: TraceSummary {
                start_time_unix_nano: if start_is_set {
                    trace.start_time_unix_nano
                } else {
                    0
                },
                end_time_unix_nano: trace.end_time_unix_nano,
                n_spans: saturate(trace.spans.len()),
                n_error_spans: trace.n_error_spans,
                n_bytes: trace.n_bytes,
                n_roots: trace.n_roots,
                root: trace.root.map(|root| root.handle),
                n_orphans: saturate(n_orphans),
                services: trace.services,
                first_seen_unix_nano: trace.first_seen_unix_nano,
            },
            spans: trace.spans.into_pending_spans(),
        }
    }

    fn remember(&mut self, trace_id: TraceId, judgement: Judgement) {
        let Judgement {
            decision, policy, ..
        } = judgement;
        self.decided
            .remember(trace_id, Remembered { decision, policy });
    }

    /// Name of a policy that this sampler has given out.
    #[must_use]
    pub fn policy_name(&self, policy: PolicyIndex) -> &str {
        self.policy_names
            .get(usize::from(policy.0))
            .map_or("", AsRef::as_ref)
    }

    /// Every policy's name and what it has said since the start, in file order.
    pub fn policy_counts(&self) -> impl Iterator<Item = (&str, PolicyCounts)> {
        let names = self.policy_names.iter().map(AsRef::as_ref);
        names.zip(self.policies.counts().iter().copied())
    }

    /// Name of a service that this sampler has given out.
    #[must_use]
    pub fn service_name(&self, service: ServiceId) -> &str {
        self.services.name(service)
    }

    /// Present size.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let heap_bytes = self.pending.heap_bytes()
            + self.list_bytes
            + self.decided.heap_bytes()
            + self.recent.heap_bytes()
            + self.services.heap_bytes();
        Stats {
            n_traces: self.pending.len() as u64,
            n_spans: self.n_spans,
            n_bytes: self.n_bytes,
            heap_bytes: heap_bytes as u64,
            pending_heap_bytes: (self.pending.used_bytes() + self.list_bytes) as u64,
            n_unreadable: self.n_unreadable,
            n_policies_failed: self
                .policy_counts()
                .map(|(_, counts)| counts.n_failed)
                .sum(),
        }
    }
}

fn evidence(trace: &Trace, duration_ns: u64, now_unix_nano: u64) -> Evidence<'_> {
    Evidence {
        trace_id: &trace.trace_id,
        atoms: trace.atoms,
        duration_ns,
        n_spans: trace.spans.len() as u64,
        n_bytes: trace.n_bytes,
        now_unix_nano,
    }
}

/// Beyond 584 years is never.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn saturate(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
