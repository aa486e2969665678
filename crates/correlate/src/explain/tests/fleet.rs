//! The fleet tells spans and metrics as a real one does; verdicts are compared with what was true.
//!
//! Nothing but what the fleet told is used for a verdict, by the way that spans and scrapes of a real one take.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Float64Type;
use loadgen::fleet::{
    Cause as Truth, Config, Fault, FaultKind, Run, Served, Target, engine_pod, simulate,
};
use otlp::{
    attribute::{self, Value},
    export::{self, Limits},
    prometheus::{self, Format, Scrape, to_protobuf},
    span::SpanSummary,
};
use tables::{
    requests::Request,
    samples::{
        Mapper,
        engine::{EngineCounter, EngineGauge},
        gpu::GpuSamplesBuilder,
    },
};

use crate::explain::{
    Cause, Cohort, DeviceFact, EngineFact, EngineSample, Explanation, Facts, Link, Neighbour,
    SpanFact, explain,
};
use crate::{
    Device, KeptRequest, Placement, Placements, Pod, Ranks, SampleIndex, Settings, Source, Traffic,
    evidence, normalise_request_id,
};

const LEAST: Duration = Duration::from_millis(400);

/// What a run told, as tables would have it.
struct Told {
    spans: HashMap<otlp::TraceId, Vec<SpanFact>>,
    requests: Vec<Request>,
    engine_samples: HashMap<String, Vec<EngineSample>>,
    devices: HashMap<otlp::SpanId, Vec<DeviceFact>>,
    cohorts: HashMap<Bands, Cohort>,
}

type Bands = (Option<&'static str>, Option<&'static str>);

fn bands(request: &Request) -> Bands {
    (
        request.input_tokens.map(tables::requests::band),
        request.output_tokens.map(tables::requests::band),
    )
}

