// The statements of the trace view. Times in nanoseconds are asked for as they are and made differences here, where they
// fit into a number.

import { quoted } from "../api";

/** Samples around the request's time, so that there is one before and one after. */
const AROUND_NS = 35_000_000_000n;

/** Requests of the same engine, drawn at most. */
export const NEIGHBOURS_MAX = 400;

/** Events that stand for a chunk of the answer. */
const CHUNK_EVENTS = "'gen_ai.content.completion.chunk', 'llm.content.completion.chunk'";

export function trace(traceId: string): string {
  return (
    "SELECT root_service_name, root_name, start_time, duration_ns, span_count, error_span_count, decision, policy, trigger,\n" +
    `  complete, loss_flags, adjusted_count, stored FROM traces\nWHERE trace_id = ${quoted(traceId)} ORDER BY decided_time DESC LIMIT 1`
  );
}

export function spans(traceId: string): string {
  return (
    "SELECT span_id, parent_span_id, name, kind, service_name, k8s_pod_name, service_instance_id, start_time_unix_nano, end_time_unix_nano,\n" +
    `  status_code, status_message, late FROM spans\nWHERE trace_id = ${quoted(traceId)} ORDER BY start_time_unix_nano`
  );
}

/** Events of chunks, where a service records them so. */
export function chunks(traceId: string): string {
  return (
    "SELECT span_id, event['time_unix_nano'] AS time_unix_nano FROM (\n" +
    `  SELECT span_id, unnest(events) AS event FROM spans WHERE trace_id = ${quoted(traceId)} AND events IS NOT NULL\n)\n` +
    `WHERE event['name'] IN (${CHUNK_EVENTS}) ORDER BY span_id, time_unix_nano`
  );
}

export function requests(traceId: string): string {
  return (
    "SELECT span_id, position, model, engine, service_name, k8s_pod_name, k8s_pod_uid, service_instance_id, request_id, outcome, finish_reason,\n" +
    "  start_time_unix_nano, duration_ns, e2e_s, engine_ttft_s, tpot_s, queue_s, prefill_s, decode_s, input_tokens, output_tokens,\n" +
    "  cached_tokens, concurrent_requests, clock_skew_s, link_method, quality, wrapper\n" +
    `FROM requests WHERE trace_id = ${quoted(traceId)} ORDER BY position = 'engine' DESC, e2e_s DESC NULLS LAST`
  );
}

export function evidence(traceId: string): string {
  return (
    "SELECT span_id, gpu_uuid, mig_instance, tp_rank, attribution, missing_link, placement_source, placement_disputed, k8s_pod_name, k8s_node_name,\n" +
    "  start_time_unix_nano, duration_ns, method, sample_count, coverage, resolution, sample_interval_s, util_pct_avg, sm_clock_mhz_avg,\n" +
    "  sm_clock_mhz_min, baseline_sm_clock_mhz, thermal_throttle_share, throttle_reasons, xids, xids_before, temp_c_max, other_request_count,\n" +
    `  other_pod_count, complete, revision\nFROM gpu_evidence WHERE trace_id = ${quoted(traceId)} ORDER BY gpu_uuid, start_time_unix_nano`
  );
}

/** How much engine time each request of the trace took, where batches were told. */
export function gpuTime(traceId: string): string {
  return `SELECT * FROM request_gpu_time WHERE trace_id = ${quoted(traceId)}`;
}

export interface Window {
  from: bigint;
  to: bigint;
}

function around({ from, to }: Window): string {
  return `BETWEEN ${from - AROUND_NS} AND ${to + AROUND_NS}`;
}

export function gpuSamples(gpus: string[], window: Window): string {
  return (
    "SELECT gpu_uuid, mig_instance, time_unix_nano, util_pct, sm_clock_mhz, temp_c, power_w, throttle_mask, array_to_string(xid_events, ' ') AS xids\n" +
    `FROM gpu_samples WHERE gpu_uuid IN (${gpus.map(quoted).join(", ")})\n  AND time_unix_nano ${around(window)}\nORDER BY gpu_uuid, time_unix_nano`
  );
}

/** Samples of the engines that this trace's requests ran on; where samples name neither pod nor instance that we know, all. */
export function engineSamples(names: EngineNames, window: Window): string {
  return (
    "SELECT coalesce(k8s_pod_name, service_instance_id, service_name) AS engine, time_unix_nano, requests_running, requests_waiting,\n" +
    "  kv_cache_usage * 100 AS kv_pct, preemptions_delta AS preemptions, iteration_tokens_max_le\n" +
    `FROM engine_samples WHERE time_unix_nano ${around(window)}\n  AND (${isEngine(names)} OR k8s_pod_name IS NULL)\nORDER BY engine, time_unix_nano`
  );
}

export interface EngineNames {
  pods: string[];
  instances: string[];
}

function isEngine({ pods, instances }: EngineNames): string {
  const one = (column: string, values: string[]) => (values.length > 0 ? [`${column} IN (${values.map(quoted).join(", ")})`] : []);
  return [...one("k8s_pod_name", pods), ...one("service_instance_id", instances)].join(" OR ") || "false";
}

/** Other requests on the same engines in the window, of all traffic. */
export function neighbours(names: EngineNames, window: Window, spanIds: string[]): string {
  return (
    "SELECT trace_id, span_id, decision, outcome, start_time_unix_nano, duration_ns, queue_s, prefill_s, decode_s, input_tokens, output_tokens\n" +
    `FROM requests WHERE position = 'engine' AND NOT wrapper AND (${isEngine(names)})\n` +
    `  AND start_time_unix_nano BETWEEN ${window.from - 600_000_000_000n} AND ${window.to}\n` +
    `  AND start_time_unix_nano + duration_ns >= ${window.from}\n  AND span_id NOT IN (${spanIds.map(quoted).join(", ") || "''"})\n` +
    `ORDER BY start_time_unix_nano LIMIT ${NEIGHBOURS_MAX}`
  );
}

export function oneSpan(traceId: string, spanId: string): string {
  return `SELECT * FROM spans WHERE trace_id = ${quoted(traceId)} AND span_id = ${quoted(spanId)}`;
}
