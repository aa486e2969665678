//! A simulated fleet before and after: what is known to have changed is found, and where nothing changed nothing is.
//!
//! `SEEDS=100 cargo test -p correlate compare -- --nocapture` prints how many of a hundred pairs of runs without a change
//! were reported to have one, and how small a change is still found.

use std::time::Duration;

use loadgen::fleet::{Cause, Config, Fault, simulate};
use otlp::{
    export::{self, Limits},
    span::SpanSummary,
};
use tables::requests::Request;

use crate::compare::{
    Change, Comparison, Latency, Measure, Sample, Samples, Settings, Side, Slow, Standing, compare,
};

const ATTRIBUTES: [&str; 8] = [
    "model",
    "k8s_pod_name",
    "k8s_node_name",
    "service_instance_id",
    "input_band",
    "output_band",
    "finish_reason",
    "outcome",
];

/// Long enough for twenty blocks.
const DURATION: Duration = Duration::from_secs(600);

/// Engine requests of a run, by the way that spans of a real one take.
fn requests(seed: u64, faults: &[Fault], rate: f64) -> Vec<Request> {
    let config = Config {
        seed,
        duration: DURATION,
        faults: faults.to_vec(),
        rate,
        ..Config::default()
    };
    let run = simulate(&config);
    let mut requests = Vec::new();
    for sent in run.exports.iter().filter(|sent| sent.service == "vllm") {
        for at in export::spans(&sent.body, &Limits::default()) {
            let at = at.expect("a span");
            if SpanSummary::read(at.span).expect("a span").name == "llm_request" {
                requests.push(crate::request(&at).expect("a request"));
            }
        }
    }
    requests
}

/// `slower` multiplies all latencies of the side.
fn add(samples: &mut Samples, side: Side, requests: &[Request], slower: f64) {
    for request in requests {
        let attributes = [
            request.model.as_deref(),
            request.k8s_pod_name.as_deref(),
            request.k8s_node_name.as_deref(),
            request.service_instance_id.as_deref(),
            request.input_tokens.map(tables::requests::band),
            request.output_tokens.map(tables::requests::band),
            request.finish_reason.as_deref(),
            Some(request.outcome.as_str()),
        ];
        let latencies = [
            request.e2e_s,
            request.engine_ttft_s,
            request.app_ttft_s,
            request.gateway_ttft_s,
            request.client_ttft_s,
            request.operation_ttft_s,
            request.queue_s,
            request.prefill_s,
            request.decode_s,
            request.tpot_s,
        ];
        let sample = Sample {
            start_unix_nano: i64::try_from(request.start_time_unix_nano).expect("a time"),
            outcome: Some(request.outcome.as_str()),
            latencies: latencies.map(|value| value.map(|value| value * slower)),
            attributes: &attributes,
        };
        samples.push(side, &sample);
    }
}

fn settings() -> Settings {
    Settings {
        has_load: true,
        permutations: 999,
        ..Settings::default()
    }
}

fn compared(before: &[Request], after: &[Request], slower: f64, settings: &Settings) -> Comparison {
    let mut samples = Samples::new(&ATTRIBUTES);
    add(&mut samples, Side::Before, before, 1.0);
    add(&mut samples, Side::After, after, slower);
    compare(&samples, settings)
}

