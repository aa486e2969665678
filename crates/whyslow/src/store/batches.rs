//! Stage 8, `correlate`: the scheduling steps of engines, and the shares of their time.
//!
//! A batch shows itself in the spans of its participants, which come in several releases, or in a report of its engine. Releases wait here, in order, until
//! all is known of the batches that they showed first; then their rows of `batches` are appended under their sequence. That
//! table is committed behind the others, and the gateway keeps the log until then: after a crash the releases are repeated,
//! and what was committed is skipped.
//!
//! A release waits until
//! - all participants and the time of its batches are known, or
//! - `max_lateness` has passed since it came, or
//! - the log fills up, too many participants wait, or the process stops.
//!
//! The time of whoever was not named by then is the remainder's. A written batch may show itself again, in a release that is
//! stored later: which ones are written is noted in a file beside the log (`batches.closed`), before each commit of what
//! it tells of. Where that file is lost and the table has rows, what ended before the start is taken as written: better
//! unknown than twice.
//!
//! Requests of dropped traces take part as those of kept ones do; stages below them, as SGLang's, are released with kept
//! traces only.

mod reported;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use correlate::{BatchReader, BatchWindow, ClosedBatches, SeenSpan, Sighting};
use gateway::{Release, ReleasedSpan, Report};
use sampler::Reports;

use super::Written;
use crate::config::Batches as Config;

const NAME: &str = "batches.closed";

/// Participants that wait, about 200 bytes each; beyond it the oldest releases are written with what is known.
const WAITING_MAX: usize = 1 << 20;

/// The stage.
#[derive(Debug)]
pub(super) struct Batches {
    reader: BatchReader,
    window: BatchWindow,
    is_enabled: bool,
    is_all_listed: bool,
    max_lateness_nanos: i64,
    /// When the releases came that wait in the window.
    since: VecDeque<i64>,
    /// The last release whose rows are appended.
    appended: i64,
    file: Option<ClosedFile>,
    /// Is anything written that the file does not tell of?
    is_unnoted: bool,
}

impl Batches {
    /// Nothing is known.
    pub(super) fn new(config: &Config) -> Self {
        let names = config.names();
        Self {
            reader: BatchReader::new(&names),
            window: BatchWindow::new(ClosedBatches::default(), names.is_all_listed),
            is_enabled: config.enabled,
            is_all_listed: names.is_all_listed,
            max_lateness_nanos: i64::try_from(config.max_lateness.as_nanos()).unwrap_or(i64::MAX),
            since: VecDeque::new(),
            appended: 0,
            file: None,
            is_unnoted: false,
        }
    }

    /// Reads which batches are written, and notes it there from now on.
    pub(super) fn noting_in(self, folder: &Path, app_id: &str, committed: i64, now: i64) -> Self {
        let file = ClosedFile::new(folder, app_id);
        let closed = file.read(committed).unwrap_or_else(|| {
            if committed == 0 {
                return ClosedBatches::default();
            }
            tracing::warn!(
                path = %file.path.display(),
                "which batches are written is not known; what ended before now is taken as written"
            );
            ClosedBatches::since(u64::try_from(now).unwrap_or(0))
        });
        Self {
            window: BatchWindow::new(closed, self.is_all_listed),
            file: Some(file),
            ..self
        }
    }

    /// The last release whose rows are appended.
    pub(super) const fn appended(&self) -> i64 {
        self.appended
    }

    /// What waits.
    pub(super) const fn window(&self) -> &BatchWindow {
        &self.window
    }

    /// Takes what a release shows; gives the number of spans that could not be read.
    pub(super) fn take(&mut self, release: &Release, now: i64) -> u64 {
        let mut sightings = Vec::new();
        let mut n_lost = 0;
        if self.is_enabled {
            let traces = release.decided.iter().map(|trace| trace.spans.as_slice());
            let late = release.late.iter();
            let late = late.map(|late| std::slice::from_ref(&late.span));
            for spans in traces.chain(late) {
                let spans: Vec<SeenSpan<'_>> = spans.iter().map(trace_span).collect();
                if let Err(error) = self.reader.read(&spans, &mut sightings) {
                    // It was checked when it arrived, so this is an error of this program.
                    n_lost += 1;
                    let error = crate::show::text::error_chain(&error);
                    tracing::error!(error, "an accepted span could not be read for its batches");
                }
            }
        }
        if self.is_enabled {
            n_lost += take_reports(release, &mut sightings);
        }
        let decided = release.decided_unix_nano;
        self.window.take(release.sequence, decided, sightings);
        self.since.push_back(now);
        n_lost
    }

