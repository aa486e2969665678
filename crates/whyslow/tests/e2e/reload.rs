//! Policies that change while the server runs.

use crate::harness::{ALL, Site, capture, http_get};

/// Keeps nothing.
const NONE: &str = "      - {name: none, type: latency, latency: {threshold_ms: 86400000}}\n";

const BROKEN: &str = "      - {name: all, type: always_sampel}\n";

const DECISIONS: &str = "SELECT decision, policy, count(*) FROM traces GROUP BY ALL";

#[test]
fn a_hangup_puts_the_policies_of_the_file_in_force_for_what_is_undecided() {
    let site = Site::new(NONE);
    let server = site.serve();
    server.replay(&capture("real-chain"), "grpc", false);

    let site = site.deciding_by(BROKEN);
    site.write_config();
    server.signal("-HUP");
    let refused = server.says("is refused");
    for part in ["policies[0]", "line 1", "always_sample"] {
        assert!(refused.contains(part), "no `{part}` in: {refused}");
    }
    assert_eq!(http_get(&format!("{}/readyz", server.query)).0, 200);

    let site = site.deciding_by(ALL).with_intake(", sync: always");
    site.write_config();
    server.signal("-HUP");
    assert!(
        server
            .says("needs a restart")
            .contains("extensions::intake")
    );
    assert!(server.says("policies reloaded").contains("n_spans="));
    server.signal("-HUP");
    server.says("those in force");
    let (_, page) = http_get(&format!("{}/metrics", server.query));
    for (result, n) in [
        ("applied", 1),
        ("unchanged", 1),
        ("invalid", 1),
        ("failed", 0),
    ] {
        let line = format!("config_reloads_total{{result=\"{result}\"}} {n}\n");
        assert!(page.contains(&line), "no `{line}` in: {page}");
    }
    server.stop();
    let decisions = site.stored(DECISIONS);
    assert_eq!(decisions.len(), 1, "{decisions:?}");
    assert_eq!(
        (&decisions[0][0], &decisions[0][1]),
        (&"sampled".into(), &"all".into())
    );
}

#[test]
fn a_watched_file_is_reloaded_when_it_changes_and_what_was_pending_outlives_a_kill() {
    let site = Site::new(NONE);
    let server = site.serve_watching();
    server.replay(&capture("real-chain"), "grpc", false);
    let site = site.deciding_by(ALL);
    site.write_config();
    server.says("policies reloaded");
    server.kill();
    site.serve().stop();
    let decisions = site.stored(DECISIONS);
    assert_eq!(decisions.len(), 1, "{decisions:?}");
    assert_eq!(
        (&decisions[0][0], &decisions[0][1]),
        (&"sampled".into(), &"all".into())
    );
}