fn n_seeds(default: u64) -> u64 {
    std::env::var("SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok())
        .unwrap_or(default)
}

fn said(change: &Change) -> String {
    format!(
        "{:?} {:?} {:.4} -> {:.4} [{:.4}, {:.4}] p {:.4} of {}/{}",
        change.cohort,
        change.measure,
        change.before.value,
        change.after.value,
        change.difference.low,
        change.difference.high,
        change.probability,
        change.before.n_requests,
        change.after.n_requests
    )
}

#[test]
fn nothing_is_reported_where_nothing_changed() {
    let n = n_seeds(5);
    let (mut n_quiet, mut n_sure) = (0, 0);
    for seed in 1..=n {
        let (before, after) = (requests(seed, &[], 4.0), requests(seed + 10_000, &[], 4.0));
        let found = compared(&before, &after, 1.0, &settings());
        let reported: Vec<String> = found.reported().map(said).collect();
        n_quiet += u64::from(reported.is_empty());
        let is_sure = |change: &Change| change.standing != Standing::Unclear;
        n_sure += u64::from(found.changes.iter().any(is_sure));
        if !reported.is_empty() {
            println!("seed {seed}: {reported:#?}");
        }
        if seed == 1 {
            println!(
                "{} hypotheses, {:?}, {} permutations, {} requests",
                found.n_hypotheses,
                found.cut,
                found.n_permutations,
                before.len() + after.len()
            );
        }
    }
    println!(
        "nothing reported in {n_quiet} of {n} pairs of runs without a change, nothing of any size in {}",
        n - n_sure
    );
    // Of a few pairs one may be wrong.
    assert!(
        (n - n_sure) * 100 >= n * 95 || n_sure <= 1,
        "{n_sure} of {n}"
    );
}

/// By pod too, as somebody would who wants to know where.
fn by_pod() -> Settings {
    Settings {
        by: ["model", "k8s_pod_name"].map(str::to_owned).to_vec(),
        ..settings()
    }
}

fn is_of(change: &Change, column: &str, value: &str) -> bool {
    change
        .cohort
        .iter()
        .any(|(name, own)| name == column && own.as_deref() == Some(value))
}

/// What sets the slow ones apart most.
fn first_trait(found: &Comparison, slow: Slow) -> (String, Option<String>, bool) {
    let apart = found.apart.iter().find(|apart| apart.slow == slow);
    let first = apart
        .expect("slow requests")
        .traits
        .first()
        .expect("a trait");
    (
        first.attribute.clone(),
        first.value.clone(),
        first.sets_apart,
    )
}

fn guilty_pod() -> (String, Option<String>, bool) {
    let pod = loadgen::fleet::engine_pod(0);
    ("k8s_pod_name".to_owned(), Some(pod), true)
}

#[test]
fn a_throttled_pod_is_found_with_its_latency_and_direction() {
    let (guilty, other) = (loadgen::fleet::engine_pod(0), loadgen::fleet::engine_pod(1));
    for seed in 1..=n_seeds(2).min(10) {
        let faults = [Fault::slow(Cause::ThermalThrottle, 0, 600)];
        let (cool, hot) = (requests(seed, &[], 4.0), requests(seed + 50, &faults, 4.0));
        let found = compared(&cool, &hot, 1.0, &by_pod());
        let reported: Vec<&Change> = found.reported().collect();
        let tpot = |change: &&&Change| {
            is_of(change, "k8s_pod_name", &guilty)
                && matches!(change.measure, Measure::Quantile { latency: Latency::Tpot, p } if p == 0.5)
        };
        let change = reported
            .iter()
            .find(tpot)
            .expect("the pod's time per token");
        println!("seed {seed}: {}", said(change));
        assert!(change.difference.low > 0.0 && change.relative().expect("a time") > 0.3);
        for change in &reported {
            assert!(!is_of(change, "k8s_pod_name", &other), "{}", said(change));
        }
        // By bands the pod is not asked for, and is what the slow ones have in common.
        let found = compared(&cool, &hot, 1.0, &settings());
        assert_eq!(first_trait(&found, Slow::ForItsKind), guilty_pod());
        assert_eq!(found.apart[0].traits[0].also.len(), 1, "its node");
        // Did the fix work? The other way round.
        let found = compared(&hot, &cool, 1.0, &by_pod());
        let change = found.reported().find(|change| tpot(&change));
        assert!(change.expect("the fix").difference.high < 0.0);
    }
}

#[test]
fn a_burst_is_found_in_the_queue() {
    for seed in 1..=n_seeds(2).min(10) {
        let faults = [Fault::slow(Cause::QueueBurst, 60, 360)];
        let found = compared(
            &requests(seed, &[], 2.0),
            &requests(seed + 50, &faults, 2.0),
            1.0,
            &settings(),
        );
        let is_queue = |change: &&Change| {
            change.cohort.is_empty()
                && change.difference.low > 0.0
                && matches!(
                    change.measure,
                    Measure::Quantile {
                        latency: Latency::Queue,
                        ..
                    }
                )
        };
        let change = found.reported().find(is_queue).expect("the queue");
        println!("seed {seed}: {}", said(change));
        let load = found
            .reported()
            .find(|change| change.measure == Measure::Load)
            .expect("the load");
        println!("seed {seed}: {}", said(load));
        assert!(load.difference.low > 0.0);
    }
}

#[test]
fn long_prompts_are_found_in_the_mix_and_in_who_is_slow() {
    for seed in 1..=n_seeds(2).min(10) {
        let faults = [Fault::slow(Cause::LongPrefill, 0, 600)];
        let slow_by = Some(Latency::EngineTtft);
        let found = compared(
            &requests(seed, &[], 4.0),
            &requests(seed + 50, &faults, 4.0),
            1.0,
            &Settings {
                slow_by,
                ..settings()
            },
        );
        let is_mix = |change: &&Change| match &change.measure {
            Measure::Share { value, .. } => value.as_deref() == Some("lt_32k"),
            _ => false,
        };
        let mix = found.reported().find(is_mix).expect("the long prompts");
        println!("seed {seed}: {}", said(mix));
        assert!(mix.difference.low > 0.05);
        // Others wait for them, in cohorts that were there before.
        let is_ttft = |change: &&Change| {
            change.cohort.is_empty()
                && change.difference.low > 0.0
                && matches!(
                    change.measure,
                    Measure::Quantile {
                        latency: Latency::EngineTtft,
                        ..
                    }
                )
        };
        println!(
            "{}",
            said(found.reported().find(is_ttft).expect("their victims"))
        );
        // They all went to one pod, and whoever is there is slow.
        assert_eq!(first_trait(&found, Slow::OfAll), guilty_pod());
        assert_eq!(first_trait(&found, Slow::ForItsKind), guilty_pod());
        let long = found.apart[1]
            .traits
            .iter()
            .find(|found| found.value.as_deref() == Some("lt_32k"));
        assert!(
            long.is_some_and(|long| long.sets_apart && long.n_rest == 0),
            "{long:#?}"
        );
    }
}

/// The cache of long prompts is gone, say: one input band is slower, on all pods.
#[test]
fn a_slow_input_band_is_what_sets_the_slow_ones_apart() {
    for seed in 1..=n_seeds(2).min(10) {
        let before = requests(seed, &[], 4.0);
        let mut after = requests(seed + 50, &[], 4.0);
        for request in &mut after {
            if request.input_tokens.map(tables::requests::band) == Some("lt_8k") {
                let prefill = request.prefill_s.unwrap_or(0.0);
                for value in [
                    &mut request.prefill_s,
                    &mut request.engine_ttft_s,
                    &mut request.e2e_s,
                ] {
                    *value = value.map(|value| value + prefill);
                }
            }
        }
        let found = compared(&before, &after, 1.0, &settings());
        for change in found.reported().filter(|change| !change.cohort.is_empty()) {
            assert!(is_of(change, "input_band", "lt_8k"), "{}", said(change));
        }
        let band = ("input_band".to_owned(), Some("lt_8k".to_owned()), true);
        assert_eq!(first_trait(&found, Slow::ForItsKind), band);
        assert_eq!(first_trait(&found, Slow::OfAll), band);
        assert_eq!(found.apart[0].latency, Latency::EngineTtft);
    }
}

/// How small a change is found: of all latencies, and of one pod for a part of the time.
#[test]
fn large_changes_are_always_found() {
    let n = n_seeds(2).min(20);
    println!(
        "change of all latencies, ten minutes of four requests a second each side; runs in which it was found:"
    );
    let pairs: Vec<(Vec<Request>, Vec<Request>)> = (1..=n)
        .map(|seed| (requests(seed, &[], 4.0), requests(seed + 500, &[], 4.0)))
        .collect();
    let is_up = |found: &Comparison, p_wanted: f64| {
        found.reported().any(|change| {
            let is_wanted = matches!(change.measure, Measure::Quantile { p, .. } if p == p_wanted);
            is_wanted && change.difference.low > 0.0
        })
    };
    for slower in [1.02, 1.05, 1.1, 1.2, 1.5] {
        let settings = Settings {
            change_least: 0.0,
            ..settings()
        };
        let mut n_found = [0; 3];
        for (before, after) in &pairs {
            let found = compared(before, after, slower, &settings);
            for (n, p) in n_found.iter_mut().zip([0.5, 0.9, 0.99]) {
                *n += u64::from(is_up(&found, p));
            }
        }
        let percent = (slower - 1.0) * 100.0;
        println!(
            "  +{percent:>3.0} %: p50 {}/{n}, p90 {}/{n}, p99 {}/{n}",
            n_found[0], n_found[1], n_found[2]
        );
        assert!(slower < 1.2 || n_found[0] == n);
    }
    println!("a throttled pod of two, for a part of ten minutes:");
    for seconds in [30, 60, 120, 300, 600] {
        let faults = [Fault::slow(Cause::ThermalThrottle, 0, seconds)];
        let mut n_found = 0;
        for (seed, (before, _)) in (1..).zip(&pairs) {
            let found = compared(before, &requests(seed + 900, &faults, 4.0), 1.0, &by_pod());
            n_found += u64::from(is_up(&found, 0.5) || is_up(&found, 0.9) || is_up(&found, 0.99));
        }
        println!("  {seconds:>3} s: {n_found}/{n}");
        assert!(seconds < 300 || n_found == n);
    }
}