/// Medians over requests of the same bands.
fn cohorts(requests: &[Request]) -> HashMap<Bands, Cohort> {
    let mut alike: HashMap<Bands, Vec<&Request>> = HashMap::new();
    for request in requests {
        alike.entry(bands(request)).or_default().push(request);
    }
    let cohort = |alike: &[&Request]| {
        let median = |pick: &dyn Fn(&Request) -> Option<f64>| {
            let mut values: Vec<f64> = alike.iter().filter_map(|other| pick(other)).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        Cohort {
            n_requests: alike.len() as u64,
            before_s: Some(0.06),
            queue_s: median(&|other| other.queue_s),
            prefill_s: median(&|other| other.prefill_s),
            input_tokens: median(&|other| other.input_tokens.map(|tokens| tokens as f64)),
            tpot_s: median(&|other| other.tpot_s),
            delivery_s: Some(0.003),
            ..Cohort::default()
        }
    };
    alike
        .iter()
        .map(|(bands, alike)| (*bands, cohort(alike)))
        .collect()
}

fn text(value: Option<Value<'_>>) -> Option<String> {
    let Value::Str(text) = value? else {
        return None;
    };
    Some(text.to_owned())
}

fn nanos(unix_nano: u64) -> i64 {
    i64::try_from(unix_nano).expect("a time of this century")
}

fn read_spans(run: &Run) -> (HashMap<otlp::TraceId, Vec<SpanFact>>, Vec<Request>) {
    let mut spans: HashMap<_, Vec<SpanFact>> = HashMap::new();
    let mut requests = Vec::new();
    for sent in &run.exports {
        for at in export::spans(&sent.body, &Limits::default()) {
            let at = at.expect("a span");
            let summary = SpanSummary::read(at.span).expect("a span");
            let get = |key: &str| text(attribute::lookup(attribute::of_span(at.span), key));
            spans.entry(summary.trace_id).or_default().push(SpanFact {
                span_id: summary.span_id,
                parent_span_id: summary.parent_span_id,
                service: sent.service.to_owned(),
                name: summary.name.to_owned(),
                is_client: summary.kind == otlp::span::SpanKind::Client,
                is_retrieval: get("openinference.span.kind").as_deref() == Some("RETRIEVER"),
                response_id: get("gen_ai.response.id")
                    .map(|id| normalise_request_id(&id).to_owned()),
                start_unix_nano: nanos(summary.start_time_unix_nano),
                end_unix_nano: nanos(summary.end_time_unix_nano),
            });
            if summary.name == "llm_request" {
                requests.push(crate::request(&at).expect("a request"));
            }
        }
    }
    (spans, requests)
}

/// Engine samples by pod, and a batch of `gpu_samples`, by way of the text parser and the mapper.
fn read_scrapes(run: &Run) -> (HashMap<String, Vec<EngineSample>>, RecordBatch) {
    let mut mapper = Mapper::default();
    let mut engines: HashMap<String, Vec<EngineSample>> = HashMap::new();
    let mut gpus = GpuSamplesBuilder::new();
    for scraped in &run.scrapes {
        let pod = match scraped.target {
            Target::Engine { replica_idx } => engine_pod(replica_idx),
            Target::Gpus { node_idx } => format!("dcgm-exporter-{node_idx}"),
        };
        let resource = [
            ("service.name", "scrape"),
            ("service.instance.id", pod.as_str()),
            ("k8s.pod.name", pod.as_str()),
        ];
        let scrape = Scrape {
            resource: &resource,
            scope: "fleet",
            time_unix_nano: scraped.at_unix_nano,
        };
        let text = scraped.text.as_bytes();
        let converted = to_protobuf(text, Format::Text, &scrape, &prometheus::Limits::default());
        assert_eq!(converted.n_skipped, 0, "{:?}", converted.skipped);
        let samples = mapper
            .map(&converted.body, scraped.at_unix_nano)
            .expect("samples");
        for sample in samples.gpus {
            gpus.append(&sample).expect("room");
        }
        for sample in samples.engines {
            engines.entry(pod.clone()).or_default().push(EngineSample {
                at_unix_nano: nanos(sample.time_unix_nano),
                running: sample.gauge(EngineGauge::RequestsRunning),
                waiting: sample.gauge(EngineGauge::RequestsWaiting),
                kv_cache_usage: sample.gauge(EngineGauge::KvCacheUsage),
                preemptions: sample.delta(EngineCounter::Preemptions),
            });
        }
    }
    (engines, gpus.finish())
}

fn placements(run: &Run) -> Placements {
    Placements::new(
        run.placements
            .iter()
            .map(|held| Placement {
                device: Device::parse(&held.gpu_uuid, None).expect("a device"),
                pod: Pod {
                    cluster: None,
                    namespace: Some(held.namespace.into()),
                    name: Some(held.pod.as_str().into()),
                    uid: held.pod_uid.as_deref().map(Arc::from),
                },
                container: None,
                node: Some(held.node.as_str().into()),
                ranks: Ranks {
                    tp: Some(i64::from(held.tp_rank)),
                    ..Ranks::default()
                },
                valid_from_unix_nano: nanos(held.valid_from_unix_nano),
                valid_to_unix_nano: held.valid_to_unix_nano.map(nanos),
                source: Source::Reported,
            })
            .collect(),
    )
}

fn read_devices(
    gpus: RecordBatch,
    requests: &[Request],
    placements: &Placements,
) -> HashMap<otlp::SpanId, Vec<DeviceFact>> {
    let kept: Vec<KeptRequest> = requests.iter().map(KeptRequest::of).collect();
    let traffic = Traffic::new(kept.iter().filter_map(|kept| {
        Some((
            kept.engine.clone()?,
            kept.start_unix_nano,
            kept.end_unix_nano,
        ))
    }));
    let index = SampleIndex::new(&[gpus]).expect("samples");
    let rows = evidence(&kept, &index, placements, &traffic, Settings::default(), 0);
    let text = |name: &str, row: usize| {
        let column = rows.column_by_name(name).expect(name).as_string::<i32>();
        column.is_valid(row).then(|| column.value(row).to_owned())
    };
    let float = |name: &str, row: usize| {
        let column = rows
            .column_by_name(name)
            .expect(name)
            .as_primitive::<Float64Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    let list = |name: &str, row: usize| -> Vec<String> {
        let column = rows.column_by_name(name).expect(name).as_list::<i32>();
        let items = column.is_valid(row).then(|| column.value(row));
        items.map_or_else(Vec::new, |items| {
            items
                .as_string::<i32>()
                .iter()
                .flatten()
                .map(str::to_owned)
                .collect()
        })
    };
    let mut devices: HashMap<_, Vec<DeviceFact>> = HashMap::new();
    for row in 0..rows.num_rows() {
        let span_id =
            otlp::SpanId::parse_hex(&text("span_id", row).expect("a span id")).expect("a span id");
        devices.entry(span_id).or_default().push(DeviceFact {
            gpu_uuid: text("gpu_uuid", row),
            missing_link: text("missing_link", row),
            attribution: text("attribution", row).expect("an attribution"),
            sm_clock_mhz: float("sm_clock_mhz_avg", row),
            baseline_sm_clock_mhz: float("baseline_sm_clock_mhz", row),
            thermal_throttle_share: float("thermal_throttle_share", row),
            throttle_reasons: list("throttle_reasons", row),
            xids: list("xids", row),
            xids_before: list("xids_before", row),
            ecc_dbe: float("ecc_dbe", row),
            nvlink_errors: float("nvlink_errors", row),
            temp_c: float("temp_c_max", row),
        });
    }
    devices
}

impl Told {
    fn read(run: &Run, placements: &Placements) -> Self {
        let (spans, requests) = read_spans(run);
        let (engine_samples, gpus) = read_scrapes(run);
        let devices = read_devices(gpus, &requests, placements);
        Self {
            spans,
            engine_samples,
            devices,
            cohorts: cohorts(&requests),
            requests,
        }
    }

    fn engine(request: &Request) -> EngineFact {
        EngineFact {
            span_id: Some(request.span_id),
            request_id: request.request_id_normalised.clone(),
            start_unix_nano: nanos(request.start_time_unix_nano),
            end_unix_nano: nanos(request.end_time_unix_nano),
            queue_s: request.queue_s,
            prefill_s: request.prefill_s,
            decode_s: request.decode_s,
            input_tokens: request.input_tokens,
            cached_tokens: request.cached_tokens,
            output_tokens: request.output_tokens,
        }
    }

    fn cohort(&self, request: &Request) -> Cohort {
        self.cohorts[&bands(request)]
    }

    fn facts(&self, request: &Request, trace_id: otlp::TraceId) -> Facts {
        let mut spans = self.spans[&trace_id].clone();
        if request.trace_id != trace_id {
            spans.extend(self.spans[&request.trace_id].clone());
        }
        let (start, end) = (
            nanos(request.start_time_unix_nano),
            nanos(request.end_time_unix_nano),
        );
        let pod = request.k8s_pod_name.as_deref().expect("a pod");
        let on_engine = |other: &&Request| {
            other.k8s_pod_name == request.k8s_pod_name && other.span_id != request.span_id
        };
        let neighbours = self.requests.iter().filter(on_engine).filter_map(|other| {
            let after = |seconds: f64| (seconds * 1e9) as i64;
            let from = nanos(other.start_time_unix_nano) + after(other.queue_s?);
            let to = from + after(other.prefill_s?);
            (from < end && to > start).then(|| Neighbour {
                request_id: other.request_id_normalised.clone().unwrap_or_default(),
                prefill_from_unix_nano: from,
                prefill_to_unix_nano: to,
                input_tokens: other.input_tokens.unwrap_or(0),
            })
        });
        Facts {
            spans,
            engine: Some(Self::engine(request)),
            cohort: self.cohort(request),
            running_max: self.engine_samples[pod]
                .iter()
                .filter_map(|sample| sample.running)
                .reduce(f64::max),
            engine_samples: self.engine_samples[pod].clone(),
            devices: self
                .devices
                .get(&request.span_id)
                .cloned()
                .unwrap_or_default(),
            neighbours: neighbours.collect(),
            batches: crate::BatchFacts::default(),
        }
    }
}

/// Verdicts on the requests that `select` takes, by true cause.
fn verdicts(
    config: &Config,
    hide_placements: bool,
    select: impl Fn(&Served) -> bool,
) -> Vec<Explanation> {
    let run = simulate(config);
    let placements = if hide_placements {
        Placements::default()
    } else {
        placements(&run)
    };
    let told = Told::read(&run, &placements);
    let by_id: HashMap<&str, &Request> = told
        .requests
        .iter()
        .filter_map(|request| Some((request.request_id.as_deref()?, request)))
        .collect();
    run.requests
        .iter()
        .filter(|served| select(served))
        .map(|served| {
            let request = by_id[served.request.request_id.as_str()];
            let trace_id = otlp::TraceId::from_slice(&served.request.trace_id).expect("a trace id");
            explain(&told.facts(request, trace_id))
        })
        .collect()
}

/// The verdict that is right for a true cause.
fn right(truth: Truth) -> Cause {
    match truth {
        Truth::QueueBurst => Cause::Queueing,
        Truth::KvPreemption => Cause::KvCache,
        Truth::LongPrefill => Cause::LongPrefill,
        Truth::ThermalThrottle => Cause::ThermalThrottle,
        Truth::PowerThrottle => Cause::PowerThrottle,
        Truth::Xid => Cause::Xid,
        Truth::NvlinkSlow => Cause::Nvlink,
        Truth::SlowRag => Cause::Retrieval,
        Truth::SlowClient => Cause::Delivery,
        Truth::GatewayStall => Cause::Gateway,
    }
}

/// Stretches of twenty seconds, a minute apart: most requests are not hit, so that medians say what is usual.
fn config(cause: Truth, others: &[Fault]) -> Config {
    // An error holds up for a few seconds only: it takes more of them.
    let minutes = if cause == Truth::Xid { 16 } else { 8 };
    let (n, length) = match cause {
        // One brings requests enough.
        Truth::QueueBurst => (1, 20),
        Truth::Xid => (minutes - 1, 6),
        _ => (minutes - 1, 20),
    };
    let faults = (1..=n).map(|minute| Fault::slow(cause, minute * 60, minute * 60 + length));
    Config {
        duration: Duration::from_secs(minutes * 60),
        faults: faults.chain(others.iter().copied()).collect(),
        ..Config::default()
    }
}

/// Is it one of those that are hit, not of those that hit?
fn is_hit(served: &Served, cause: Truth) -> bool {
    !served.is_injected && served.delays.dominant(LEAST) == Some(cause)
}

const DEVICE_CAUSES: [(Truth, Cause); 4] = [
    (Truth::ThermalThrottle, Cause::ThermalThrottle),
    (Truth::PowerThrottle, Cause::PowerThrottle),
    (Truth::Xid, Cause::Xid),
    (Truth::NvlinkSlow, Cause::Nvlink),
];

#[test]
fn the_verdict_is_the_true_cause() {
    let mut matrix: BTreeMap<Truth, BTreeMap<Cause, usize>> = BTreeMap::new();
    for cause in Truth::ALL {
        let all = verdicts(&config(cause, &[]), false, |served| is_hit(served, cause));
        let row = matrix.entry(cause).or_default();
        for explanation in all.iter().take(200) {
            *row.entry(explanation.verdict).or_default() += 1;
        }
    }
    for (truth, row) in &matrix {
        let n: usize = row.values().sum();
        let n_right = row.get(&right(*truth)).copied().unwrap_or(0);
        println!(
            "{:>17} {n:>4} requests, {:>5.1} % right: {row:?}",
            truth.as_str(),
            100.0 * n_right as f64 / n as f64
        );
    }
    for (truth, row) in &matrix {
        let n: usize = row.values().sum();
        let n_right = row.get(&right(*truth)).copied().unwrap_or(0);
        assert!(n >= 50 && n_right * 100 >= n * 95, "{truth:?}: {row:?}");
    }
}

#[test]
fn no_device_is_blamed_where_the_mapping_is_missing() {
    let mut n_seen = 0;
    for (truth, _) in DEVICE_CAUSES {
        for explanation in verdicts(&config(truth, &[]), true, |served| is_hit(served, truth)) {
            n_seen += 1;
            let is_device = DEVICE_CAUSES
                .iter()
                .any(|(_, cause)| *cause == explanation.verdict);
            assert!(!is_device, "{truth:?}: {:?}", explanation.verdict);
            if explanation.slow_phase.is_some() {
                let says_so = |open: &String| open.contains("breaks at `placement`");
                assert!(
                    explanation.open.iter().any(says_so),
                    "{:?}",
                    explanation.open
                );
            }
        }
    }
    assert!(n_seen > 500, "{n_seen}");
}

/// The heat is on GPUs that the pod has left: they say nothing about its requests any more.
#[test]
fn a_device_that_the_pod_has_left_is_not_blamed() {
    let moved = [Fault::other(FaultKind::PodMoved, 30, 600)];
    let all = verdicts(&config(Truth::ThermalThrottle, &moved), false, |_| true);
    assert!(all.len() > 1_000, "{}", all.len());
    for explanation in all {
        assert_ne!(explanation.verdict, Cause::ThermalThrottle);
    }
}

#[test]
fn a_lost_context_is_stitched_and_a_skewed_clock_is_set_right() {
    for (kind, link) in [
        (FaultKind::ContextLost, Link::RequestId),
        (FaultKind::ClockAhead, Link::TraceContext),
    ] {
        for (truth, cause) in [
            (Truth::SlowRag, Cause::Retrieval),
            (Truth::GatewayStall, Cause::Gateway),
            (Truth::SlowClient, Cause::Delivery),
        ] {
            let config = config(truth, &[Fault::other(kind, 0, 600)]);
            let all = verdicts(&config, false, |served| is_hit(served, truth));
            assert!(all.len() > 100, "{}", all.len());
            let is_right = |explanation: &&Explanation| explanation.verdict == cause;
            let (n_right, n) = (all.iter().filter(is_right).count(), all.len());
            assert!(
                n_right * 100 >= n * 95,
                "{kind:?} {truth:?}: {n_right} of {n}"
            );
            for explanation in &all {
                let course = explanation.course.as_ref().expect("a course");
                assert_eq!(course.link, link);
                if kind == FaultKind::ClockAhead {
                    let ahead = course.clock_ahead_nanos.expect("a clock that is ahead");
                    assert!((1_900_000_000..2_100_000_000).contains(&ahead), "{ahead}");
                }
            }
        }
    }
}
