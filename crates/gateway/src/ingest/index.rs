//! Indexing: the spans of an appended export go to the sampler, and their segment is held.

use std::collections::HashSet;

use otlp::{export::Signal, span::SpanSummary};
use rustc_hash::FxBuildHasher;
use sampler::{Observed, ResourceFacts, SpanHandle, Version};
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

impl<D: Disk> Ingest<D> {
    /// Observes the spans of an export at the time it was received. On replay, `recorded` names spans
    /// that a decision record takes by handle.
    pub(super) fn index(
        &mut self,
        position: Position,
        received_unix_nano: u64,
        body: &[u8],
        recorded: Option<&Recorded>,
    ) -> Indexed {
        let mut indexed = Indexed::default();
        let result = self.observe_all(position, received_unix_nano, body, recorded, &mut indexed);
        self.pending.add(position.segment(), indexed.n_held);
        if let Err(error) = result {
            // The same bytes passed the check, so this is our fault, not the sender's.
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "export not indexed to its end"
            );
            self.metrics
                .count_lost(Signal::Traces, LossReason::Unreadable, 1);
        }
        indexed
    }

    fn observe_all(
        &mut self,
        position: Position,
        received_unix_nano: u64,
        body: &[u8],
        recorded: Option<&Recorded>,
        indexed: &mut Indexed,
    ) -> Result<()> {
        let unreadable = |source| Error::Export { position, source };
        let limits = self.settings.window.limits(received_unix_nano);
        let mut resource: Option<(u32, ResourceFacts)> = None;
        for at in otlp::export::spans(body, &limits) {
            let at = at.map_err(unreadable)?;
            let facts = match resource {
                Some((offset, facts)) if offset == at.resource_offset => facts,
                Some(_) | None => {
                    let facts = self.sampler.read_resource(at.resource);
                    let facts = facts.map_err(|source| Error::Resource { position, source })?;
                    resource = Some((at.resource_offset, facts));
                    facts
                }
            };
            let handle = SpanHandle {
                position: position.as_u64(),
                offset: at.offset,
            };
            let summary = SpanSummary::read(at.span).map_err(unreadable)?;
            if let Some(recorded) = recorded {
                if recorded.duplicates.contains(&handle) {
                    continue;
                }
                if recorded.late.contains(&handle) {
                    self.sampler.recall_late(&summary);
                    indexed.n_held = indexed.n_held.saturating_add(1);
                    continue;
                }
            }
            let is_request = (self.settings.is_request)(&summary, at.scope, at.span);
            let observed = self.sampler.observe(
                &facts,
                at.span,
                &summary,
                handle,
                is_request,
                received_unix_nano,
            );
            indexed.n_spans = indexed.n_spans.saturating_add(1);
            indexed.n_bytes = indexed.n_bytes.saturating_add(at.span.len() as u64);
            indexed.n_held = indexed.n_held.saturating_add(1);
            match observed {
                Observed::Pending => {}
                Observed::Overflow => self.is_behind = true,
                Observed::Duplicate(version) => {
                    // A replay counts what is pending, not what was received.
                    if recorded.is_none() {
                        self.metrics.count_duplicate(at.span.len());
                    }
                    if self.note_duplicate(version, handle) {
                        indexed.n_held = indexed.n_held.saturating_sub(1);
                    }
                }
                Observed::Late(decision, policy) => {
                    self.metrics.count_late(decision, at.span.len());
                    let policy = self.names.policy(&self.sampler, policy);
                    let trace_id = summary.trace_id;
                    self.late.push(LateSpan {
                        trace_id,
                        handle,
                        decision,
                        policy,
                        is_request,
                    });
                }
            }
        }
        Ok(())
    }

    /// Of two copies one holds its segment; does this one not?
    fn note_duplicate(&mut self, version: Version, handle: SpanHandle) -> bool {
        match version {
            Version::First => true,
            Version::Replaces(before) => {
                let segment = Position::from_u64(before.position).segment();
                let is_same = segment == Position::from_u64(handle.position).segment();
                if !is_same {
                    self.pending.remove(&vec![(segment, 1)]);
                }
                is_same
            }
            Version::Decided => {
                self.duplicates.push(handle);
                true
            }
        }
    }
}