    /// The rows of the releases that need not wait any more; `is_urgent`: of all.
    pub(super) fn write(&mut self, is_urgent: bool, now: i64) -> Vec<Written> {
        let mut written = Vec::new();
        while let Some(since) = self.since.front() {
            let is_due = is_urgent
                || self.window.is_first_complete()
                || self.window.n_participants() > WAITING_MAX
                || now.saturating_sub(*since) >= self.max_lateness_nanos
                || now < *since;
            if !is_due {
                break;
            }
            self.since.pop_front();
            let Some(settled) = self.window.settle_first() else {
                break;
            };
            self.appended = self.appended.max(settled.sequence);
            self.is_unnoted |= !settled.rows.is_empty();
            let sequence = settled.sequence;
            let rows = settled.rows.into_iter();
            written.extend(rows.map(|rows| Written {
                sequence,
                rows: Some(rows),
            }));
        }
        written
    }

    /// Notes which batches are written, before they are committed.
    pub(super) fn note(&mut self) -> std::io::Result<()> {
        if let Some(file) = self.file.as_ref().filter(|_| self.is_unnoted) {
            file.write(self.window.closed())?;
            self.is_unnoted = false;
        }
        Ok(())
    }

    /// The table has everything through this release.
    pub(super) fn committed(&mut self, through: i64) {
        self.window.committed(through);
    }
}

/// Appends what reports say; gives the number of those that could not be read.
fn take_reports(release: &Release, sightings: &mut Vec<Sighting>) -> u64 {
    let mut n_lost = 0;
    let of_batches = |report: &&Report| report.kind == reports::Kind::Batches;
    for report in release.reports.iter().filter(of_batches) {
        match reports::read_batches(report.record.body()) {
            Ok(request) => sightings.extend(request.batches.iter().map(reported::sighting)),
            Err(error) => {
                // It was checked when it arrived, so this is an error of this program.
                n_lost += 1;
                let error = crate::show::text::error_chain(&error);
                tracing::error!(error, "an accepted report could not be stored");
            }
        }
    }
    n_lost
}

fn trace_span(span: &ReleasedSpan) -> SeenSpan<'_> {
    SeenSpan {
        at: span.at(),
        is_request: span.reports == Reports::Request,
    }
}

/// The file: a line with the app id of the writer, then [`ClosedBatches`].
#[derive(Debug)]
struct ClosedFile {
    path: PathBuf,
    folder: PathBuf,
    head: String,
}

impl ClosedFile {
    fn new(folder: &Path, app_id: &str) -> Self {
        Self {
            path: folder.join(NAME),
            folder: folder.to_owned(),
            head: format!("{app_id}\n"),
        }
    }

    /// The batches of releases that were committed; `None` where there is no whole file of this writer.
    fn read(&self, committed: i64) -> Option<ClosedBatches> {
        let bytes = fs::read(&self.path).ok()?;
        let bytes = bytes.strip_prefix(self.head.as_bytes())?;
        ClosedBatches::from_bytes(bytes, committed)
    }

    fn write(&self, closed: &ClosedBatches) -> std::io::Result<()> {
        let new = self.path.with_extension("closed.new");
        let mut file = File::create(&new)?;
        file.write_all(self.head.as_bytes())?;
        file.write_all(&closed.to_bytes())?;
        // The commit that follows is durable, so this must be.
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        File::open(&self.folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use correlate::ClosedBatches;

    use super::ClosedFile;

    #[test]
    fn only_a_whole_file_of_this_writer_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = ClosedFile::new(folder.path(), "one");
        assert_eq!(file.read(9), None);
        let closed = ClosedBatches::since(7);
        file.write(&ClosedBatches::default()).unwrap();
        file.write(&closed).unwrap();
        assert_eq!(file.read(9), Some(closed));
        assert_eq!(ClosedFile::new(folder.path(), "on").read(9), None);
        let path = folder.path().join(super::NAME);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(file.read(9), None);
    }
}
