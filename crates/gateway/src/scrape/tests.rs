//! Configuration, targets and times.

use std::time::Duration;

use super::{
    Config, Dropped, Kind, Target, TargetGroup,
    relabel::{Labels, apply},
    schedule::Schedule,
};

fn config(yaml: &str) -> Config {
    serde_saphyr::from_str(yaml).unwrap()
}

fn problem(yaml: &str) -> String {
    match serde_saphyr::from_str::<Config>(yaml) {
        Ok(config) => config.validate(Kind::Dcgm).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn defaults_follow_the_receiver() {
    let config = config("static_configs: [{targets: ['node-1:9400']}]");
    let of = |kind| {
        config.validate(kind).unwrap();
        (
            config.job_name(kind),
            config.interval(kind),
            config.timeout(kind),
        )
    };
    assert_eq!(of(Kind::Dcgm), ("dcgm", seconds(10), seconds(10)));
    assert_eq!(
        of(Kind::VllmMetrics),
        ("vllm_metrics", seconds(5), seconds(5))
    );
}

#[test]
fn a_section_says_what_is_wrong_with_it() {
    let targets = "static_configs: [{targets: ['a:1']}]";
    for (yaml, expected) in [
        ("{}".to_owned(), "nothing to scrape"),
        (
            format!("{targets}\nscrape_interval: 10ms"),
            "`scrape_interval` must be at least",
        ),
        (
            format!("{targets}\nscrape_timeout: 11s"),
            "`scrape_timeout` must be more than",
        ),
        (
            format!("{targets}\nscrape_timeout: 0s"),
            "`scrape_timeout` must be more than",
        ),
        (format!("{targets}\nscrape_interval: 10"), "needs a unit"),
        (
            format!("{targets}\nmetrics_path: metrics"),
            "`metrics_path` must begin",
        ),
        (
            format!("{targets}\nbody_size_limit: 1"),
            "`body_size_limit` must be",
        ),
        (
            format!("{targets}\nscrape_intervall: 1s"),
            "scrape_intervall",
        ),
        (
            format!("{targets}\nrelabel_configs: [{{regex: '('}}]"),
            "regex",
        ),
        (
            format!("{targets}\nrelabel_configs: [{{action: hashmod}}]"),
            "hashmod",
        ),
        (
            "static_configs: [{targets: ['http://a:1/metrics']}]".to_owned(),
            "`host:port`",
        ),
        (
            "file_sd_configs: [{files: [a.json], refresh_interval: 0s}]".to_owned(),
            "refresh_interval",
        ),
    ] {
        let problem = problem(&yaml);
        assert!(problem.contains(expected), "{yaml}: {problem}");
    }
}

fn resource(target: &Target) -> String {
    let pairs = target
        .resource()
        .map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_target_has_the_attributes_that_a_collector_gives_it() {
    let config = config(
        "job_name: gpus\nstatic_configs:\n- targets: ['10.0.0.3:9400', '[fd00::1]:9400', 'localhost:9400', '10.0.0.3:9400']\n  labels: {node: gpu-3, cluster: c1, team: search}",
    );
    let (targets, dropped) = config.targets(Kind::Dcgm, &config.static_configs);
    assert!(dropped.is_empty());
    let lines: Vec<String> = targets
        .iter()
        .map(|target| format!("{} {}", target.url(), resource(target)))
        .collect();
    let common = "url.scheme=http k8s.cluster.name=c1 k8s.node.name=gpu-3 team=search";
    assert_eq!(
        lines,
        [
            format!(
                "http://10.0.0.3:9400/metrics service.name=gpus service.instance.id=10.0.0.3:9400 server.address=10.0.0.3 server.port=9400 {common}"
            ),
            format!(
                "http://[fd00::1]:9400/metrics service.name=gpus service.instance.id=[fd00::1]:9400 server.address=fd00::1 server.port=9400 {common}"
            ),
            format!(
                "http://localhost:9400/metrics service.name=gpus service.instance.id=localhost:9400 server.port=9400 {common}"
            ),
        ]
    );
}

#[test]
fn rules_choose_and_change_targets() {
    let config = config(
        r"
static_configs: [{targets: ['a:1']}]
relabel_configs:
- {source_labels: [__meta_role], regex: gpu|both, action: keep}
- {source_labels: [__address__], regex: '(.*):.*', target_label: __address__, replacement: '$1:9400'}
- {source_labels: [__meta_tls], regex: 'yes', target_label: __scheme__, replacement: https}
- {regex: '__meta_label_(.+)', replacement: '$1', action: labelmap}
- {source_labels: [node], target_label: node, action: lowercase}
- {regex: secret, action: labeldrop}
",
    );
    let groups: Vec<TargetGroup> = serde_saphyr::from_str(
        r#"[
          {"targets": ["n1:1", "n2:1"], "labels": {"__meta_role": "gpu", "__meta_label_node": "N1", "secret": "x"}},
          {"targets": ["n3:1"], "labels": {"__meta_role": "both", "__meta_tls": "yes"}},
          {"targets": ["n4:1"], "labels": {"__meta_role": "gpus"}},
          {"targets": ["n 5:1", "n6"], "labels": {"__meta_role": "gpu"}}
        ]"#,
    )
    .unwrap();
    let (targets, dropped) = config.targets(Kind::Dcgm, &groups);
    let urls: Vec<&str> = targets.iter().map(Target::url).collect();
    assert_eq!(
        urls,
        [
            "http://n1:9400/metrics",
            "http://n2:9400/metrics",
            "https://n3:9400/metrics"
        ]
    );
    assert!(resource(&targets[0]).ends_with("url.scheme=http k8s.node.name=n1"));
    assert_eq!(
        dropped,
        [
            Dropped::Rule {
                address: "n4:1".to_owned()
            },
            Dropped::Address {
                address: "n 5:9400".to_owned()
            },
            Dropped::Address {
                address: "n6".to_owned()
            },
        ]
    );
}

#[test]
fn a_rule_that_empties_a_label_removes_it() {
    let config = config(
        "relabel_configs: [{source_labels: [a, b], separator: '-', regex: '1-2', target_label: a, replacement: ''}, {source_labels: [b], target_label: c, action: uppercase}, {regex: 'c', action: labelkeep}]",
    );
    let labels = [("a", "1"), ("b", "2x"), ("d", "3")];
    let mut labels: Labels = labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    assert!(apply(&config.relabel_configs[1..], &mut labels.clone()));
    labels.insert("b".to_owned(), "2".to_owned());
    assert!(apply(&config.relabel_configs, &mut labels));
    assert_eq!(labels, Labels::from([("c".to_owned(), "2".to_owned())]));
}

fn targets(names: &[&str]) -> Vec<Target> {
    let group = TargetGroup {
        targets: names.iter().map(|name| format!("{name}:1")).collect(),
        ..TargetGroup::default()
    };
    Config::default().targets(Kind::Dcgm, &[group]).0
}

#[test]
fn every_target_is_due_once_in_an_interval_at_its_own_time() {
    let names: Vec<String> = (0..100).map(|idx| format!("n{idx}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut schedule = Schedule::new(seconds(10));
    let start = seconds(1_003);
    schedule.set_targets(targets(&names), start);
    let mut n_by_second = [0; 10];
    for second in 0..10 {
        // Due in this second: from its beginning to before the next.
        let until = start + seconds(second + 1) - Duration::from_nanos(1);
        let due = schedule.take_due(until);
        n_by_second[usize::try_from(second).unwrap()] = due.len();
        due.iter().for_each(|target| schedule.finished(target));
    }
    assert_eq!(n_by_second.iter().sum::<usize>(), 100, "{n_by_second:?}");
    assert!(
        n_by_second.iter().all(|n| *n < 40),
        "spread: {n_by_second:?}"
    );
    // Another process, at another time, has the same places.
    let place = |start| {
        let mut schedule = Schedule::new(seconds(10));
        schedule.set_targets(targets(&["n7"]), start);
        schedule.next_due().unwrap().as_nanos() % seconds(10).as_nanos()
    };
    assert_eq!(place(seconds(1_003)), place(seconds(77_777)));
}

#[test]
fn a_slow_scrape_makes_the_next_fall_out_and_a_pause_is_not_made_up_for() {
    let mut schedule = Schedule::new(seconds(10));
    assert_eq!(schedule.next_due(), None);
    schedule.set_targets(targets(&["a"]), seconds(0));
    let first = schedule.next_due().unwrap();
    assert!(first < seconds(10));
    let due = schedule.take_due(first);
    assert_eq!((due.len(), schedule.take_due(first).len()), (1, 0));
    assert_eq!(schedule.next_due(), Some(first + seconds(10)));
    // Under way: falls out, also after the targets were read again.
    schedule.set_targets(targets(&["a", "b"]), first);
    assert!(
        schedule
            .take_due(first + seconds(10))
            .iter()
            .all(|t| t.address() == "b:1")
    );
    assert_eq!(schedule.n_skipped(), 1);
    schedule.finished(&due[0]);
    // An hour later it is due once.
    let later = first + seconds(3_600);
    let again = schedule.take_due(later);
    assert_eq!(again.iter().filter(|t| t.address() == "a:1").count(), 1);
    assert!(schedule.next_due().unwrap() > later);
    schedule.set_targets(Vec::new(), later);
    assert_eq!(schedule.next_due(), None);
}
