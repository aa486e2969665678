//! Reload: other policies, without losing an undecided trace and without deciding one twice.
//!
//! The undecided spans are read back from the log and observed once more, in the order in which they came, so that they
//! are judged by the policies in force at their decision. What was recorded stays as it is. No record of the reload is
//! needed: whatever a crash interrupts, the next start reads the file and the log, and what was not decided is decided
//! by what the file says then.
//!
//! # Limits
//!
//! All of it happens between two inputs: exports wait meanwhile and are answered after it. The cost is that of a replay
//! of the undecided part of the log: every record with an undecided span is read once, whole, and its undecided spans are
//! indexed again. Undecided spans keep at most half of `log_bytes_max`; beyond it they are decided early (`pressure`). No
//! slices between inputs: what arrives meanwhile would have to wait for its place in the order, or be judged out of it.

use otlp::span::SpanSummary;
use sampler::{Observed, ResourceFacts, Undecided};
use tokio::sync::oneshot;
use wal::{Disk, Position};

use crate::{
    error::{self, Error, Result},
    ingest::Ingest,
    release::Releaser,
};

/// Where it is said what became of a reload.
pub(super) type ReloadReply = oneshot::Sender<Result<Reloaded, sampler::Error>>;

/// What a reload has done. Exports waited for as long as it took to read `bytes_read` from the log and to index
/// `n_spans` spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Undecided traces, which the new policies will judge.
    pub n_traces: u64,
    /// Their spans.
    pub n_spans: u64,
    /// Size of the records that were read back.
    pub bytes_read: u64,
}

impl<D: Disk> Ingest<D> {
    /// Puts other policies in force. With an error, those of before stay.
    pub(super) fn reload(&mut self, config: &sampler::Config) -> Result<Reloaded, sampler::Error> {
        let undecided = self.sampler.reload(config)?;
        let mut reloaded = Reloaded {
            n_traces: 0,
            n_spans: undecided.len() as u64,
            bytes_read: 0,
        };
        if let Err(error) = self.observe_again(&undecided, &mut reloaded) {
            // They are in the log, for the next start.
            let n_observed = self.sampler.stats().n_spans;
            self.n_spans_unread = reloaded.n_spans.saturating_sub(n_observed);
            self.fail_with(error::chain(&error));
        }
        reloaded.n_traces = self.sampler.stats().n_traces;
        self.metrics.set_policies(&self.sampler);
        Ok(reloaded)
    }

    fn observe_again(&mut self, undecided: &[Undecided], reloaded: &mut Reloaded) -> Result<()> {
        let releaser = Releaser {
            reader: self.wal.reader(),
        };
        for of_record in undecided.chunk_by(|a, b| a.handle.position == b.handle.position) {
            let first = of_record.first().map_or(0, |span| span.handle.position);
            let position = Position::from_u64(first);
            let record = releaser.read_record(position)?;
            let body = record.body();
            reloaded.bytes_read = reloaded.bytes_read.saturating_add(body.len() as u64);
            self.observe_record_again(position, body, record.received_unix_nano, of_record)?;
        }
        Ok(())
    }

    /// Observes these spans of one record.
    fn observe_record_again(
        &mut self,
        position: Position,
        body: &[u8],
        received_unix_nano: u64,
        undecided: &[Undecided],
    ) -> Result<()> {
        let unreadable = |source| Error::Export { position, source };
        let offsets: Vec<u32> = undecided.iter().map(|span| span.handle.offset).collect();
        let mut walk = otlp::export::spans_at(body, &offsets);
        let mut resource: Option<(u32, ResourceFacts)> = None;
        for span in undecided {
            let at = match walk.next() {
                Some(at) => at.map_err(unreadable)?,
                None => {
                    return Err(Error::Record {
                        position,
                        problem: "lacks an indexed span",
                    });
                }
            };
            let facts = self.facts_of(&at, position, &mut resource)?;
            let summary = SpanSummary::read(at.span).map_err(unreadable)?;
            let reports = (self.settings.reports_of)(&summary, at.scope, at.span);
            let observed = self.sampler.observe_again(
                span,
                &facts,
                at.span,
                &summary,
                reports,
                received_unix_nano,
            );
            self.is_behind |= observed == Observed::Overflow;
        }
        Ok(())
    }
}
