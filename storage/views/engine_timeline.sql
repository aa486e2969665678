-- Question: What did an inference engine do, sample by sample?
--   One row per scrape and engine. Gauges are as they were at the scrape; everything per second, and every count, is
--   about the time since the sample before (`interval_s`). The first sample of an engine has neither.
-- Columns:
--   time (UTC): when it was scraped
--   engine: vllm or sglang
--   model: model that it serves
--   service_name: scrape job
--   service_instance_id: scrape target
--   k8s_namespace_name: namespace
--   k8s_pod_name: pod
--   k8s_node_name: node
--   engine_index: index among the data-parallel engines of a server
--   rank: rank or replica, where each has its own series
--   interval_s (s): time since the sample before; absent for the first
--   requests_running (requests): in execution batches at the scrape
--   requests_waiting (requests): waiting to be scheduled at the scrape
--   kv_cache_usage: share of the KV cache in use at the scrape, 0 to 1
--   input_tokens_per_s (tokens/s): prompt tokens processed
--   output_tokens_per_s (tokens/s): tokens generated
--   requests_finished_per_s (requests/s): requests that ended, for whatever reason
--   requests_aborted (requests): of them, aborted
--   requests_failed (requests): of them, failed
--   admission_rejections (requests): requests that were not admitted
--   preemptions: requests thrown out of the batch for lack of KV cache
--   recomputed_tokens (tokens): prompt tokens computed again
--   prefix_cache_hit_ratio: share of the tokens looked up that were found, 0 to 1; absent if none was looked up
--   external_prefix_cache_hit_ratio: the same of the external prefix cache
--   steps_per_s (1/s): engine steps
--   tokens_per_step (tokens): tokens of a step, mean
--   step_tokens_max_le (tokens): upper bound of the largest step: long prefills show here
--   counter_reset: a counter fell: the engine was started anew, and counts are those since then, so rates are the least
-- Example:
--   SELECT time, k8s_pod_name, requests_running, requests_waiting, kv_cache_usage, output_tokens_per_s, preemptions
--   FROM engine_timeline WHERE time > now() - INTERVAL '15 minutes' ORDER BY k8s_pod_name, time
SELECT
    time,
    engine,
    model,
    service_name,
    service_instance_id,
    k8s_namespace_name,
    k8s_pod_name,
    k8s_node_name,
    engine_index,
    rank,
    interval_ns / 1e9 AS interval_s,
    requests_running,
    requests_waiting,
    kv_cache_usage,
    CASE WHEN interval_ns > 0 THEN prompt_tokens_delta * 1e9 / interval_ns END AS input_tokens_per_s,
    CASE WHEN interval_ns > 0 THEN generation_tokens_delta * 1e9 / interval_ns END AS output_tokens_per_s,
    CASE WHEN interval_ns > 0 THEN requests_finished_delta * 1e9 / interval_ns END AS requests_finished_per_s,
    requests_aborted_delta AS requests_aborted,
    requests_failed_delta AS requests_failed,
    admission_rejections_delta AS admission_rejections,
    preemptions_delta AS preemptions,
    prompt_tokens_recomputed_delta AS recomputed_tokens,
    CASE WHEN prefix_cache_queries_delta > 0
        THEN prefix_cache_hits_delta / CAST(prefix_cache_queries_delta AS DOUBLE)
    END AS prefix_cache_hit_ratio,
    CASE WHEN external_prefix_cache_queries_delta > 0
        THEN external_prefix_cache_hits_delta / CAST(external_prefix_cache_queries_delta AS DOUBLE)
    END AS external_prefix_cache_hit_ratio,
    CASE WHEN interval_ns > 0 THEN iterations_delta * 1e9 / interval_ns END AS steps_per_s,
    CASE WHEN iterations_delta > 0 THEN iteration_tokens_delta / CAST(iterations_delta AS DOUBLE) END AS tokens_per_step,
    iteration_tokens_max_le AS step_tokens_max_le,
    coalesce(array_has(quality, 'counter_reset'), false) AS counter_reset
FROM engine_samples
