-- Question: What did the GPUs of a request do in its time, as far as is known by now?
--   The rows of `evidence` that count: where late samples completed those of a request, the later ones (`revision` 1)
--   in place of the first.
-- Columns:
--   trace_id: trace, 32 hex digits
--   span_id: engine span, 16 hex digits
--   k8s_pod_name: pod of the engine
--   k8s_node_name: node of the engine
--   gpu_uuid: GPU, GPU- and lower-case hex; NULL where none is known
--   mig_instance: GPU instance id of a MIG instance
--   dp_rank: data parallel rank of the worker
--   pp_rank: pipeline parallel rank of the worker
--   tp_rank: tensor parallel rank of the worker
--   attribution: exclusive, shared_batch (other requests ran on the engine), shared_gpu (other pods held the device), node_only or unmapped
--   missing_link: where the chain breaks: pod, pod_ambiguous, placement or gpu_samples; NULL where it holds
--   placement_source: who placed the pod: reported, pod_resources, exporter_labels or static_file
--   placement_disputed: whether another source places the pod elsewhere
--   start_time: start of the request's time on the device
--   start_time_unix_nano (ns): the same, exact
--   duration_ns (ns): length of its time on the device
--   method: within: samples taken in that time; nearest: the one sample near it
--   nearest_sample_s (s): distance of that one sample
--   sample_count: samples taken in that time
--   coverage: share of that time that samples describe, 0 to 1
--   resolution: window_larger_than_request where the time between samples is longer than the request
--   sample_interval_s (s): usual time between samples of the device
--   util_pct_avg (%): utilisation, mean
--   util_pct_max (%): utilisation, largest
--   gr_engine_active_avg: share of time with the graphics or compute engine active, mean
--   sm_active_avg: share of cycles with a warp on a multiprocessor, mean
--   tensor_active_avg: share of cycles with the tensor pipe active, mean
--   dram_active_avg: share of cycles with device memory active, mean
--   sm_clock_mhz_avg (MHz): clock of the multiprocessors, mean
--   sm_clock_mhz_min (MHz): clock of the multiprocessors, smallest
--   temp_c_max (Cel): temperature, largest
--   mem_temp_c_max (Cel): memory temperature, largest
--   power_w_avg (W): power, mean
--   power_w_max (W): power, largest
--   fb_used_mib_max (MiB): device memory in use, largest
--   throttle_reasons: clock event reasons that any of the samples had
--   thermal_throttle_share: share of the samples with a thermal reason, 0 to 1
--   xids: XID errors that appeared between the samples around the request
--   xids_before: XID errors that appeared in the minute before the request
--   energy_j (J): energy of the device between the samples around the request
--   thermal_throttle_s (s): time throttled by heat between the samples around the request
--   power_throttle_s (s): time throttled by power between the samples around the request
--   ecc_dbe: uncorrectable memory errors between the samples around the request
--   pcie_replays: PCIe replays between the samples around the request
--   nvlink_errors: NVLink errors between the samples around the request
--   counter_window_s (s): time between the samples around the request, which the counters describe
--   counter_restart: whether a counter restarted in that time; its growth is the least then
--   baseline_sm_clock_mhz (MHz): clock of the same device while it worked in the minutes before, mean
--   baseline_util_pct (%): utilisation of the same device in the minutes before, mean
--   baseline_power_w (W): power of the same device in the minutes before, mean
--   baseline_temp_c (Cel): temperature of the same device in the minutes before, mean
--   baseline_sample_count: samples of the minutes before
--   peers_sm_clock_mhz_avg (MHz): clock of the other devices of this request, mean
--   peer_count: other devices of this request with samples
--   other_request_count: other requests on the engine in that time, of all traffic
--   other_pod_count: other pods that held the device in that time
--   complete: whether the device was sampled beyond the request's end when this was written
--   revision: 0, and 1 where late samples completed it; the highest counts
-- Example:
--   SELECT trace_id, gpu_uuid, thermal_throttle_share, sm_clock_mhz_avg, baseline_sm_clock_mhz, missing_link
--   FROM gpu_evidence WHERE start_time > now() - INTERVAL '1 hour' ORDER BY start_time DESC LIMIT 20
SELECT
    evidence.trace_id,
    evidence.span_id,
    evidence.k8s_pod_name,
    evidence.k8s_node_name,
    evidence.gpu_uuid,
    evidence.mig_instance,
    evidence.dp_rank,
    evidence.pp_rank,
    evidence.tp_rank,
    evidence.attribution,
    evidence.missing_link,
    evidence.placement_source,
    evidence.placement_disputed,
    evidence.start_time,
    evidence.start_time_unix_nano,
    evidence.duration_ns,
    evidence.method,
    evidence.nearest_sample_s,
    evidence.sample_count,
    evidence.coverage,
    evidence.resolution,
    evidence.sample_interval_s,
    evidence.util_pct_avg,
    evidence.util_pct_max,
    evidence.gr_engine_active_avg,
    evidence.sm_active_avg,
    evidence.tensor_active_avg,
    evidence.dram_active_avg,
    evidence.sm_clock_mhz_avg,
    evidence.sm_clock_mhz_min,
    evidence.temp_c_max,
    evidence.mem_temp_c_max,
    evidence.power_w_avg,
    evidence.power_w_max,
    evidence.fb_used_mib_max,
    evidence.throttle_reasons,
    evidence.thermal_throttle_share,
    evidence.xids,
    evidence.xids_before,
    evidence.energy_j,
    evidence.thermal_throttle_s,
    evidence.power_throttle_s,
    evidence.ecc_dbe,
    evidence.pcie_replays,
    evidence.nvlink_errors,
    evidence.counter_window_s,
    evidence.counter_restart,
    evidence.baseline_sm_clock_mhz,
    evidence.baseline_util_pct,
    evidence.baseline_power_w,
    evidence.baseline_temp_c,
    evidence.baseline_sample_count,
    evidence.peers_sm_clock_mhz_avg,
    evidence.peer_count,
    evidence.other_request_count,
    evidence.other_pod_count,
    evidence.complete,
    evidence.revision
FROM evidence
LEFT ANTI JOIN (SELECT trace_id, span_id FROM evidence WHERE revision > 0) AS completed
    ON evidence.trace_id = completed.trace_id
    AND evidence.span_id = completed.span_id
    AND evidence.revision = 0
