//! Every prefix and every flipped byte of a log folder, through the whole recovery.
//!
//! Guarantee: it gives whole exports only, or a clear error; never another span, never a panic; and what it gives is
//! conserved.

use std::{collections::BTreeSet, path::PathBuf};

use wal::sim::SimDisk;

use super::harness::{ALL, Setup, Sim, child, number_of, root};

const SETUP: Setup = Setup {
    policies: ALL,
    segment_bytes: 4096,
    sync: crate::config::SyncPolicy::Always,
    shutdown: crate::config::Shutdown::Keep,
    log_bytes_max: u64::MAX,
    pending_heap_bytes_max: u64::MAX,
    is_exporting: false,
    release_backlog_spans_max: u64::MAX,
};

/// A log of two segments: exports, decisions, late spans and copies; and what was sent.
fn log() -> (Sim, BTreeSet<(u8, u8)>) {
    let mut sim = Sim::new(SETUP);
    let mut sent = BTreeSet::new();
    for trace in 1..=8 {
        let spans = [root(trace, 0x10), child(trace, 0x11, 0x10)];
        sent.extend(spans.iter().map(|span| (span.trace, span.id)));
        sim.send(&spans).unwrap();
        sim.send(&spans).unwrap();
    }
    sim.tick_after(1);
    for trace in 5..=12 {
        let span = child(trace, 0x12, 0x10);
        sent.insert((span.trace, span.id));
        sim.send(std::slice::from_ref(&span)).unwrap();
        sim.send(&[span]).unwrap();
    }
    sim.tick_after(1);
    (sim, sent)
}

/// Opens the folder; whether that worked.
fn check(disk: &SimDisk, now: u64, sent: &BTreeSet<(u8, u8)>, context: &str) -> bool {
    let mut sim = match Sim::open(SETUP, disk.after_kill(), 0, now) {
        Ok(sim) => sim,
        Err(error) => {
            let text = crate::error::chain(&error);
            assert!(text.contains("log/"), "{context}: names the file: {text}");
            return false;
        }
    };
    sim.tick_after(60);
    sim.conservation();
    let mut found = BTreeSet::new();
    for release in &sim.releases {
        let decided = release.decided.iter().flat_map(|trace| &trace.spans);
        let late = release.late.iter().map(|late| &late.span);
        for span in decided.chain(late) {
            let at = span.at();
            let summary = otlp::span::SpanSummary::read(at.span).unwrap();
            let id = (
                number_of(summary.trace_id.as_bytes()),
                number_of(summary.span_id.as_bytes()),
            );
            assert!(sent.contains(&id), "{context}: {id:02x?} was never sent");
            assert!(found.insert(id), "{context}: {id:02x?} is there twice");
        }
    }
    true
}

fn segments(disk: &SimDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let files = disk.files();
    files
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|extension| extension == "wal"))
        .collect()
}

#[test]
fn every_prefix_of_a_log_gives_whole_spans_once() {
    let (sim, sent) = log();
    let disk = sim.disk.after_kill();
    let segments = segments(&disk);
    assert!(segments.len() > 1, "{}", segments.len());
    for (path, bytes) in segments.iter().rev() {
        for n_bytes in (0..bytes.len()).rev() {
            disk.put_file(path, bytes[..n_bytes].to_vec());
            let context = format!("{} cut to {n_bytes} bytes", path.display());
            assert!(check(&disk, sim.now, &sent, &context), "{context}: opens");
        }
        disk.take_file(path);
    }
}

#[test]
fn every_flipped_byte_of_a_log_gives_whole_spans_once_or_a_clear_error() {
    let (sim, sent) = log();
    let disk = sim.disk.after_kill();
    let mut n_refused = 0;
    for (path, bytes) in segments(&disk) {
        for idx in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[idx] ^= [0x01, 0x80, 0xff][idx % 3];
            disk.put_file(&path, flipped);
            let context = format!("{} flipped at {idx}", path.display());
            n_refused += usize::from(!check(&disk, sim.now, &sent, &context));
        }
        disk.put_file(&path, bytes);
    }
    assert!(n_refused > 1000, "damage of synced bytes is refused");
}
