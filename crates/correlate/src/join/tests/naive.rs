//! The join against nested loops over everything.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::support::{Sample, batch, floats, ints, lists, placement, request, texts, uuid};
use crate::join::{KeptRequest, SampleIndex, Settings, Traffic, evidence};
use crate::{MissingLink, Placement, Placements};

const NEAREST: i64 = 25;
const BASELINE: i64 = 80;

const PODS: [&str; 4] = ["a", "b", "c", "nowhere"];

fn settings() -> Settings {
    Settings {
        nearest_max: std::time::Duration::from_nanos(NEAREST as u64),
        baseline: std::time::Duration::from_nanos(BASELINE as u64),
    }
}

/// What a row of evidence says, as far as the loops compute it.
#[derive(Debug, Default, PartialEq)]
struct Row {
    request: String,
    gpu: Option<String>,
    attribution: &'static str,
    missing: Option<String>,
    method: Option<&'static str>,
    n_samples: Option<i64>,
    util_avg: Option<f64>,
    util_max: Option<f64>,
    clock_min: Option<f64>,
    energy: Option<f64>,
    xids: Option<String>,
    reasons: Option<String>,
    baseline_util: Option<f64>,
    n_baseline: Option<i64>,
    n_others: Option<i64>,
}

/// Samples of a device by time, the first value of each column.
fn of_device(samples: &[Sample], uuid: &str) -> Vec<Sample> {
    let mut by_time: BTreeMap<i64, Sample> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.uuid == uuid) {
        let known = by_time.entry(sample.at).or_insert_with(|| sample.clone());
        known.util = known.util.or(sample.util);
        known.clock = known.clock.or(sample.clock);
        known.power = known.power.or(sample.power);
        known.energy = known.energy.or(sample.energy);
        known.mask = known.mask.or(sample.mask);
        for code in &sample.xids {
            if !known.xids.contains(code) {
                known.xids.push(*code);
            }
        }
    }
    by_time.into_values().collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn shares(one: (i64, i64), other: (i64, i64)) -> bool {
    one.0 < other.1 && one.1 > other.0
}

fn fill(row: &mut Row, all: &[Sample], start: i64, end: i64) {
    let mut chosen: Vec<&Sample> = all
        .iter()
        .filter(|sample| sample.at >= start && sample.at <= end)
        .collect();
    row.n_samples = Some(chosen.len() as i64);
    row.method = Some("within");
    if chosen.is_empty() {
        let away = |sample: &&Sample| {
            if sample.at < start {
                start - sample.at
            } else {
                sample.at - end
            }
        };
        let nearest = all
            .iter()
            .min_by_key(away)
            .filter(|sample| away(sample) <= NEAREST);
        row.method = nearest.map(|_| "nearest");
        chosen.extend(nearest);
    }
    let utils: Vec<f64> = chosen.iter().filter_map(|sample| sample.util).collect();
    row.util_avg = mean(&utils);
    row.util_max = utils.iter().copied().reduce(f64::max);
    row.clock_min = chosen
        .iter()
        .filter_map(|sample| sample.clock)
        .reduce(f64::min);
    row.reasons = chosen
        .iter()
        .filter_map(|sample| sample.mask)
        .reduce(|any, mask| any | mask)
        .map(|mask| {
            crate::throttle_reasons(mask as u64)
                .collect::<Vec<_>>()
                .join(",")
        });
    let before = all
        .iter()
        .filter(|sample| sample.at < start && sample.at >= start - BASELINE);
    let before: Vec<&Sample> = before.collect();
    row.n_baseline = Some(before.len() as i64);
    row.baseline_util = mean(
        &before
            .iter()
            .filter_map(|sample| sample.util)
            .collect::<Vec<_>>(),
    );
    row.energy = energy(all, start, end);
    let interval = usual(all);
    let codes = (0..all.len()).filter(|place| {
        let after = place
            .checked_sub(1)
            .map_or(all[*place].at - interval, |before| all[before].at);
        after < end && all[*place].at > start
    });
    let codes = codes.flat_map(|place| all[place].xids.iter().map(i64::to_string));
    row.xids = Some(codes.collect::<Vec<_>>().join(","));
}

/// Median of the steps.
fn usual(all: &[Sample]) -> i64 {
    let mut steps: Vec<i64> = all.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    steps.sort_unstable();
    steps.get(steps.len() / 2).copied().unwrap_or(0)
}

fn energy(all: &[Sample], start: i64, end: i64) -> Option<f64> {
    let first = all.iter().rposition(|sample| sample.at <= start)?;
    let last = all.iter().position(|sample| sample.at >= end)?;
    if start - all[first].at > NEAREST || all[last].at - end > NEAREST {
        return None;
    }
    all[first].energy?;
    all[last].energy?;
    let known: Vec<f64> = all[first..=last]
        .iter()
        .filter_map(|sample| sample.energy)
        .collect();
    Some(
        known
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).max(0.0))
            .sum(),
    )
}

