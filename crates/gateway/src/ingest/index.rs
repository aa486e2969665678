//! Indexing: the spans of an appended export go to the sampler, and their segment is held.

use std::collections::HashSet;

use otlp::{export::Signal, span::SpanSummary};
use rustc_hash::FxBuildHasher;
use sampler::{Observed, ResourceFacts, SpanHandle};
use wal::{Disk, Position};

use crate::{
    error::{Error, Result},
    ingest::Ingest,
    metrics::LossReason,
    record::LateSpan,
};

/// Handles of late spans that decision records of the log name.
pub(super) type LateHandles = HashSet<SpanHandle, FxBuildHasher>;

/// What indexing an export has found.
#[derive(Default)]
pub(super) struct Indexed {
    /// Spans that hold their segment.
    pub(super) n_spans: u64,
    /// Bytes of the observed ones.
    pub(super) n_bytes: u64,
}

impl<D: Disk> Ingest<D> {
    /// Observes the spans of an export at the time it was received. On replay, `recorded_late` names spans
    /// that a decision record takes by handle: they hold their segment and are not observed.
    pub(super) fn index(
        &mut self,
        position: Position,
        received_unix_nano: u64,
        body: &[u8],
        recorded_late: Option<&LateHandles>,
    ) -> Indexed {
        let mut indexed = Indexed::default();
        let result = self.observe_all(
            position,
            received_unix_nano,
            body,
            recorded_late,
            &mut indexed,
        );
        self.holds.add(position.segment(), indexed.n_spans);
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
        recorded_late: Option<&LateHandles>,
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
            if recorded_late.is_some_and(|late| late.contains(&handle)) {
                indexed.n_spans = indexed.n_spans.saturating_add(1);
                continue;
            }
            let summary = SpanSummary::read(at.span).map_err(unreadable)?;
            let is_request = (self.settings.is_request)(&summary, at.scope, at.span);
            if self.is_decided_again(&summary.trace_id, position) {
                self.sampler.reopen(summary.trace_id, received_unix_nano);
            }
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
            match observed {
                Observed::Pending => {}
                Observed::Overflow => self.is_behind = true,
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
}
