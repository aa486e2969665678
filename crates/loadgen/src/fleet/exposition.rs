//! `/metrics` as vLLM and dcgm-exporter write them: Prometheus text, names and labels of vLLM 0.32 and dcgm-exporter 4.8.

use super::{
    engine::{Counters, KV_TOKENS},
    gpu::{Gpu, Gpus, idx_on_node, node_of},
};
use crate::traffic;

/// Metrics of an engine.
pub(super) fn engine(counters: Counters) -> String {
    let Counters {
        n_running,
        n_waiting,
        kv_tokens,
        ..
    } = counters;
    let labels = format!("engine=\"0\",model_name=\"{}\"", traffic::MODEL);
    let mut text = String::new();
    let mut gauge = |name: &str, more: &str, value: f64| {
        text.push_str(&format!(
            "# TYPE vllm:{name} gauge\nvllm:{name}{{{labels}{more}}} {value:?}\n"
        ));
    };
    gauge("num_requests_running", "", n_running as f64);
    gauge("num_requests_waiting", "", n_waiting as f64);
    gauge(
        "kv_cache_usage_perc",
        "",
        f64::from(kv_tokens) / f64::from(KV_TOKENS),
    );
    let totals = [
        ("num_preemptions_total", counters.n_preemptions),
        ("prompt_tokens_total", counters.prompt_tokens),
        ("generation_tokens_total", counters.generation_tokens),
        ("prefix_cache_queries_total", counters.prompt_tokens),
        ("prefix_cache_hits_total", 0),
    ];
    for (name, value) in totals {
        let family = name.trim_end_matches("_total");
        text.push_str(&format!(
            "# TYPE vllm:{family} counter\nvllm:{name}{{{labels}}} {value}.0\n"
        ));
    }
    text.push_str(&format!("# TYPE vllm:request_success counter\nvllm:request_success_total{{{labels},finished_reason=\"stop\"}} {}.0\n",
        counters.n_finished
    ));
    text.push_str(&format!("# TYPE vllm:iteration_tokens_total histogram\nvllm:iteration_tokens_total_sum{{{labels}}} {}.0\n\
         vllm:iteration_tokens_total_count{{{labels}}} {}.0\n",
        counters.step_tokens, counters.n_steps
    ));
    text
}

/// Metrics of the GPUs of a node; with the pods that hold them, where the exporter is to know them.
pub(super) fn gpus(gpus: &Gpus, node_idx: u8, names_pods: bool) -> String {
    type Value = fn(&Gpu) -> String;
    let fields: [(&str, &str, Value); 12] = [
        ("DCGM_FI_DEV_SM_CLOCK", "gauge", |gpu| {
            format!("{:.0}", gpu.clock_mhz)
        }),
        ("DCGM_FI_DEV_GPU_TEMP", "gauge", |gpu| {
            format!("{:.0}", gpu.temp_c)
        }),
        ("DCGM_FI_DEV_POWER_USAGE", "gauge", |gpu| {
            format!("{:.6}", gpu.power_w)
        }),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", |gpu| {
            format!("{:.0}", gpu.energy_j * 1e3)
        }),
        ("DCGM_FI_DEV_GPU_UTIL", "gauge", |gpu| {
            format!("{:.0}", gpu.util)
        }),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", |gpu| {
            format!("{:.6}", gpu.util / 100.0)
        }),
        ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", |gpu| {
            format!("{:.6}", gpu.util / 150.0)
        }),
        ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "gauge", |gpu| {
            gpu.mask.to_string()
        }),
        ("DCGM_FI_DEV_THERMAL_VIOLATION", "counter", |gpu| {
            gpu.thermal_ns.to_string()
        }),
        ("DCGM_FI_DEV_POWER_VIOLATION", "counter", |gpu| {
            gpu.power_ns.to_string()
        }),
        ("DCGM_FI_DEV_XID_ERRORS", "gauge", |gpu| gpu.xid.to_string()),
        (
            "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
            "counter",
            |gpu| gpu.nvlink_errors.to_string(),
        ),
    ];
    let node = traffic::engine_node(node_idx);
    let of_node = || {
        (0_u8..)
            .zip(&gpus.all)
            .filter(|(number, _)| node_of(*number) == node_idx)
    };
    let mut text = String::new();
    for (name, kind, value) in fields {
        text.push_str(&format!("# HELP {name} {name}\n# TYPE {name} {kind}\n"));
        for (number, gpu) in of_node() {
            let idx = idx_on_node(number);
            let holder = if names_pods {
                pod_labels(number, gpu.holder)
            } else {
                String::new()
            };
            text.push_str(&format!("{name}{{gpu=\"{idx}\",UUID=\"{}\",pci_bus_id=\"00000000:{:02x}:00.0\",device=\"nvidia{idx}\",\
                 modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"{node}\"{holder}}} {}\n",
                gpu.uuid,
                0x1a + 0x10 * idx,
                value(gpu)
            ));
        }
    }
    text
}

/// What `--kubernetes` adds.
fn pod_labels(number: u8, holder: Option<u8>) -> String {
    let (pod, namespace, container) = match holder {
        Some(replica_idx) => (traffic::engine_pod(replica_idx), traffic::NAMESPACE, "vllm"),
        None => (format!("embedder-{number}"), "search", "tei"),
    };
    format!(",container=\"{container}\",namespace=\"{namespace}\",pod=\"{pod}\"")
}
