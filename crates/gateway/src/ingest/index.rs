//! Indexing: the spans of an appended export go to the sampler, and their segment is held.

use std::collections::HashSet;

use otlp::{
    export::{Signal, SpanAt},
    span::SpanSummary,
};
use rustc_hash::FxBuildHasher;
use sampler::{Observed, Reports, ResourceFacts, Sampler, SpanHandle, Version};
use wal::{Disk, Position};

use crate::{
    error::{Error, Result},
    ingest::Ingest,
    metrics::LossReason,
    record::LateSpan,
};

/// Spans that decision records of the log name by their handles: a replay does not observe them.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// They followed a decision and hold their segment.
    pub(super) late: HashSet<SpanHandle, FxBuildHasher>,
    /// Copies of spans that had been decided; they hold nothing.
    pub(super) duplicates: HashSet<SpanHandle, FxBuildHasher>,
}

/// What indexing an export has found.
#[derive(Default)]
pub(super) struct Indexed {
    /// Spans observed.
    pub(super) n_spans: u64,
    /// Their bytes.
    pub(super) n_bytes: u64,
    /// Spans that hold their segment.
    n_held: u64,
}

/// Where an export comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    /// From a sender, now.
    Sender,
    /// From the log.
    Replay(&'a Recorded),
    /// From the log, where its spans may stand in an older record too.
    Carried,
}

/// A span as it was observed.
struct Seen<'a> {
    summary: &'a SpanSummary<'a>,
    handle: SpanHandle,
    reports: Reports,
    n_bytes: usize,
}

impl<D: Disk> Ingest<D> {
    /// Observes the spans of an export at the time it was received.
    pub(super) fn index(
        &mut self,
        position: Position,
        received_unix_nano: u64,
        body: &[u8],
        source: Source<'_>,
    ) -> Indexed {
        let mut indexed = Indexed::default();
        let result = self.observe_all(position, received_unix_nano, body, source, &mut indexed);
        self.pending
            .add(position.segment(), indexed.n_held, indexed.n_bytes);
        if let Err(error) = result {
            // The same bytes passed the check, so this is our fault, not the sender's.
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "export not indexed to its end"
            );
            self.metrics
                .count_lost(Signal::Traces.into(), LossReason::Unreadable, 1);
        }
        indexed
    }

    /// What policies need of a span's resource, read once for spans that follow each other under it.
    #[inline]
    pub(super) fn facts_of(
        &mut self,
        at: &SpanAt<'_>,
        position: Position,
        last: &mut Option<(u32, ResourceFacts)>,
    ) -> Result<ResourceFacts> {
        match *last {
            Some((offset, facts)) if offset == at.resource_offset => Ok(facts),
            Some(_) | None => {
                let facts = self.sampler.read_resource(at.resource);
                let facts = facts.map_err(|source| Error::Resource { position, source })?;
                *last = Some((at.resource_offset, facts));
                Ok(facts)
            }
        }
    }

    fn observe_all(
        &mut self,
        position: Position,
        received_unix_nano: u64,
        body: &[u8],
        source: Source<'_>,
        indexed: &mut Indexed,
    ) -> Result<()> {
        let unreadable = |source| Error::Export { position, source };
        let limits = self.settings.window.limits(received_unix_nano);
        let mut resource: Option<(u32, ResourceFacts)> = None;
        for at in otlp::export::summaries(body, &limits) {
            let (at, summary) = at.map_err(unreadable)?;
            let facts = self.facts_of(&at, position, &mut resource)?;
            let handle = SpanHandle {
                position: position.as_u64(),
                offset: at.offset,
            };
            if self.is_known(source, &summary, handle, indexed) {
                continue;
            }
            let reports = (self.settings.reports_of)(&summary, at.scope, at.span);
            if self.is_decided_again(&summary.trace_id, position) {
                self.sampler.reopen(summary.trace_id, received_unix_nano);
            }
            let observe = match source {
                Source::Sender | Source::Replay(_) => Sampler::observe,
                Source::Carried => Sampler::observe_carried,
            };
            let observed = observe(
                &mut self.sampler,
                &facts,
                at.span,
                &summary,
                handle,
                reports,
                received_unix_nano,
            );
            indexed.n_spans = indexed.n_spans.saturating_add(1);
            indexed.n_bytes = indexed.n_bytes.saturating_add(at.span.len() as u64);
            let seen = Seen {
                summary: &summary,
                handle,
                reports,
                n_bytes: at.span.len(),
            };
            if self.note(observed, &seen, source) {
                indexed.n_held = indexed.n_held.saturating_add(1);
            }
        }
        Ok(())
    }

    /// Is this span of the log not to be observed, because a decision record or an older record has it?
    fn is_known(
        &mut self,
        source: Source<'_>,
        summary: &SpanSummary<'_>,
        handle: SpanHandle,
        indexed: &mut Indexed,
    ) -> bool {
        let holds = match source {
            Source::Sender => return false,
            Source::Replay(recorded) if recorded.duplicates.contains(&handle) => false,
            Source::Replay(recorded) if recorded.late.contains(&handle) => {
                self.sampler.recall_late(summary);
                true
            }
            Source::Replay(_) => return false,
            Source::Carried => match self.sampler.relocate(summary, handle) {
                Some(before) => self.takes_hold_of(before, handle),
                None => return false,
            },
        };
        if holds {
            indexed.n_held = indexed.n_held.saturating_add(1);
        }
        true
    }

    /// Takes note of what became of a span; does it hold its segment?
    fn note(&mut self, observed: Observed, seen: &Seen<'_>, source: Source<'_>) -> bool {
        match observed {
            Observed::Pending => true,
            Observed::Overflow => {
                self.is_behind = true;
                true
            }
            Observed::Duplicate(version) => {
                // A replay counts what is pending, not what was received.
                if matches!(source, Source::Sender) {
                    self.metrics.count_duplicate(seen.n_bytes);
                }
                match version {
                    Version::First => false,
                    Version::Replaces(before) => self.takes_hold_of(before, seen.handle),
                    Version::Decided => {
                        self.duplicates.push(seen.handle);
                        false
                    }
                }
            }
            Observed::Late(decision, policy) => {
                self.metrics.count_late(decision, seen.n_bytes);
                let policy = self.names.policy(&self.sampler, policy);
                let trace_id = seen.summary.trace_id;
                self.late.push(LateSpan {
                    trace_id,
                    handle: seen.handle,
                    decision,
                    policy,
                    reports: seen.reports,
                    erases_threshold: self.sampler.erases_late_threshold(&trace_id),
                });
                true
            }
        }
    }

    /// A copy of a span takes the place of another, which holds its segment no more. Does the copy hold one beyond
    /// that?
    fn takes_hold_of(&mut self, before: SpanHandle, handle: SpanHandle) -> bool {
        let segment = Position::from_u64(before.position).segment();
        // The holds of this record are added when all of it is indexed.
        let is_same = segment == Position::from_u64(handle.position).segment();
        if !is_same {
            self.pending.remove(&vec![(segment, 1)]);
        }
        !is_same
    }
}