fn naive(requests: &[KeptRequest], samples: &[Sample], placements: &[Placement]) -> Vec<Row> {
    let mut rows = Vec::new();
    for one in requests {
        let (start, end) = (one.start_unix_nano, one.end_unix_nano);
        let n_others = |from, to| {
            let others = requests.iter().filter(|other| {
                other.engine == one.engine
                    && shares((other.start_unix_nano, other.end_unix_nano), (from, to))
            });
            Some(others.count() as i64 - 1)
        };
        let during = |held: &Placement| held.during(start, end);
        let mut held: Vec<&Placement> = placements
            .iter()
            .filter(|held| held.pod == one.pod && during(held).is_some())
            .collect();
        held.sort_by_key(|held| held.device.clone());
        if held.is_empty() {
            rows.push(Row {
                request: one.span_id.to_string(),
                attribution: "node_only",
                missing: Some(MissingLink::Placement.as_str().to_owned()),
                n_others: n_others(start, end),
                ..Row::default()
            });
        }
        for held in held {
            let (from, to) = during(held).expect("held");
            let is_shared = placements.iter().any(|other| {
                other.device == held.device
                    && other.pod != held.pod
                    && other.during(from, to).is_some()
            });
            let all = of_device(samples, held.device.uuid());
            let others = n_others(from, to);
            let mut row = Row {
                request: one.span_id.to_string(),
                gpu: Some(held.device.uuid().to_owned()),
                attribution: match others {
                    _ if is_shared => "shared_gpu",
                    Some(0) => "exclusive",
                    _ => "shared_batch",
                },
                n_others: others,
                ..Row::default()
            };
            if !all.is_empty() {
                fill(&mut row, &all, from, to);
            }
            if row.method.is_none() {
                row.missing = Some("gpu_samples".to_owned());
            }
            rows.push(row);
        }
    }
    rows
}

fn joined(requests: &[KeptRequest], samples: &[Sample], placements: &[Placement]) -> Vec<Row> {
    // Two batches in another order than time.
    let (one, other) = samples.split_at(samples.len() / 2);
    let index = SampleIndex::new(&[batch(one), batch(other)]).expect("samples");
    let traffic = Traffic::new(requests.iter().map(|request| {
        let engine = request.engine.clone().expect("an engine");
        (engine, request.start_unix_nano, request.end_unix_nano)
    }));
    let placements = Placements::new(placements.to_vec());
    let rows = evidence(requests, &index, &placements, &traffic, settings(), 0);
    let text = |name| texts(&rows, name);
    let known = |text: Option<String>, of: &[&'static str]| {
        text.map(|text| {
            *of.iter()
                .find(|known| **known == text)
                .expect("a known text")
        })
    };
    (0..rows.num_rows())
        .map(|row| Row {
            request: text("span_id")[row].clone().expect("a span id"),
            gpu: text("gpu_uuid")[row].clone(),
            attribution: known(
                text("attribution")[row].clone(),
                &["exclusive", "shared_batch", "shared_gpu", "node_only"],
            )
            .expect("an attribution"),
            missing: text("missing_link")[row].clone(),
            method: known(text("method")[row].clone(), &["within", "nearest"]),
            n_samples: ints(&rows, "sample_count")[row],
            util_avg: floats(&rows, "util_pct_avg")[row],
            util_max: floats(&rows, "util_pct_max")[row],
            clock_min: floats(&rows, "sm_clock_mhz_min")[row],
            energy: floats(&rows, "energy_j")[row],
            xids: lists(&rows, "xids")[row].clone(),
            reasons: lists(&rows, "throttle_reasons")[row].clone(),
            baseline_util: floats(&rows, "baseline_util_pct")[row],
            n_baseline: ints(&rows, "baseline_sample_count")[row],
            n_others: ints(&rows, "other_request_count")[row],
        })
        .collect()
}

prop_compose! {
    /// Whole numbers and few values, so that ties, repeats and NULLs are frequent and every sum is exact.
    fn sample()(
        gpu in 0..3_u32,
        at in 0..200_i64,
        util in prop::option::of(0..4_u8),
        clock in prop::option::of(1..4_u8),
        energy in prop::option::weighted(0.8, 0..50_u8),
        mask in prop::option::of(prop::sample::select(vec![0_i64, 1, 4, 0x40, 0x200])),
        xids in prop::collection::vec(prop::sample::select(vec![31_i64, 48, 79]), 0..2),
    ) -> Sample {
        Sample {
            uuid: uuid(gpu),
            at,
            util: util.map(|util| f64::from(util) * 32.0),
            clock: clock.map(|clock| f64::from(clock) * 512.0),
            energy: energy.map(f64::from),
            mask,
            xids,
            ..Sample::default()
        }
    }
}

prop_compose! {
    /// At most one placement per pod and device: overlaps of the same are `placement`'s own tests.
    fn placed()(pod in 0..3_usize, gpu in 0..4_u32, from in -20..150_i64, length in prop::option::of(1..120_i64)) -> Placement {
        placement(PODS[pod], gpu, from, length.map(|length| from + length))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_join_says_what_nested_loops_say(
        samples in prop::collection::vec(sample(), 0..120),
        placed in prop::collection::vec(placed(), 0..8),
        asked in prop::collection::vec((0..PODS.len(), 0..190_i64, 1..60_i64), 0..25),
    ) {
        let mut placements: Vec<Placement> = Vec::new();
        for placement in placed {
            if !placements.iter().any(|known| known.pod == placement.pod && known.device == placement.device) {
                placements.push(placement);
            }
        }
        let requests: Vec<KeptRequest> = (0..)
            .zip(asked)
            .map(|(number, (pod, start, length))| request(number, PODS[pod], start, start + length))
            .collect();
        let expected = naive(&requests, &samples, &placements);
        prop_assert_eq!(joined(&requests, &samples, &placements), expected);
    }
}
