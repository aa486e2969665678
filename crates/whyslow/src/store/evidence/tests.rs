//! The stage alone: samples, requests and the time are given.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::Int64Type;
use otlp::prometheus::{self, Format, Scrape};
use otlp::{SpanId, TraceId};
use proptest::prelude::*;
use tables::requests::Request;
use tables::samples::gpu::{GpuSample, GpuSamplesBuilder};
use tables::samples::{Limits, Mapper};

use super::{Evidence, Rows, remembered_nanos};
use crate::config::Correlate;
use crate::store::Written;
use crate::store::traffic::Running;

const SECOND: i64 = 1_000_000_000;
const T0: i64 = 1_790_000_000 * SECOND;

fn config() -> Correlate {
    Correlate {
        max_lateness: Duration::from_secs(60),
        completion_wait: Duration::from_secs(600),
        ..Correlate::default()
    }
}

/// A stage with given time, and all rows that it wrote.
struct Stage {
    evidence: Evidence,
    running: Running,
    mapper: Mapper,
    now: i64,
    sequence: i64,
    first: Vec<Written>,
    completed: Vec<Written>,
}

impl Stage {
    fn new(config: &Correlate) -> Self {
        Self::after(config, 0)
    }

    /// Of a start, after which releases come again of which those through `stored` have their rows.
    fn after(config: &Correlate, stored: i64) -> Self {
        Self {
            evidence: Evidence::new(config, Vec::new(), stored),
            running: Running::new(remembered_nanos(config)),
            mapper: Mapper::new(Limits::default()),
            now: T0,
            sequence: 0,
            first: Vec::new(),
            completed: Vec::new(),
        }
    }

    /// Samples of a device of a node, in which a pod of that name runs, taken at these seconds.
    fn samples(&mut self, device: u32, seconds: impl IntoIterator<Item = i64>) {
        let mut all: Vec<GpuSample> = Vec::new();
        for second in seconds {
            let text = format!(
                "DCGM_FI_DEV_POWER_USAGE{{gpu=\"0\",UUID=\"GPU-0a1b2c3d-{device:04}\",Hostname=\"node-{device}\",\
                 exported_namespace=\"llm\",exported_pod=\"pod-{device}\"}} {}\n",
                100 + second % 7
            );
            let scrape = Scrape {
                resource: &[],
                scope: "test",
                time_unix_nano: u64::try_from(T0 + second * SECOND).unwrap(),
            };
            let limits = prometheus::Limits::default();
            let body =
                prometheus::to_protobuf(text.as_bytes(), Format::Text, &scrape, &limits).body;
            let received = u64::try_from(self.now).unwrap();
            all.extend(self.mapper.map(&body, received).unwrap().gpus);
        }
        let mut builder = GpuSamplesBuilder::new();
        for sample in &all {
            builder.append(sample).unwrap();
        }
        self.evidence
            .take_samples(&[builder.finish()], &all, self.now);
    }

    /// A release with requests of these pods, over these seconds.
    fn requests(&mut self, requests: &[(u32, i64, i64)]) {
        self.sequence += 1;
        let sequence = u8::try_from(self.sequence).unwrap();
        let requests: Vec<Request> = (0_u8..)
            .zip(requests)
            .map(|(idx, (pod, from, to))| request(sequence, idx, *pod, *from, *to))
            .collect();
        for request in &requests {
            self.running.add(request, self.now);
        }
        let decided = u64::try_from(self.now).unwrap();
        self.evidence
            .take_kept(self.sequence, decided, requests.iter(), self.now);
        self.look(false);
    }

    fn look(&mut self, is_urgent: bool) {
        let Rows { first, completed } = self.evidence.write(&mut self.running, is_urgent, self.now);
        self.first.extend(first);
        self.completed.extend(completed);
    }

    /// So many seconds pass.
    fn pass(&mut self, seconds: i64) {
        self.now += seconds * SECOND;
        self.look(false);
    }

    fn said(&self) -> (Vec<String>, Vec<String>) {
        (told(&self.first), told(&self.completed))
    }
}

