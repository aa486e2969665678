//! Table `evidence`: what the GPUs of a kept request did in its time, and how it is known.
//!
//! # Decided
//!
//! *One row per request and device*, and one row without a device where the chain from request to device breaks; the
//! link that is missing has a name. Sums over the rows of a request count each device once; requests and tokens are
//! not repeated here, so that a join cannot multiply them.
//!
//! *Device values are device values.* Where the device was shared, or the engine ran other requests in the same
//! batches, `attribution` says so, and no share is invented.
//!
//! *Gauges speak about their moment*: averages and extremes are over the samples taken within the request's time on the
//! device (`method` = `within`), or those of the one nearest sample (`nearest`, with its distance). *Counters speak about
//! the time between two samples*: growth is that between the samples around the request, and `counter_window_s` says how
//! long that is.
//!
//! *Late samples* may complete evidence once: the row with the highest `revision` of a request and device counts.

use crate::column::{Column, ColumnType::*, SortKey, Spec};

/// Table `evidence`.
pub static SPEC: Spec = Spec {
    name: "evidence",
    doc: "One row per kept engine request and GPU that it may have run on, or one that says which link is missing.",
    columns: COLUMNS,
    // Later rows together: who asks for evidence asks for them first, and reads the few pages that have them. Without
    // statistics on files, so that no order of files is declared, which those of earlier versions do not have.
    sort: &[
        SortKey::ascending("revision"),
        SortKey::descending("start_time_unix_nano"),
    ],
    bloom: &["trace_id"],
    stats: &["start_time"],
    retention_days: 30,
};

const fn gauge(name: &'static str, unit: &'static str, doc: &'static str) -> Column {
    Column::new(name, Float, doc)
        .unit(unit)
        .source("gpu_samples")
}

