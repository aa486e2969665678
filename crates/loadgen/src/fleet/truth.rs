//! The truth of a run as JSON, for whoever compares an explanation with it.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Cause, Config, Fault, FaultKind, Run, Served, engine_pod};
use crate::traffic::nanos;

/// What a cause must have cost to be the cause of a request's slowness.
const LEAST: Duration = Duration::from_millis(400);

/// What was injected, which pod held which GPU, and for each request what each cause cost it, and who is guilty.
///
/// `cause` is the one that cost at least 400 ms and twice as much as any other; `null` where there is no such one.
#[must_use]
pub fn truth(config: &Config, run: &Run) -> Value {
    let requests = run
        .requests
        .iter()
        .map(|served| request(config, run, served));
    let placements = run.placements.iter().map(|held| {
        json!({
            "gpu_uuid": held.gpu_uuid, "pod": held.pod, "namespace": held.namespace, "node": held.node,
            "tp_rank": held.tp_rank, "valid_from_unix_nano": held.valid_from_unix_nano,
            "valid_to_unix_nano": held.valid_to_unix_nano,
        })
    });
    json!({
        "seed": config.seed,
        "start_unix_nano": config.start_unix_nano,
        "duration_s": config.duration.as_secs_f64(),
        "faults": config.faults.iter().map(|fault| injected(config, run, fault)).collect::<Value>(),
        "placements": placements.collect::<Value>(),
        "requests": requests.collect::<Value>(),
    })
}

fn window(config: &Config, fault: &Fault) -> (u64, u64) {
    let at = |since: Duration| config.start_unix_nano.saturating_add(nanos(since));
    (at(fault.from), at(fault.to))
}

fn injected(config: &Config, run: &Run, fault: &Fault) -> Value {
    let (from, to) = window(config, fault);
    let guilty = match fault.kind {
        FaultKind::Slow(cause) => guilty(run, cause, 0),
        FaultKind::ContextLost | FaultKind::PodMoved | FaultKind::ClockAhead => Value::Null,
    };
    json!({
        "name": fault.kind.as_str(), "from_unix_nano": from, "to_unix_nano": to, "guilty": guilty,
    })
}

fn request(config: &Config, run: &Run, served: &Served) -> Value {
    let request = &served.request;
    let cause = served.delays.dominant(LEAST);
    let lost = Cause::ALL.into_iter().filter_map(|cause| {
        let nanos = served.delays.of(cause);
        (nanos > 0).then(|| (cause.as_str().to_owned(), Value::from(nanos)))
    });
    json!({
        "trace_id": hex(&request.trace_id),
        "request_id": request.request_id,
        "start_unix_nano": request.start_unix_nano,
        "pod": engine_pod(request.replica_idx),
        "cause": cause.map(Cause::as_str),
        "lost_ns": Value::Object(lost.collect()),
        "guilty": cause.map(|cause| guilty(run, cause, request.replica_idx)),
        "window": cause.and_then(|cause| window_of(config, cause, request)),
        "injected": served.is_injected,
        "preemptions": served.n_preemptions,
        "context_lost": request.outside.context_lost,
        "clock_ahead_ns": nanos(request.outside.engine_clock_ahead),
    })
}

/// The last stretch of the cause that began before the request was over.
fn window_of(config: &Config, cause: Cause, request: &crate::traffic::Request) -> Option<Value> {
    let took = request.outside.gateway
        + request.retrieval
        + request.queue
        + request.prefill
        + request.decode
        + request.outside.delivery;
    let end = request.start_unix_nano.saturating_add(nanos(took));
    let of_cause = config
        .faults
        .iter()
        .filter(|fault| fault.kind == FaultKind::Slow(cause));
    let windows = of_cause.map(|fault| window(config, fault));
    let (from, to) = windows.filter(|(from, _)| *from <= end).max()?;
    Some(json!({ "from_unix_nano": from, "to_unix_nano": to }))
}

/// Who is to blame: a service before or after the engine, the engine's pod, or GPUs that it held.
fn guilty(run: &Run, cause: Cause, replica_idx: u8) -> Value {
    let pod = engine_pod(replica_idx);
    let n_gpus = match cause {
        Cause::SlowRag => return json!({ "service": "rag-api" }),
        Cause::SlowClient => return json!({ "service": "chat-web" }),
        Cause::GatewayStall => return json!({ "service": "llm-gateway" }),
        Cause::QueueBurst | Cause::KvPreemption | Cause::LongPrefill => 0,
        Cause::ThermalThrottle | Cause::PowerThrottle | Cause::Xid => 1,
        Cause::NvlinkSlow => 2,
    };
    // The faulty ones are those that it held first, in order of their rank.
    let held = run.placements.iter().filter(|held| held.pod == pod);
    let gpus: Vec<&str> = held
        .take(n_gpus)
        .map(|held| held.gpu_uuid.as_str())
        .collect();
    json!({ "pod": pod, "gpus": gpus })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