fn request(sequence: u8, idx: u8, pod: u32, from: i64, to: i64) -> Request {
    let trace_id = TraceId::from_slice(&[sequence; 16]).unwrap();
    let span_id = SpanId::from_slice(&[sequence, idx, 0, 0, 0, 0, 0, 1]).unwrap();
    let at = |second: i64| u64::try_from(T0 + second * SECOND).unwrap();
    Request {
        k8s_namespace_name: Some("llm".to_owned()),
        k8s_pod_name: Some(format!("pod-{pod}")),
        k8s_node_name: Some(format!("node-{pod}")),
        start_time_unix_nano: at(from),
        end_time_unix_nano: at(to),
        ..Request::new(trace_id, span_id)
    }
}

/// Sequence, pod, number of samples, whether it is complete.
fn told(written: &[Written]) -> Vec<String> {
    let mut told = Vec::new();
    for written in written {
        let rows = written.rows.as_ref().unwrap();
        let pods = rows["k8s_pod_name"].as_string::<i32>();
        let samples = rows["sample_count"].as_primitive::<Int64Type>();
        let complete = rows["complete"].as_boolean();
        for row in 0..rows.num_rows() {
            let n_samples = samples
                .is_valid(row)
                .then(|| samples.value(row).to_string());
            told.push(format!(
                "{}: {} {} {}",
                written.sequence,
                pods.value(row),
                n_samples.as_deref().unwrap_or("-"),
                if complete.value(row) {
                    "complete"
                } else {
                    "incomplete"
                },
            ));
        }
    }
    told
}

#[test]
fn a_request_waits_for_its_own_devices_and_not_for_the_slowest() {
    let mut stage = Stage::new(&config());
    stage.samples(1, 0..=10);
    stage.samples(2, 0..=2);
    // The devices of a pod that is on none are those of its node, else all.
    stage.requests(&[(1, 3, 8), (2, 1, 8)]);
    stage.requests(&[(1, 4, 9)]);
    stage.pass(1);
    assert_eq!(
        told(&stage.first),
        ["1: pod-1 6 complete", "2: pod-1 6 complete"]
    );
    assert_eq!(
        stage.evidence.appended(),
        0,
        "the first release is not done"
    );
    assert_eq!(stage.evidence.n_waiting(), 1);
    stage.samples(2, 3..=9);
    stage.pass(1);
    assert_eq!(told(&stage.first[2..]), ["1: pod-2 8 complete"]);
    assert_eq!(stage.evidence.appended(), 2);
    assert_eq!(stage.evidence.completed(), 2);
}

#[test]
fn a_request_without_a_placement_waits_for_its_node_or_else_for_all() {
    let mut stage = Stage::new(&config());
    stage.samples(1, 0..=10);
    stage.samples(2, 0..=2);
    // In the time before the first sample nobody is seen on a device.
    let unplaced = |node: Option<&str>| Request {
        k8s_pod_name: Some("other".to_owned()),
        k8s_node_name: node.map(str::to_owned),
        ..request(9, 0, 0, 3, 8)
    };
    let decided = u64::try_from(stage.now).unwrap();
    for (sequence, node) in [(1, Some("node-1")), (2, Some("node-2")), (3, None)] {
        let request = unplaced(node);
        let kept = std::iter::once(&request);
        stage.evidence.take_kept(sequence, decided, kept, stage.now);
    }
    stage.pass(1);
    let written: Vec<i64> = stage.first.iter().map(|written| written.sequence).collect();
    assert_eq!(written, [1]);
    stage.samples(2, 3..=9);
    stage.pass(1);
    let written: Vec<i64> = stage.first.iter().map(|written| written.sequence).collect();
    assert_eq!(written, [1, 2, 3]);
    assert_eq!(
        stage.evidence.n_incomplete(),
        0,
        "nothing tells of a device"
    );
}

