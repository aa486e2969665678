//! Scenario: metrics and reports come in, with and without tables behind.
//!
//! Guarantee: each export of metrics and each report is in exactly one release, which needs nothing else; it stays in the log until
//! that is committed; every point and entry stands in one place. (Kills at any moment: `crash`.)

use std::sync::Arc;

use wal::sim::SimDisk;

use super::{
    harness::{Setup, Sim, T0, metrics_of, root},
    reported::reports_of,
};
use crate::{export::Queue, ingest::Input, metrics::Points};

#[test]
fn metrics_alone_make_a_release() {
    let mut sim = Sim::new(Setup::default());
    sim.send_metric(1).expect("taken");
    sim.send_metric(2).expect("taken");
    sim.conservation();
    assert_eq!(sim.metrics.points().pending, 2);
    sim.tick_after(0);
    sim.tick_after(0);
    assert_eq!(sim.releases.len(), 1);
    assert_eq!(metrics_of(&sim.releases[0]), [1, 2]);
    sim.send_metric(3).expect("taken");
    sim.send(&[root(1, 0x10).error()]).expect("taken");
    sim.tick_after(1);
    let carried: Vec<_> = sim.releases.iter().map(metrics_of).collect();
    assert_eq!(carried.concat(), [1, 2, 3]);
    sim.conservation();
    let points = sim.metrics.points();
    assert_eq!((points.released, points.pending), (3, 0));
}

#[test]
fn metrics_stay_in_the_log_until_their_release_is_committed() {
    let setup = Setup {
        segment_bytes: 4096,
        ..Setup::default()
    };
    let mut sim = Sim::new(setup);
    for n in 0..100 {
        sim.send_metric(n).expect("taken");
        sim.tick_after(0);
    }
    assert_eq!(sim.releases.len(), 100);
    let text = sim.metrics.render_prometheus();
    assert!(text.contains("gateway_log_segments_deleted_total 0\n"));
    let mut sim = sim.reopen(setup, 40);
    let again: Vec<u8> = sim.releases.iter().flat_map(metrics_of).collect();
    assert_eq!(again, (40..100).collect::<Vec<u8>>());
    let first = sim.releases[0].sequence;
    sim.apply(Input::Released(100));
    sim.apply(Input::Tick);
    assert_eq!(first, 41);
    let text = sim.metrics.render_prometheus();
    assert!(!text.contains("gateway_log_segments_deleted_total 0\n"));
    sim.conservation();
    // Nothing new: what was recorded is not pending.
    assert_eq!(sim.metrics.points(), Points::default());
}

#[test]
fn without_tables_metrics_are_counted_as_lost() {
    let setup = Setup::default();
    let queue = Arc::new(Queue::new(Vec::new()));
    let mut sim = Sim::open_with(setup, SimDisk::new(1), None, T0, queue).expect("opens");
    sim.send_metric(1).expect("taken");
    sim.tick_after(1);
    assert!(sim.releases.is_empty());
    sim.conservation();
    assert_eq!(sim.metrics.points().no_consumer, 1);
    // Tables that are added later get what the log still has.
    let mut sim = sim.reopen(setup, 0);
    assert_eq!(sim.metrics.points().recovered, 1);
    sim.tick_after(1);
    assert_eq!(metrics_of(&sim.releases[0]), [1]);
    sim.conservation();
}

#[test]
fn reports_take_the_same_way_beside_metrics() {
    let setup = Setup::default();
    let mut sim = Sim::new(setup);
    sim.send_report(1).expect("taken");
    sim.send_metric(2).expect("taken");
    sim.send_report(3).expect("taken");
    sim.send_report(4).expect("taken");
    assert_eq!(sim.metrics.report_entries().pending, 3);
    sim.conservation();
    // A crash before the release.
    let mut sim = sim.reopen(setup, 0);
    assert_eq!(sim.metrics.report_entries().recovered, 3);
    sim.tick_after(0);
    assert_eq!(sim.releases.len(), 1);
    assert_eq!(reports_of(&sim.releases[0]), [1, 3, 4]);
    assert_eq!(metrics_of(&sim.releases[0]), [2]);
    sim.conservation();
    // And one after it: the same release.
    let mut sim = sim.reopen(setup, 0);
    assert_eq!(reports_of(&sim.releases[0]), [1, 3, 4]);
    assert_eq!(sim.metrics.report_entries(), Points::default());
    sim.send_report(5).expect("taken");
    sim.tick_after(0);
    assert_eq!(reports_of(&sim.releases[1]), [5]);
    sim.conservation();
}

#[test]
fn without_tables_reports_are_counted_as_lost() {
    let queue = Arc::new(Queue::new(Vec::new()));
    let setup = Setup::default();
    let mut sim = Sim::open_with(setup, SimDisk::new(1), None, T0, queue).expect("opens");
    sim.send_report(1).expect("taken");
    sim.tick_after(1);
    assert!(sim.releases.is_empty());
    sim.conservation();
    assert_eq!(sim.metrics.report_entries().no_consumer, 1);
}
