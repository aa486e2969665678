//! Rows of a group, by the builders of the service.

use std::sync::Arc;

use arrow::array::RecordBatch;
use correlate::{
    Device, KeptRequest, Placements, Pod, Ranks, SampleIndex, Source, TraceSpan, Traffic,
};
use otlp::attribute::{self, Value};
use tables::placements::{PlacementRow, PlacementsBuilder};
use tables::redact::Redaction;
use tables::requests::{Request, RequestsBuilder};
use tables::samples::engine::EngineSamplesBuilder;
use tables::samples::gpu::GpuSamplesBuilder;
use tables::samples::{Limits, Mapper};
use tables::spans::{SpanInput, SpansBuilder, TraceContext};
use tables::traces::{Trace, TracesBuilder};

use super::Result;
use super::slice::{Group, Whole};

/// Tables that get rows.
pub(super) const TABLES: [&str; 7] = [
    "spans",
    "requests",
    "gpu_samples",
    "engine_samples",
    "placements",
    "traces",
    "evidence",
];

/// One request in so many was completed by samples that came late.
const COMPLETED_EVERY: usize = 50;

/// Samples and requests are remembered so long for the evidence: twenty minutes.
const REMEMBERED_NANOS: i64 = 1_200_000_000_000;

pub(super) struct Rows {
    spans: SpansBuilder,
    requests: RequestsBuilder,
    traces: TracesBuilder,
    gpus: GpuSamplesBuilder,
    engines: EngineSamplesBuilder,
    mapper: Mapper,
    /// Samples with the time of the last of them.
    samples: Vec<(i64, RecordBatch)>,
    /// When requests ran.
    ran: Vec<(Arc<str>, i64, i64)>,
    placed: Vec<correlate::Placement>,
}