#[test]
fn samples_that_come_late_complete_the_evidence_once() {
    let mut stage = Stage::new(&config());
    stage.samples(1, 0..=10);
    stage.requests(&[(1, 8, 14), (1, 2, 9)]);
    stage.pass(59);
    assert_eq!(told(&stage.first), ["1: pod-1 8 complete"]);
    stage.pass(1);
    assert_eq!(told(&stage.first[1..]), ["1: pod-1 3 incomplete"]);
    assert_eq!(
        (stage.evidence.appended(), stage.evidence.completed()),
        (1, 0)
    );
    // What comes meanwhile and is whole passes, and its rows are there; the log is kept for the first.
    stage.requests(&[]);
    assert_eq!(
        (stage.evidence.appended(), stage.evidence.completed()),
        (2, 0)
    );
    stage.pass(200);
    stage.samples(1, 11..=13);
    stage.pass(5);
    assert!(stage.completed.is_empty());
    stage.samples(1, 14..=20);
    stage.pass(5);
    assert_eq!(told(&stage.completed), ["1: pod-1 7 complete"]);
    let rows = stage.completed[0].rows.as_ref().unwrap();
    assert_eq!(rows["revision"].as_primitive::<Int64Type>().values(), &[1]);
    assert_eq!(stage.evidence.completed(), 2);
    stage.samples(1, 15..=40);
    stage.pass(100);
    assert_eq!((stage.first.len(), stage.completed.len()), (2, 1));
}

#[test]
fn samples_that_come_after_the_wait_change_nothing() {
    let mut stage = Stage::new(&config());
    stage.samples(1, 0..=10);
    stage.requests(&[(1, 8, 14)]);
    stage.pass(60);
    assert_eq!(stage.evidence.n_incomplete(), 1);
    stage.pass(599);
    assert_eq!(stage.evidence.completed(), 0);
    stage.pass(1);
    assert_eq!(
        (stage.evidence.n_incomplete(), stage.evidence.completed()),
        (0, 1)
    );
    stage.samples(1, 11..=30);
    stage.pass(10);
    assert!(stage.completed.is_empty());
}

#[test]
fn urgency_writes_what_is_known_and_leaves_it_so() {
    let mut stage = Stage::new(&config());
    stage.samples(1, 0..=10);
    stage.requests(&[(1, 8, 14)]);
    stage.pass(60);
    stage.requests(&[(1, 9, 15)]);
    stage.look(true);
    let expected = ["1: pod-1 3 incomplete", "2: pod-1 2 incomplete"];
    assert_eq!(told(&stage.first), expected);
    assert_eq!(
        (stage.evidence.appended(), stage.evidence.completed()),
        (2, 2)
    );
    stage.samples(1, 11..=30);
    stage.pass(10);
    assert!(stage.completed.is_empty());
}

#[test]
fn what_nobody_samples_is_not_waited_for() {
    let mut stage = Stage::new(&config());
    stage.requests(&[(1, 8, 14)]);
    assert_eq!(told(&stage.first), ["1: pod-1 - complete"]);
    assert_eq!(stage.evidence.completed(), 1);
    let off = Correlate {
        completion_wait: Duration::ZERO,
        ..config()
    };
    let mut stage = Stage::new(&off);
    stage.samples(1, 0..=10);
    stage.requests(&[(1, 8, 14)]);
    stage.pass(60);
    assert_eq!(told(&stage.first), ["1: pod-1 3 incomplete"]);
    assert_eq!(stage.evidence.completed(), 1, "it is switched off");
}

/// After a start, what is stored is the truth about what was incomplete, not what is known by then.
#[test]
fn a_release_that_comes_again_is_completed_where_its_stored_rows_are_not() {
    let mut before = Stage::new(&config());
    before.samples(1, 0..=10);
    before.requests(&[(1, 8, 14), (1, 2, 9)]);
    before.requests(&[(1, 3, 9)]);
    before.pass(60);
    let stored: Vec<RecordBatch> = before
        .first
        .iter()
        .map(|written| written.rows.clone().unwrap())
        .collect();

    let mut after = Stage::after(&config(), 2);
    after.now = before.now;
    after.evidence.reload(&[], &stored, after.now);
    after.samples(1, 0..=20);
    after.requests(&[(1, 8, 14), (1, 2, 9)]);
    after.requests(&[(1, 3, 9)]);
    after.pass(10);
    assert!(after.first.is_empty());
    assert_eq!(told(&after.completed), ["1: pod-1 7 complete"]);
    assert_eq!(after.evidence.completed(), 2);
}

