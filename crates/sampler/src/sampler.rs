//! The sampler: spans in, decisions out.

mod due;
mod on_arrival;
mod reload;
mod replay;
mod report;
mod rounds;

use otlp::attribute::{self, Value};
use otlp::span::{SpanSummary, StatusCode};
use otlp::{SpanId, TraceId};

pub use self::reload::Undecided;

use self::on_arrival::judge_batch;
use crate::adaptive::KeyHashes;
use crate::atoms::AtomSet;
use crate::budget::Rounds;
use crate::config::{Config, SamplingStrategy, nanos};
use crate::decided::{DecidedTraces, Remembered};
use crate::decision::{Decided, Observed, SpanHandle, TraceSummary, Trigger, Version};
use crate::error::{Error, Result};
use crate::linked::{LinkCounts, LinkIndex};
use crate::ottl::ResourceTruths;
use crate::pending::{PendingTraces, Slot, Trace};
use crate::recent::RecentSpans;
use crate::services::{ServiceId, Services};
use crate::spans::{Added, PendingSpan, Reports};
use crate::trigger::Rules;
use crate::verdict::{Evidence, Judged, Judgement, Policies};

/// Groups spans by trace and decides each trace once.
///
/// The caller gives the time with every call; it need not be monotonic. [`Self::observe`] never
/// decides: decisions come from [`Self::tick`], so that they can be recorded before they take
/// effect, and from [`Self::apply`], which repeats recorded ones.
#[derive(Debug)]
pub struct Sampler {
    /// As it was given.
    config: Config,
    policies: Policies,
    /// Of the budget, if there is one.
    rounds: Option<Rounds>,
    /// Names by [`crate::PolicyIndex`]; a number keeps its name through reloads.
    policy_names: Vec<Box<str>>,
    services: Services,
    pending: PendingTraces,
    decided: DecidedTraces,
    recent: RecentSpans,
    decision_wait_nanos: u64,
    root_wait_nanos: Option<u64>,
    /// In place of the two before.
    rules: Option<Rules>,
    links: Option<LinkIndex>,
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
    /// `None` where no policy has keys.
    keys: Option<KeyHashes>,
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
    /// What `linked_traces` could not do.
    pub links: LinkCounts,
    /// Traces whose key was one too many for an `adaptive` policy and that share a rate with others.
    pub n_keys_overflowed: u64,
}

impl Sampler {
    /// Compiles the policies.
    ///
    /// # Errors
    /// What [`Config::validate`] finds.
    pub fn new(config: &Config) -> Result<Self> {
        config.check_keys()?;
        let policies = Policies::compile(config)?;
        let rounds = config.rounds(&policies)?;
        let rules = Rules::compile(config)?;
        let links = LinkIndex::new(config)?;
        let policy_names = config
            .policies
            .iter()
            .map(|policy| policy.name.as_str().into())
            .collect();
        Ok(Self {
            config: config.clone(),
            policies,
            rounds,
            policy_names,
            services: Services::new(),
            pending: PendingTraces::new(),
            decided: DecidedTraces::new(config),
            recent: RecentSpans::new(),
            decision_wait_nanos: nanos(config.decision_wait),
            root_wait_nanos: config.decision_wait_after_root_received.map(nanos),
            rules,
            links,
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
        let keys = &self.policies.atoms.keys;
        let keys = (!keys.is_empty()).then(|| keys.read_resource(resource));
        self.last_batch = self.last_batch.wrapping_add(1);
        Ok(ResourceFacts {
            atoms,
            truths,
            batch: self.last_batch,
            service,
            keys,
        })
    }

    /// Takes note of one span. `summary` must be that of `span`.
    pub fn observe(
        &mut self,
        facts: &ResourceFacts,
        span: &[u8],
        summary: &SpanSummary<'_>,
        handle: SpanHandle,
        reports: Reports,
        now_unix_nano: u64,
    ) -> Observed {
        let trace_id = summary.trace_id;
        let slot = match self.pending.find(&trace_id) {
            Some(slot) => slot,
            None => match self.recall(summary) {
                Some(observed) => {
                    self.note_late_links(observed, span, summary);
                    return observed;
                }
                None => self.open(trace_id, now_unix_nano),
            },
        };
        if self.judges_on_arrival && !self.is_copy(slot, summary) {
            // Before the span is added: the batch before this one is judged without it.
            self.begin_batch(slot, facts.batch, now_unix_nano);
        }
        if let Added::Known(place) = self.keep(slot, summary, handle, reports) {
            let observed = self.see_again(slot, place, facts, span, summary, handle);
            self.rearm(slot);
            return observed;
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
        let Remembered {
            decision, policy, ..
        } = remembered?;
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
        let keys = facts.keys.as_ref();
        let keys = keys.map(|keys| atoms.keys.read_span(keys, span, summary));
        self.list_bytes += trace.add_extras(summary, keys);
        if summary.status_code == StatusCode::Error {
            trace.n_error_spans = trace.n_error_spans.saturating_add(1);
        }
        if summary.has_links {
            self.note_links(slot, span);
        }
        let trace = self.pending.trace_mut(slot);
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
        reports: Reports,
    ) -> Added {
        let span = PendingSpan {
            span_id: summary.span_id,
            parent_span_id: summary.parent_span_id,
            handle,
            reports,
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

    fn decide(&mut self, mut trace: Trace, trigger: Trigger, now_unix_nano: u64) -> Decided {
        let (trigger, judged) = self.judge(&mut trace, trigger, now_unix_nano);
        let mut judgement = judged.judgement;
        let trigger = self.pull(&trace, trigger, &mut judgement);
        self.close(trace, trigger, judgement)
    }

    /// What policies say of a trace that has been taken out, and why now.
    fn judge(
        &mut self,
        trace: &mut Trace,
        trigger: Trigger,
        now_unix_nano: u64,
    ) -> (Trigger, Judged) {
        if self.trace_bytes_max.is_some_and(|max| trace.n_bytes > max) {
            return (Trigger::TooLarge, Judgement::NOT_SAMPLED.into());
        }
        judge_batch(&mut self.policies, &self.services, trace, now_unix_nano);
        if let Some(arrival) = &trace.arrival {
            return match arrival.decided() {
                Some(judgement) => (Trigger::Matched, judgement.into()),
                None => (trigger, arrival.deferred(self.honours_deferred).into()),
            };
        }
        let duration_ns = trace.duration_ns();
        let evidence = Evidence::of(trace, &self.services, duration_ns, now_unix_nano);
        (trigger, self.policies.judge(evidence))
    }

    fn close(&mut self, trace: Trace, trigger: Trigger, judgement: Judgement) -> Decided {
        if let Some(links) = self.links.as_mut().filter(|_| trace.has_links) {
            links.close(&trace.trace_id);
        }
        self.remember(trace.trace_id, judgement);
        self.n_spans -= trace.spans.len() as u64;
        self.n_bytes -= trace.n_bytes;
        self.list_bytes -=
            trace.spans.heap_bytes() + trace.services_heap_bytes() + trace.extras_heap_bytes();
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
            threshold: judgement.threshold,
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
                n_roots: trace.n_roots(),
                root: trace.root(),
                n_orphans: saturate(n_orphans),
                services: trace.services,
                first_seen_unix_nano: trace.first_seen_unix_nano,
            },
            spans: trace.spans.into_pending_spans(),
        }
    }

    fn remember(&mut self, trace_id: TraceId, judgement: Judgement) {
        let remembered = Remembered::from(judgement);
        self.decided.remember(trace_id, remembered);
        self.settle_links(trace_id, remembered);
    }
}

fn saturate(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
