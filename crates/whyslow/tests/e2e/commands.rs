//! Commands as a person types them: output, exit codes, what they say when something is wrong.

use std::path::Path;

use crate::harness::{ALL, Site, capture, http_get, succeed, whyslow};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn the_demo_shows_the_whole_route() {
    let output = succeed(whyslow().arg("demo").current_dir(root()));
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in [
        "sent 91 export requests with 17,680 spans",
        "What came in, what was kept and why:",
        "not_sampled",
        "The failed and the slowest requests:",
        "llm_request",
        "Data: ",
    ] {
        assert!(
            text.contains(expected),
            "the demo does not say `{expected}`:\n{text}"
        );
    }
}

#[test]
fn every_pipeline_file_is_valid() {
    for file in [
        "local.yaml",
        "compose.yaml",
        "budget.yaml",
        "gateway.yaml",
        "kubernetes.yaml",
        "loadbalancing.yaml",
    ] {
        let path = root().join("pipelines").join(file);
        let output = succeed(whyslow().args(["check", "-c"]).arg(path));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("is valid. It would run:"), "{text}");
        // In a container 0.0.0.0 is what is published, which the file cannot know.
        let is_expected = |line: &&str| {
            !line.starts_with("warning: ")
                || file == "compose.yaml" && line.contains("is open to other machines")
        };
        assert!(text.lines().all(|line| is_expected(&line)), "{text}");
    }
}

#[test]
fn a_refused_configuration_names_the_place_and_exits_with_64() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipeline.yaml");
    let yaml = "processors:\n  tail_sampling:\n    decison_wait: 10s\n    policies: [{name: all, type: always_sample}]\n\
                receivers: {otlp: {protocols: {grpc: {}}}}\nexporters: {lake: {}}\n\
                service: {pipelines: {traces: {receivers: [otlp], processors: [tail_sampling], exporters: [lake]}}}\n";
    std::fs::write(&path, yaml).unwrap();
    for command in ["check", "serve"] {
        let output = whyslow().args([command, "-c"]).arg(&path).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{text}");
        for expected in [
            "processors::tail_sampling::decison_wait",
            "line 3",
            "`decision_wait`",
        ] {
            assert!(text.contains(expected), "`{expected}` is not in: {text}");
        }
    }
}

#[test]
fn operators_get_health_readiness_and_conservation() {
    let site = Site::new(ALL);
    let server = site.serve();
    server.replay(&capture("real-broken"), "grpc", false);
    let get = |path: &str| {
        let url = format!("{}{path}", server.query);
        http_get(&url)
    };
    assert_eq!(get("/healthz").0, 200);
    assert_eq!(get("/readyz"), (200, "ready\n".to_owned()));
    let (status, metrics) = get("/metrics");
    assert_eq!(status, 200);
    let value = |name: &str| -> u64 {
        metrics
            .lines()
            .filter(|line| line.starts_with(name))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    };
    assert_eq!(value("gateway_spans_received_total"), 6_593, "{metrics}");
    server.stop();
    assert_eq!(
        site.stored("SELECT count(*) FROM spans")[0][0].as_i64(),
        Some(6_593)
    );
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in [
        "serve", "demo", "check", "sql", "slow", "explain", "why", "simulate", "replay",
        "maintain", "loadgen",
    ] {
        let output = succeed(whyslow().args([command, "--help"]));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("Example"), "{command}: {text}");
    }
}

#[test]
fn a_fleet_that_cannot_be_played_as_asked_says_why_before_anything_is_sent() {
    for (args, expected) in [
        (vec!["heat"], "`heat` is no fault; known are queue_burst"),
        (vec!["thermal@90-60"], "FROM before TO"),
        (
            vec!["--samples", "scrape", "--speed", "max"],
            "use `--samples send`",
        ),
        (
            vec!["pod_moved", "--placements", "file"],
            "needs `--placements labels`",
        ),
        (vec!["--rate", "1000"], "`--rate` must be from 0.1 to 16"),
        (vec!["--duration", "3h"], "from 1s to 2h"),
    ] {
        let mut command = whyslow();
        let output = command.args(["loadgen", "fleet"]).args(&args).output();
        let output = output.unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {text}");
        assert!(text.contains(expected), "{args:?}: {text}");
    }
    let help = succeed(whyslow().args(["loadgen", "fleet", "--help"]));
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("Examples"), "{help}");
}