#[test]
fn what_waits_and_what_is_remembered_is_bounded() {
    let mut stage = Stage::new(&config());
    stage.samples(1, 0..=10);
    let kept: Vec<Request> = (0..2_000)
        .map(|idx| Request {
            span_id: SpanId::from_slice(&u64::to_be_bytes(idx + 1)).unwrap(),
            ..request(1, 0, 1, 8, 14)
        })
        .collect();
    for sequence in 1..=100 {
        stage.sequence = sequence;
        let decided = u64::try_from(stage.now).unwrap();
        stage
            .evidence
            .take_kept(sequence, decided, kept.iter(), stage.now);
    }
    stage.pass(1);
    assert!(stage.evidence.n_waiting() <= super::WAITING_MAX);
    assert_eq!(
        stage.evidence.n_waiting() + stage.evidence.n_incomplete(),
        200_000 - given_up(&stage)
    );
    stage.pass(60);
    stage.pass(1);
    assert_eq!(stage.evidence.n_waiting(), 0);
    assert!(
        stage.evidence.n_incomplete() <= 1 << 16,
        "{}",
        stage.evidence.n_incomplete()
    );
    // Samples go by their age: nothing else pushes them out here.
    stage.pass(remembered_nanos(&config()) / SECOND + 1);
    stage.requests(&[(1, 2, 9)]);
    stage.pass(1);
    assert_eq!(
        told(&stage.first[stage.first.len() - 1..]),
        ["101: pod-1 - incomplete"]
    );
}

/// Requests whose rows are written and that do not wait to be completed.
fn given_up(stage: &Stage) -> usize {
    let n_written: usize = stage
        .first
        .iter()
        .map(|written| written.rows.as_ref().unwrap().num_rows())
        .sum();
    n_written - stage.evidence.n_incomplete()
}

type Facts = (i64, Option<i64>);

/// Revision and number of samples of each row by request.
fn facts(written: &[Written]) -> BTreeMap<String, Vec<Facts>> {
    let mut facts: BTreeMap<String, Vec<Facts>> = BTreeMap::new();
    for rows in written.iter().filter_map(|written| written.rows.as_ref()) {
        let spans = rows["span_id"].as_string::<i32>();
        let revisions = rows["revision"].as_primitive::<Int64Type>();
        let samples = rows["sample_count"].as_primitive::<Int64Type>();
        for row in 0..rows.num_rows() {
            let samples = samples.is_valid(row).then(|| samples.value(row));
            let of_span = facts.entry(spans.value(row).to_owned()).or_default();
            of_span.push((revisions.value(row), samples));
        }
    }
    facts
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    /// Scenario: samples of two devices come in any order of pieces, some late, some never; looks are taken now and then.
    /// Guarantee: each request has one first row and at most one later one; the later one is complete and knows at least as
    /// many samples; in the end nothing waits; equal runs are equal.
    #[test]
    fn each_request_has_at_most_one_later_revision_and_it_is_complete(
        pieces in prop::collection::vec((1..3_u32, 0..12_i64, 1..200_i64), 1..14),
        requests in prop::collection::vec((1..3_u32, 0..100_i64, 0..30_i64, 0..14_usize), 1..12),
    ) {
        let run = || {
            let mut stage = Stage::new(&config());
            // Both devices are known, and their pods.
            stage.samples(1, 0..1);
            stage.samples(2, 0..1);
            for step in 0..14 {
                for (pod, from, length, at) in &requests {
                    if *at == step {
                        stage.requests(&[(*pod, *from, from + length)]);
                    }
                }
                if let Some((device, tenth, wait)) = pieces.get(step) {
                    stage.pass(*wait);
                    stage.samples(*device, tenth * 10 + 1..=tenth * 10 + 10);
                    stage.pass(1);
                }
            }
            stage.pass(2_000);
            assert_eq!(stage.evidence.appended(), stage.sequence);
            assert_eq!(stage.evidence.completed(), stage.sequence);
            (facts(&stage.first), facts(&stage.completed), stage.said())
        };
        let (first, completed, said) = run();
        prop_assert_eq!(&run().2, &said);
        for (span, rows) in &first {
            prop_assert_eq!(rows.len(), 1, "{}", span);
            prop_assert_eq!(rows[0].0, 0);
        }
        prop_assert_eq!(first.len(), requests.len());
        for (span, rows) in &completed {
            prop_assert_eq!(rows.len(), 1, "{}", span);
            prop_assert_eq!(rows[0].0, 1);
            prop_assert!(rows[0].1 >= first[span][0].1, "{}", span);
        }
        prop_assert!(said.1.iter().all(|line| line.ends_with(" complete")));
    }
}
