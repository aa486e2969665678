//! A sampler beside a log of what it was given and what it decided, from which another one can go on.

use otlp::TraceId;
use otlp::span::SpanSummary;
use sampler::{
    Config, Decided, Decision, Observed, RecordedDecision, Reports, Sampler, SpanHandle,
    ThresholdChange, Trigger,
};

use crate::bytes::Span;
use crate::run::{MS, Run, T0};

#[derive(Debug, Clone)]
enum Entry {
    Span {
        received_ms: u64,
        span: Span,
        position: u64,
        is_carried: bool,
    },
    Decision {
        trace_id: TraceId,
        decision: Decision,
        policy: Option<String>,
        trigger: Trigger,
        adjusted_count: Option<f64>,
        threshold: ThresholdChange,
    },
}

/// Under test, with its log.
#[derive(Debug)]
pub(crate) struct Recorded {
    config: Config,
    /// What goes on.
    pub(crate) run: Run,
    log: Vec<Entry>,
}

impl Recorded {
    /// Nothing sent yet.
    pub(crate) fn new(config: Config) -> Self {
        Self {
            run: Run::new(Sampler::new(&config).unwrap()),
            config,
            log: Vec::new(),
        }
    }

    /// Sends one span.
    pub(crate) fn send(&mut self, received_ms: u64, span: &Span) -> Observed {
        self.log.push(Entry::Span {
            received_ms,
            span: span.clone(),
            position: self.run.n_sent,
            is_carried: false,
        });
        self.run.send(received_ms, span)
    }

    /// Ticks; what was decided, by name of its policy.
    pub(crate) fn tick(&mut self, at_ms: u64) -> Vec<(Decided, Option<String>)> {
        self.run.tick(at_ms);
        let decided = std::mem::take(&mut self.run.decided);
        let named = decided.into_iter().map(|decided| {
            let policy = decided.policy;
            let policy = policy.map(|policy| self.run.sampler.policy_name(policy).to_owned());
            self.log.push(Entry::Decision {
                trace_id: decided.trace_id,
                decision: decided.decision,
                policy: policy.clone(),
                trigger: decided.trigger,
                adjusted_count: decided.adjusted_count,
                threshold: decided.threshold,
            });
            (decided, policy)
        });
        named.collect()
    }

    /// Carries the `n`th span of the log forward, if it is pending and the first record of it.
    pub(crate) fn carry(&mut self, n: usize) {
        let Some(Entry::Span { span, position, .. }) = self.log.get(n) else {
            return;
        };
        let bytes = span.encode();
        let summary = SpanSummary::read(&bytes).unwrap();
        let (was, to) = (*position, self.run.n_sent);
        let handle = |position| SpanHandle {
            position,
            offset: 7,
        };
        match self.run.sampler.relocate(&summary, handle(to)) {
            None => {}
            // A copy, or a span that has moved since: it stays where it is.
            Some(before) if before != handle(was) => {
                self.run.sampler.relocate(&summary, before);
            }
            Some(_) => {
                let mut entry = self.log.remove(n);
                if let Entry::Span {
                    position,
                    is_carried,
                    ..
                } = &mut entry
                {
                    (*position, *is_carried) = (to, true);
                }
                self.log.push(entry);
                self.run.n_sent += 1;
            }
        }
    }

    /// Goes on with a new sampler that has only the log.
    pub(crate) fn restart(&mut self) {
        let mut sampler = Sampler::new(&self.config).unwrap();
        let mut applied = Vec::new();
        for entry in &self.log {
            match entry {
                Entry::Span {
                    received_ms,
                    span,
                    position,
                    is_carried,
                } => {
                    let facts = sampler.read_resource(&span.encode_resource()).unwrap();
                    let bytes = span.encode();
                    let summary = SpanSummary::read(&bytes).unwrap();
                    let handle = SpanHandle {
                        position: *position,
                        offset: 7,
                    };
                    let observe = if *is_carried {
                        Sampler::observe_carried
                    } else {
                        Sampler::observe
                    };
                    let received = T0 + received_ms * MS;
                    observe(
                        &mut sampler,
                        &facts,
                        &bytes,
                        &summary,
                        handle,
                        Reports::Itself,
                        received,
                    );
                }
                Entry::Decision {
                    trace_id,
                    decision,
                    policy,
                    trigger,
                    adjusted_count,
                    threshold,
                } => {
                    let recorded = RecordedDecision {
                        trace_id: *trace_id,
                        decision: *decision,
                        policy: policy.as_deref(),
                        trigger: *trigger,
                        adjusted_count: *adjusted_count,
                        threshold: *threshold,
                    };
                    sampler.apply(&recorded, &mut applied);
                }
            }
        }
        let (before, after) = (self.run.sampler.stats(), sampler.stats());
        assert_eq!(
            (before.n_traces, before.n_spans),
            (after.n_traces, after.n_spans)
        );
        self.run.sampler = sampler;
    }
}

/// The number of a trace whose span has one.
pub(crate) fn number_of(trace_id: TraceId) -> u64 {
    u64::from(trace_id.as_bytes()[15])
}
