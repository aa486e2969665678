//! What inference engines call their metrics and labels: the only place that knows.
//!
//! Names are compared without the engine's prefix and without `_total`, which some scrapers strip.
//! Ray Serve puts its own prefix in front, and `_` where the engine has `:`.

use otlp::{
    attribute::{self, Value},
    metrics::Point,
};

use super::columns::{EngineCounter, EngineGauge};
use crate::samples::resource::texts;

/// The program behind an engine's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Engine {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
}

impl Engine {
    /// As stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
        }
    }
}

/// What a metric of an engine is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    Gauge(EngineGauge),
    /// Of several series with a `reason`, each its gauge.
    WaitingByReason,
    Counter(EngineCounter),
    /// Requests that ended, by reason.
    Finished,
    /// Counted in series that add up to the total.
    Summed(EngineCounter),
    /// Histogram of tokens per step.
    Iterations,
    /// Not stored.
    Unmapped,
}

/// A metric name of an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::samples) struct Name {
    pub(super) target: Target,
    /// 0 for the present name, more for older ones.
    pub(super) rank: u8,
    pub(super) engine: Engine,
}

impl Name {
    /// `None` for metrics of something else.
    pub(in crate::samples) fn lookup(name: &str) -> Option<Self> {
        let name = name.strip_prefix("ray_").unwrap_or(name);
        let after = |engine: &str| name.strip_prefix(engine)?.strip_prefix([':', '_']);
        let (engine, stem) = match after("vllm") {
            Some(stem) => (Engine::Vllm, stem),
            None => (Engine::Sglang, after("sglang")?),
        };
        let stem = stem.strip_suffix("_total").unwrap_or(stem);
        let (target, rank) = match engine {
            Engine::Vllm => vllm(stem),
            Engine::Sglang => sglang(stem),
        };
        Some(Self {
            target,
            rank,
            engine,
        })
    }
}

/// Names of vLLM: present ones, then those of older versions.
fn vllm(stem: &str) -> (Target, u8) {
    use {EngineCounter::*, EngineGauge::*};
    let target = match stem {
        "num_requests_running" => Target::Gauge(RequestsRunning),
        "num_requests_waiting" => Target::Gauge(RequestsWaiting),
        "num_requests_waiting_by_reason" => Target::WaitingByReason,
        "num_requests_swapped" => Target::Gauge(RequestsSwapped),
        "kv_cache_usage_perc" => Target::Gauge(KvCacheUsage),
        "gpu_cache_usage_perc" => return (Target::Gauge(KvCacheUsage), 1),
        "cpu_cache_usage_perc" => Target::Gauge(CpuKvCacheUsage),
        "gpu_prefix_cache_hit_rate" => Target::Gauge(PrefixCacheHitRate),
        "num_preemptions" => Target::Counter(Preemptions),
        "prompt_tokens" => Target::Counter(PromptTokens),
        "generation_tokens" => Target::Counter(GenerationTokens),
        "prompt_tokens_cached" => Target::Counter(PromptTokensCached),
        "prompt_tokens_recomputed" => Target::Counter(PromptTokensRecomputed),
        "prefix_cache_queries" => Target::Counter(PrefixCacheQueries),
        "gpu_prefix_cache_queries" => return (Target::Counter(PrefixCacheQueries), 1),
        "prefix_cache_hits" => Target::Counter(PrefixCacheHits),
        "gpu_prefix_cache_hits" => return (Target::Counter(PrefixCacheHits), 1),
        "external_prefix_cache_queries" => Target::Counter(ExternalPrefixCacheQueries),
        "external_prefix_cache_hits" => Target::Counter(ExternalPrefixCacheHits),
        "request_success" => Target::Finished,
        "admission_rejections" => Target::Summed(AdmissionRejections),
        "corrupted_requests" => Target::Counter(CorruptedRequests),
        "iteration_tokens" => Target::Iterations,
        _ => Target::Unmapped,
    };
    (target, 0)
}

/// Names of SGLang.
fn sglang(stem: &str) -> (Target, u8) {
    use {EngineCounter::*, EngineGauge::*};
    let target = match stem {
        "num_running_reqs" => Target::Gauge(RequestsRunning),
        "num_queue_reqs" => Target::Gauge(RequestsWaiting),
        "token_usage" => Target::Gauge(KvCacheUsage),
        "num_used_tokens" => Target::Gauge(KvTokensUsed),
        "cache_hit_rate" => Target::Gauge(PrefixCacheHitRate),
        "gen_throughput" => Target::Gauge(GenerationTokensPerS),
        "prompt_tokens" => Target::Counter(PromptTokens),
        "generation_tokens" => Target::Counter(GenerationTokens),
        "cached_tokens" => Target::Summed(PromptTokensCached),
        "num_requests" => Target::Counter(RequestsFinished),
        "num_aborted_requests" => Target::Counter(RequestsAborted),
        _ => Target::Unmapped,
    };
    (target, 0)
}

/// Which gauge of waiting requests a point is.
pub(super) fn waiting_gauge(point: &Point<'_>) -> Option<EngineGauge> {
    match label(point, "reason") {
        "capacity" => Some(EngineGauge::RequestsWaitingCapacity),
        "deferred" => Some(EngineGauge::RequestsWaitingDeferred),
        _ => None,
    }
}

/// Which counter beside the sum a number of ended requests belongs to.
pub(super) fn finished_counter(point: &Point<'_>) -> Option<EngineCounter> {
    match label(point, "finished_reason") {
        "abort" => Some(EngineCounter::RequestsAborted),
        "error" => Some(EngineCounter::RequestsFailed),
        _ => None,
    }
}

fn label<'a>(point: &Point<'a>, key: &str) -> &'a str {
    match attribute::lookup(point.attributes(), key) {
        Some(Value::Str(text)) => text,
        _ => "",
    }
}

/// Labels that tell engines apart, or describe them where the resource does not.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels<'a> {
    pub(super) model: Option<&'a str>,
    pub(super) engine_index: Option<&'a str>,
    /// `key=value` of each label that ranks or replicas differ in.
    pub(super) rank: Option<String>,
    pub(super) job: Option<&'a str>,
    pub(super) instance: Option<&'a str>,
    pub(super) namespace: Option<&'a str>,
    pub(super) pod: Option<&'a str>,
    pub(super) container: Option<&'a str>,
    pub(super) node: Option<&'a str>,
}

impl<'a> Labels<'a> {
    pub(super) fn read(point: &Point<'a>) -> Self {
        let mut labels = Self::default();
        for (key, text) in texts(point.attributes()) {
            let field = match key {
                "model_name" => &mut labels.model,
                "engine" | "dp_rank" => &mut labels.engine_index,
                "job" => &mut labels.job,
                "instance" => &mut labels.instance,
                "namespace" => &mut labels.namespace,
                "pod" => &mut labels.pod,
                "container" => &mut labels.container,
                "node" => &mut labels.node,
                "tp_rank" | "pp_rank" | "moe_ep_rank" | "engine_type" | "WorkerId" | "replica" => {
                    let rank = labels.rank.get_or_insert_default();
                    if !rank.is_empty() {
                        rank.push(' ');
                    }
                    rank.push_str(&format!("{key}={text}"));
                    continue;
                }
                _ => continue,
            };
            *field = Some(text);
        }
        labels
    }
}
