//! A kept request keeps the batches that link to it, also through a kill.

use expect_test::expect;
use otlp::testing::{self, TimeSpan};

use super::harness::{ERRORS, Setup, Sim, child, print, root};

/// The trace of a batch, with a link to the first span of each request in it.
fn send_batch(sim: &mut Sim, trace: u32, requests: &[u32]) {
    let batch = testing::trace(trace)
        .service("tgi")
        .span("batch", 5.ms())
        .id(0x10)
        .root();
    let batch = requests
        .iter()
        .fold(batch, |batch, request| batch.link(*request, 0x11));
    sim.send_export(batch.build(), 1).unwrap();
}

#[test]
fn a_kept_request_keeps_its_batches_and_a_kill_changes_nothing() {
    let setup = Setup {
        policies: ERRORS,
        ..Setup::default()
    };
    for is_killed in [false, true] {
        let mut sim = Sim::new(setup);
        send_batch(&mut sim, 8, &[1, 2]);
        send_batch(&mut sim, 9, &[2]);
        sim.send(&[child(1, 0x11, 0x10), child(2, 0x11, 0x10)])
            .unwrap();
        sim.tick_after(1);
        assert!(sim.releases.is_empty(), "batches wait for their requests");
        if is_killed {
            sim = sim.reopen(setup, 0);
        }
        sim.send(&[root(1, 0x10).error(), root(2, 0x10)]).unwrap();
        sim.tick_after(1);
        send_batch(&mut sim, 7, &[1]);
        sim.tick_after(1);
        if is_killed {
            sim = sim.reopen(setup, 0);
        }
        let want = expect![[r#"
            release 1
              trace 01 sampled policy=errors trigger=root_ended count=Some(1.0) spans=2 bytes=123 orphans=0 services=["vllm"]
                11 child
                10 root root
              trace 08 sampled policy=- trigger=linked count=None spans=1 bytes=115 orphans=0 services=["tgi"]
                10 batch root
              trace 02 not_sampled policy=- trigger=root_ended count=None spans=2 bytes=119 orphans=0 services=["vllm"]
                10 root root
              trace 09 not_sampled policy=- trigger=root_ended count=None spans=1 bytes=85 orphans=0 services=["tgi"]
                10 batch root
            release 2
              trace 07 sampled policy=- trigger=linked count=None spans=1 bytes=85 orphans=0 services=["tgi"]
                10 batch root
        "#]];
        want.assert_eq(&print(&sim.releases));
        sim.conservation();
        let metrics = sim.metrics.render_prometheus();
        assert!(
            metrics.contains("sampler_links_missed_total{reason=\"late\"} 0"),
            "{metrics}"
        );
    }
}