const COLUMNS: &[Column] = &[
    Column::new("date", Date, "Day of the request's start (UTC); the partition.")
        .key()
        .source("start_time_unix_nano"),
    Column::new("trace_id", Text, "Trace, 32 hex digits.").key().source("requests"),
    Column::new("span_id", Text, "Engine span, 16 hex digits.").key().source("requests"),
    Column::new("k8s_pod_name", Text, "Pod of the engine.").source("requests"),
    Column::new("k8s_node_name", Text, "Node of the engine.").source("requests, else the placement"),
    Column::new("gpu_uuid", Text, "GPU, `GPU-` and lower-case hex; NULL where none is known.").source("placements"),
    Column::new("mig_instance", Text, "GPU instance id of a MIG instance.").source("placements"),
    Column::new("dp_rank", Int, "Data parallel rank of the worker.").source("placements"),
    Column::new("pp_rank", Int, "Pipeline parallel rank of the worker.").source("placements"),
    Column::new("tp_rank", Int, "Tensor parallel rank of the worker.").source("placements"),
    Column::new(
        "attribution",
        Text,
        "exclusive, shared_batch (other requests ran on the engine), shared_gpu (other pods held the device), node_only or unmapped.",
    )
    .key()
    .source("placements, requests"),
    Column::new(
        "missing_link",
        Text,
        "Where the chain breaks: pod, pod_ambiguous, placement or gpu_samples; NULL where it holds.",
    )
    .source("placements, gpu_samples"),
    Column::new(
        "placement_source",
        Text,
        "Who placed the pod: reported, pod_resources, exporter_labels or static_file.",
    )
    .source("placements"),
    Column::new("placement_disputed", Bool, "Whether another source places the pod elsewhere.").source("placements"),
    Column::new("start_time", Time, "Start of the request's time on the device.").source("requests, placements"),
    Column::new("start_time_unix_nano", Int, "The same, exact.").unit("ns").source("requests, placements"),
    Column::new("duration_ns", Int, "Length of its time on the device.").unit("ns").source("requests, placements"),
    Column::new("method", Text, "within: samples taken in that time; nearest: the one sample near it.").source("computed"),
    Column::new("nearest_sample_s", Float, "Distance of that one sample.").unit("s").source("gpu_samples"),
    Column::new("sample_count", Int, "Samples taken in that time.").source("gpu_samples"),
    Column::new("coverage", Float, "Share of that time that samples describe, 0 to 1.").source("gpu_samples"),
    Column::new(
        "resolution",
        Text,
        "window_larger_than_request where the time between samples is longer than the request.",
    )
    .source("gpu_samples"),
    Column::new("sample_interval_s", Float, "Usual time between samples of the device.").unit("s").source("gpu_samples"),
    gauge("util_pct_avg", "%", "Utilisation, mean."),
    gauge("util_pct_max", "%", "Utilisation, largest."),
    gauge("gr_engine_active_avg", "", "Share of time with the graphics or compute engine active, mean."),
    gauge("sm_active_avg", "", "Share of cycles with a warp on a multiprocessor, mean."),
    gauge("tensor_active_avg", "", "Share of cycles with the tensor pipe active, mean."),
    gauge("dram_active_avg", "", "Share of cycles with device memory active, mean."),
    gauge("sm_clock_mhz_avg", "MHz", "Clock of the multiprocessors, mean."),
    gauge("sm_clock_mhz_min", "MHz", "Clock of the multiprocessors, smallest."),
    gauge("temp_c_max", "Cel", "Temperature, largest."),
    gauge("mem_temp_c_max", "Cel", "Memory temperature, largest."),
    gauge("power_w_avg", "W", "Power, mean."),
    gauge("power_w_max", "W", "Power, largest."),
    gauge("fb_used_mib_max", "MiB", "Device memory in use, largest."),
    Column::new("throttle_reasons", TextList, "Clock event reasons that any of the samples had.").source("gpu_samples"),
    gauge("thermal_throttle_share", "", "Share of the samples with a thermal reason, 0 to 1."),
    Column::new("xids", TextList, "XID errors that appeared between the samples around the request.").source("gpu_samples"),
    Column::new(
        "xids_before",
        TextList,
        "XID errors that appeared in the minute before the request.",
    )
    .source("gpu_samples"),
    gauge("energy_j", "J", "Energy of the device between the samples around the request."),
    gauge("thermal_throttle_s", "s", "Time throttled by heat between the samples around the request."),
    gauge("power_throttle_s", "s", "Time throttled by power between the samples around the request."),
    gauge("ecc_dbe", "", "Uncorrectable memory errors between the samples around the request."),
    gauge("pcie_replays", "", "PCIe replays between the samples around the request."),
    gauge("nvlink_errors", "", "NVLink errors between the samples around the request."),
    gauge("counter_window_s", "s", "Time between the samples around the request, which the counters describe."),
    Column::new("counter_restart", Bool, "Whether a counter restarted in that time; its growth is the least then.").source("gpu_samples"),
    gauge("baseline_sm_clock_mhz", "MHz", "Clock of the same device while it worked in the minutes before, mean."),
    gauge("baseline_util_pct", "%", "Utilisation of the same device in the minutes before, mean."),
    gauge("baseline_power_w", "W", "Power of the same device in the minutes before, mean."),
    gauge("baseline_temp_c", "Cel", "Temperature of the same device in the minutes before, mean."),
    Column::new("baseline_sample_count", Int, "Samples of the minutes before.").source("gpu_samples"),
    gauge("peers_sm_clock_mhz_avg", "MHz", "Clock of the other devices of this request, mean."),
    Column::new("peer_count", Int, "Other devices of this request with samples.").source("placements"),
    Column::new("other_request_count", Int, "Other requests on the engine in that time, of all traffic.").source("requests"),
    Column::new("other_pod_count", Int, "Other pods that held the device in that time.").source("placements"),
    Column::new("complete", Bool, "Whether the device was sampled beyond the request's end when this was written.")
        .key()
        .source("computed"),
    Column::new("revision", Int, "0, and 1 where late samples completed it; the highest counts.").key().source("computed"),
];
