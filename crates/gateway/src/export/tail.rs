//! Reads kept spans back from the log, as the bodies of requests.
//!
//! Memory: one part of a release's list (1 MiB), one export of the log, one request.

use std::sync::Arc;

use otlp::reframe::Reframer;
use wal::{Disk, Position};

use super::{cursor::Mark, queue::Queue};
use crate::{
    error::{Error, Result},
    record::{Kept, KeptSpan, Record},
    release::{self, KeptList, Releaser},
};

/// Room for the keys and lengths of a span and of what surrounds it.
const FRAMING_BYTES: usize = 64;

/// Follows the releases of the queue.
#[derive(Debug)]
pub(crate) struct Tail<D: Disk> {
    releaser: Releaser<D>,
    queue: Arc<Queue>,
    /// Of a request: bytes and spans.
    request_max: (usize, usize),
    at: Mark,
    list: Option<List>,
    /// The export read last.
    record: Option<(Position, release::Record)>,
}

/// The list of the release that is being read.
#[derive(Debug)]
struct List {
    sequence: i64,
    /// Parts behind the current one, the next one last.
    parts: Vec<Position>,
    /// Of the current part, those that are not read.
    spans: std::vec::IntoIter<KeptSpan>,
}

/// Spans for one request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    /// An `ExportTraceServiceRequest`; empty where only empty releases were passed.
    pub(crate) body: Vec<u8>,
    pub(crate) n_spans: u64,
    /// How far one is when it is sent.
    pub(crate) after: Mark,
}

impl<D: Disk> Tail<D> {
    pub(crate) fn new(
        releaser: Releaser<D>,
        queue: Arc<Queue>,
        request_max: (usize, usize),
        at: Mark,
    ) -> Tail<D> {
        Tail {
            releaser,
            queue,
            request_max,
            at,
            list: None,
            record: None,
        }
    }

    /// What comes next, of one release or of several; `None` if there is nothing at the moment.
    ///
    /// # Errors
    ///
    /// The log's, or a record that does not hold what was listed.
    pub(crate) fn next_batch(&mut self) -> Result<Option<Batch>> {
        let begun = self.at;
        let mut reframer = Reframer::new();
        loop {
            let mut list = match self.list.take() {
                Some(list) => list,
                None => match self.queue.next_after(self.at.sequence) {
                    None => break,
                    Some(entry) => match entry.kept {
                        Some(kept) => self.open(entry.sequence, kept)?,
                        None => {
                            self.at = Mark::after(entry.sequence);
                            continue;
                        }
                    },
                },
            };
            let is_full = self.fill(&mut list, &mut reframer)?;
            if is_full {
                self.list = Some(list);
                break;
            }
            match list.parts.pop() {
                Some(position) => {
                    list.spans = self.read_part(list.sequence, position)?.spans.into_iter();
                    self.list = Some(list);
                }
                None => self.at = Mark::after(list.sequence),
            }
        }
        if self.at == begun {
            return Ok(None);
        }
        Ok(Some(Batch {
            n_spans: reframer.n_spans() as u64,
            body: reframer.finish(),
            after: self.at,
        }))
    }

    /// Adds the spans of the current part; is the request full before its end?
    fn fill(&mut self, list: &mut List, reframer: &mut Reframer) -> Result<bool> {
        let (n_bytes_max, n_spans_max) = self.request_max;
        while let Some(first) = list.spans.as_slice().first().copied() {
            let position = Position::from_u64(first.handle.position);
            let record = match self.record.take() {
                Some((known, record)) if known == position => record,
                Some(_) | None => self.releaser.read_record(position)?,
            };
            let rest = list.spans.as_slice().iter();
            let of_record = rest.take_while(|span| span.handle.position == first.handle.position);
            let of_record: Vec<KeptSpan> = of_record.copied().collect();
            let offsets: Vec<u32> = of_record.iter().map(|span| span.handle.offset).collect();
            let mut walk = otlp::export::spans_at(record.body(), &offsets);
            let mut is_full = false;
            for span in &of_record {
                let mut at = match walk.next() {
                    Some(Ok(at)) if at.offset == span.handle.offset => at,
                    Some(Err(source)) => return Err(Error::Export { position, source }),
                    Some(Ok(_)) | None => {
                        let problem = "lacks a span that a release keeps";
                        return Err(Error::Record { position, problem });
                    }
                };
                let restated = release::restate(at.span, span.threshold);
                at.span = restated.as_deref().unwrap_or(at.span);
                let around = at.resource.len() + at.resource_schema_url.len();
                let around = around + at.scope.len() + at.scope_schema_url.len();
                let n_bytes = reframer.n_bytes() + at.span.len() + around + FRAMING_BYTES;
                let is_over = n_bytes > n_bytes_max || reframer.n_spans() >= n_spans_max;
                is_full = is_over && !reframer.is_empty();
                if is_full {
                    break;
                }
                reframer.push(&at);
                list.spans.next();
                self.at.n_spans = self.at.n_spans.saturating_add(1);
            }
            self.record = Some((position, record));
            if is_full {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Opens the list of a release where this exporter goes on in it.
    fn open(&self, sequence: i64, kept: KeptList) -> Result<List> {
        let mut parts = Vec::new();
        let mut position = kept.position;
        loop {
            let part = self.read_part(sequence, position)?;
            let n_before = part.n_spans.saturating_sub(part.spans.len() as u64);
            if n_before <= self.at.n_spans || part.previous == Position::MIN {
                let n_done = self.at.n_spans.saturating_sub(n_before);
                let mut spans = part.spans.into_iter();
                // Skips them all if the whole part is done.
                let n_done = usize::try_from(n_done).unwrap_or(usize::MAX);
                spans.by_ref().take(n_done).for_each(drop);
                return Ok(List {
                    sequence,
                    parts,
                    spans,
                });
            }
            parts.push(position);
            position = part.previous;
        }
    }

    fn read_part(&self, sequence: i64, position: Position) -> Result<Kept> {
        let mut bytes = Vec::new();
        let read = self.releaser.reader.read(position, &mut bytes);
        read.map_err(|source| Error::Log {
            operation: "read a list of kept spans back from",
            source,
        })?;
        match Record::read(&bytes) {
            Ok(Record::Kept(kept)) if kept.sequence == sequence => Ok(kept),
            Ok(_) => Err(Error::Record {
                position,
                problem: "is not the list of the release that names it",
            }),
            Err(problem) => Err(Error::Record { position, problem }),
        }
    }
}

#[cfg(test)]
mod tests;
