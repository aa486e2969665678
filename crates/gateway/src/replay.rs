//! Opening: the log is opened and fed to a new core; who was behind gets what it lacks.

use std::sync::Arc;

use sampler::Sampler;
use wal::{RealDisk, Wal};

use crate::{
    admission::Gate,
    clock,
    config::Config,
    error::{Error, Result},
    export::{Cursor, Cursors, Exporter, Queue},
    gateway::Start,
    ingest::{Ingest, Input, Settings},
    metrics::Metrics,
    record::{EXPORT_HEADER_BYTES, SpanWindow},
    threads::Outlets,
};

/// The largest decision record, with room to spare.
const DECISION_BYTES_MAX: u64 = 8 << 20;

/// A core that knows what the log holds.
pub(crate) struct Replayed {
    pub(crate) ingest: Ingest,
    pub(crate) outlets: Outlets,
    /// The last release that the tables are not given; `None`: there are no tables.
    pub(crate) stored_through: Option<i64>,
    /// In the queue's order.
    pub(crate) exporters: Vec<(Exporter, Cursor<RealDisk>)>,
}

/// Opens the log and feeds it to a new core.
pub(crate) fn replay(
    start: Start,
    metrics: Arc<Metrics>,
    gate: Arc<Gate>,
    mut outlets: Outlets,
) -> Result<Replayed> {
    let mut sampler = Sampler::new(&start.sampler).map_err(Error::Sampler)?;
    sampler.time_policies(clock::stopwatch_nanos);
    let settings = settings(&start);
    let exporters = start.exporters;
    let ids: Vec<String> = exporters
        .iter()
        .map(|exporter| exporter.id.clone())
        .collect();
    let directory = start.log.directory.clone();
    let wal = open(start.config, start.log, start.folder)?;
    let committed_through = start.committed_through;
    let cursors = Cursors::open(RealDisk, &directory, &ids, committed_through)?;
    let known_through = cursors.known_through();
    outlets.stored_through = cursors.stored_through();
    outlets.queue = Arc::new(Queue::new(cursors.done()));

    let mut ingest = Ingest::new(wal, sampler, settings, metrics, gate);
    let done_through = cursors.done_through();
    ingest.recover(done_through, &start.progress, &mut |effect| {
        outlets.perform(effect);
    })?;
    ingest.skip_sequences_through(known_through);

    let (stored_through, cursors) = cursors.settle(ingest.last_sequence())?;
    outlets.stored_through = stored_through;
    let done = cursors.iter().map(|cursor| cursor.mark().sequence);
    outlets.queue.set_done(done.collect());
    let stored = Input::Stored(stored_through.unwrap_or(i64::MAX));
    ingest.apply(stored, 0, &mut |effect| outlets.perform(effect));
    Ok(Replayed {
        ingest,
        outlets,
        stored_through,
        exporters: exporters.into_iter().zip(cursors).collect(),
    })
}

fn open(config: Config, mut log: wal::Config, folder: Option<wal::Folder>) -> Result<Wal> {
    let record_bytes = config
        .message_bytes_max()
        .saturating_add(EXPORT_HEADER_BYTES as u64);
    let record_bytes = u32::try_from(record_bytes.max(DECISION_BYTES_MAX)).unwrap_or(u32::MAX);
    log.record_bytes_max = log.record_bytes_max.max(record_bytes);
    let opened = match folder {
        Some(folder) => Wal::open_in(folder, log),
        None => Wal::open(log, RealDisk),
    };
    let (wal, recovery) = opened.map_err(|source| Error::Log {
        operation: "open",
        source,
    })?;
    if recovery.n_records > 0 {
        tracing::info!(
            n_records = recovery.n_records,
            record_bytes = recovery.record_bytes,
            "replaying the log"
        );
    }
    if recovery.torn_bytes > 0 {
        tracing::warn!(
            torn_bytes = recovery.torn_bytes,
            "the last process stopped while it wrote: the torn end of the log was cut off, \
             nothing that was acknowledged was in it"
        );
    }
    Ok(wal)
}

fn settings(start: &Start) -> Settings {
    let intake = &start.config.intake;
    Settings {
        window: window(&start.config),
        sync: intake.sync_policy(),
        log_bytes_max: intake.log_bytes_max,
        pending_heap_bytes_max: intake.pending_heap_bytes_max,
        release_backlog_spans_max: intake.release_backlog_spans_max,
        shutdown: intake.shutdown,
        reports_of: start.reports_of,
        is_exporting: !start.exporters.is_empty(),
        is_storing: start.committed_through.is_some(),
    }
}

pub(crate) fn window(config: &Config) -> SpanWindow {
    SpanWindow {
        age_max: config.intake.span_age_max,
        ahead_max: config.intake.span_ahead_max,
    }
}