type Built = Vec<(&'static str, Vec<RecordBatch>)>;

impl Rows {
    pub(super) fn new() -> Result<Self> {
        let redaction = Redaction::new(&tables::redact::Config::default())?;
        Ok(Self {
            spans: SpansBuilder::new(&redaction),
            requests: RequestsBuilder::new(),
            traces: TracesBuilder::new(),
            gpus: GpuSamplesBuilder::new(),
            engines: EngineSamplesBuilder::new(),
            mapper: Mapper::new(Limits::default()),
            samples: Vec::new(),
            ran: Vec::new(),
            placed: Vec::new(),
        })
    }

    /// The rows of a group; groups come in the order of time.
    pub(super) fn build(&mut self, group: &Group<'_>) -> Result<Built> {
        let placements = self.placements(group)?;
        let (gpus, engines) = self.samples(group)?;
        let mut built: Built = vec![
            ("gpu_samples", vec![gpus]),
            ("engine_samples", vec![engines]),
            ("placements", vec![placements]),
        ];
        let mut all = Vec::with_capacity(group.traces.len());
        for trace in &group.traces {
            all.push(requests_of(trace)?);
        }
        let traffic = self.count_concurrent(&mut all);
        let mut spans = Vec::new();
        for (trace, requests) in group.traces.iter().zip(&all) {
            self.trace(trace, requests, &mut spans)?;
        }
        spans.push(self.spans.finish());
        built.push(("spans", spans));
        built.push(("requests", vec![self.requests.finish()]));
        built.push(("traces", vec![self.traces.finish()]));
        built.push(("evidence", self.evidence(&all, &traffic)?));
        Ok(built)
    }

    fn trace(
        &mut self,
        trace: &Whole<'_>,
        requests: &[Request],
        spans: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        for request in requests {
            self.requests.append(request)?;
        }
        let times = || trace.spans.iter().map(|(_, summary)| summary);
        let start = times().map(|span| span.start_time_unix_nano).min();
        let start = start.unwrap_or_default();
        let root = trace
            .spans
            .iter()
            .find(|(_, summary)| summary.parent_span_id.is_none());
        let mut services: Vec<Arc<str>> = trace
            .spans
            .iter()
            .filter_map(|(at, _)| service_name(at.resource).map(Arc::from))
            .collect();
        services.sort_unstable();
        services.dedup();
        let is_error = |code| code == otlp::span::StatusCode::Error;
        self.traces.append(&Trace {
            trace_id: trace.trace_id,
            root_service_name: root.and_then(|(at, _)| service_name(at.resource)),
            root_name: root.map(|(_, summary)| summary.name),
            start_time_unix_nano: start,
            end_time_unix_nano: times()
                .map(|span| span.end_time_unix_nano)
                .max()
                .unwrap_or_default(),
            n_spans: trace.spans.len() as u64,
            n_error_spans: times().filter(|span| is_error(span.status_code)).count() as u64,
            n_roots: u64::from(root.is_some()),
            n_orphans: 0,
            size_bytes: trace.spans.iter().map(|(at, _)| at.span.len() as u64).sum(),
            services: &services,
            decision: "sampled",
            policy: Some("all"),
            trigger: "root_ended",
            adjusted_count: Some(1.0),
            n_requests: requests.len() as u64,
            main_request: correlate::main_request(requests),
            first_seen_unix_nano: trace.received_unix_nano,
            decided_unix_nano: trace.decided_unix_nano,
            loss_flags: &[],
        })?;
        let context = TraceContext {
            start_time_unix_nano: start,
        };
        for (at, _) in &trace.spans {
            let input = SpanInput {
                at,
                trace: &context,
                late: false,
                received_unix_nano: trace.received_unix_nano,
            };
            let mut appended = self.spans.append(&input);
            if appended.as_ref().is_err_and(tables::Error::is_full) {
                spans.push(self.spans.finish());
                appended = self.spans.append(&input);
            }
            appended?;
        }
        Ok(())
    }

    /// Says of each request how many ran on its engine when it started.
    fn count_concurrent(&mut self, all: &mut [Vec<Request>]) -> Traffic {
        for request in all.iter().flatten() {
            let (start, end) = correlate::interval(request);
            if let Some(engine) = correlate::engine_key(request) {
                self.ran.push((Arc::from(engine), start, end));
            }
        }
        let last = self.ran.iter().map(|(_, _, end)| *end).max();
        let since = last.unwrap_or_default().saturating_sub(REMEMBERED_NANOS);
        self.ran.retain(|(_, _, end)| *end >= since);
        let traffic = Traffic::new(self.ran.iter().cloned());
        for request in all.iter_mut().flatten() {
            let start = correlate::interval(request).0;
            let engine = correlate::engine_key(request);
            let n_running = engine.and_then(|engine| traffic.running_at(&engine, start));
            request.concurrent_requests = n_running.and_then(|n| i64::try_from(n.max(1)).ok());
        }
        traffic
    }

    fn samples(&mut self, group: &Group<'_>) -> Result<(RecordBatch, RecordBatch)> {
        let mut last = i64::MIN;
        for scrape in &group.scrapes {
            last = last.max(i64::try_from(scrape.at_unix_nano)?);
            let mapped = self.mapper.map(&scrape.to_export(), scrape.at_unix_nano)?;
            for sample in &mapped.gpus {
                self.gpus.append(sample)?;
            }
            for sample in &mapped.engines {
                self.engines.append(sample)?;
            }
        }
        let gpus = self.gpus.finish();
        self.samples.push((last, gpus.clone()));
        self.samples
            .retain(|(at, _)| *at >= last.saturating_sub(REMEMBERED_NANOS));
        Ok((gpus, self.engines.finish()))
    }

    /// Rows of the placements that are new.
    fn placements(&mut self, group: &Group<'_>) -> Result<RecordBatch> {
        let mut builder = PlacementsBuilder::new();
        for placement in group.placements {
            let known = placed(placement).ok_or("the fleet's GPUs have UUIDs")?;
            let is_known = |other: &correlate::Placement| {
                other.device == known.device && other.pod == known.pod
            };
            if self.placed.iter().any(is_known) {
                continue;
            }
            builder.append(&PlacementRow {
                time_unix_nano: placement.valid_from_unix_nano,
                placement_id: &format!("{}-{}", placement.gpu_uuid, placement.valid_from_unix_nano),
                event: "opened",
                source: known.source.as_str(),
                valid_from_unix_nano: Some(known.valid_from_unix_nano),
                observed_unix_nano: Some(known.valid_from_unix_nano),
                confidence: "medium",
                namespace: known.pod.namespace.as_deref(),
                pod: known.pod.name.as_deref(),
                pod_uid: known.pod.uid.as_deref(),
                node: known.node.as_deref(),
                gpu_uuid: known.device.uuid(),
                ..PlacementRow::default()
            })?;
            self.placed.push(known);
        }
        Ok(builder.finish())
    }

    fn evidence(&self, all: &[Vec<Request>], traffic: &Traffic) -> Result<Vec<RecordBatch>> {
        let requests = all.iter().flatten().filter(|request| !request.wrapper);
        let kept: Vec<KeptRequest> = requests.map(KeptRequest::of).collect();
        let completed: Vec<KeptRequest> = kept.iter().step_by(COMPLETED_EVERY).cloned().collect();
        let batches: Vec<RecordBatch> = self.samples.iter().map(|(_, rows)| rows.clone()).collect();
        let samples = SampleIndex::new(&batches)?;
        let placements = Placements::new(self.placed.clone());
        let settings = correlate::Settings::default();
        let rows = |requests: &[KeptRequest], revision| {
            correlate::evidence(requests, &samples, &placements, traffic, settings, revision)
        };
        Ok(vec![rows(&kept, 0), rows(&completed, 1)])
    }
}

/// The engine requests of a trace.
fn requests_of(trace: &Whole<'_>) -> Result<Vec<Request>> {
    let (mut requests, mut calls, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let note = |request: &mut Request| {
        request.decision = Some("sampled");
        request.policy = Some(Arc::from("all"));
        request.received_unix_nano = trace.received_unix_nano;
    };
    for (at, summary) in &trace.spans {
        if correlate::is_request_span(summary, at.scope, at.span) {
            let mut request = correlate::request(at)?;
            note(&mut request);
            requests.push(request);
        } else if correlate::is_call_span(summary, at.span) {
            let mut call = correlate::call(at)?;
            note(&mut call.row);
            calls.push(call);
        } else {
            others.push(TraceSpan::read(at)?);
        }
    }
    correlate::mark_wrappers(&mut requests);
    let alone = correlate::link(&mut requests, calls, &others);
    requests.extend(alone.into_iter().map(|call| call.row));
    Ok(requests)
}

fn placed(placement: &loadgen::fleet::Placement) -> Option<correlate::Placement> {
    let text = |text: &str| Some(Arc::from(text));
    Some(correlate::Placement {
        device: Device::parse(&placement.gpu_uuid, None)?,
        pod: Pod {
            cluster: None,
            namespace: text(placement.namespace),
            name: text(&placement.pod),
            uid: placement.pod_uid.as_deref().map(Arc::from),
        },
        container: None,
        node: text(&placement.node),
        ranks: Ranks::default(),
        valid_from_unix_nano: i64::try_from(placement.valid_from_unix_nano).ok()?,
        valid_to_unix_nano: None,
        source: Source::ExporterLabels,
    })
}

fn service_name(resource: &[u8]) -> Option<&str> {
    match attribute::lookup(attribute::of_resource(resource), "service.name") {
        Some(Value::Str(name)) => Some(name),
        _ => None,
    }
}
