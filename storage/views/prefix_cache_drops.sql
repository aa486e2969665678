-- Question: When did an engine find fewer prompt tokens in its prefix cache than it had just before?
--   One row per engine and window of 5 minutes in which the hit ratio was at least 0.1 below that of the same engine in the
--   hour before. Ratios are of sums of counters: tokens found by tokens looked up.
-- Columns:
--   window_start (UTC): start of the 5 minutes
--   engine: vllm or sglang
--   model: model that it serves
--   service_name: scrape job
--   service_instance_id: scrape target
--   k8s_namespace_name: namespace
--   k8s_pod_name: pod
--   engine_index: index among the data-parallel engines of a server
--   rank: rank or replica, where each has its own series
--   queries (tokens): looked up in the window (blocks in old engines)
--   hits (tokens): of them, found
--   hit_ratio: share that was found, 0 to 1
--   baseline_queries (tokens): looked up in the hour before
--   baseline_hit_ratio: share of these that was found
--   hit_ratio_drop: baseline_hit_ratio less hit_ratio
--   preemptions: requests thrown out of the batch in the window for lack of KV cache
--   kv_cache_usage_max: largest share of the KV cache in use at a scrape of the window, 0 to 1
--   counter_reset: the engine was started anew in the window: its cache was empty then
-- Example:
--   SELECT window_start, k8s_pod_name, baseline_hit_ratio, hit_ratio, preemptions, counter_reset
--   FROM prefix_cache_drops WHERE window_start > now() - INTERVAL '6 hours' ORDER BY hit_ratio_drop DESC LIMIT 20
SELECT
    window_start,
    engine,
    model,
    service_name,
    service_instance_id,
    k8s_namespace_name,
    k8s_pod_name,
    engine_index,
    rank,
    queries,
    hits,
    hits / CAST(queries AS DOUBLE) AS hit_ratio,
    baseline_queries,
    baseline_hits / CAST(baseline_queries AS DOUBLE) AS baseline_hit_ratio,
    baseline_hits / CAST(baseline_queries AS DOUBLE) - hits / CAST(queries AS DOUBLE) AS hit_ratio_drop,
    preemptions,
    kv_cache_usage_max,
    counter_reset
FROM (
    SELECT
        *,
        sum(queries) OVER hour_before AS baseline_queries,
        sum(hits) OVER hour_before AS baseline_hits
    FROM (
        SELECT
            date_bin(INTERVAL '5 minutes', time) AS window_start,
            engine,
            model,
            service_name,
            service_instance_id,
            k8s_namespace_name,
            k8s_pod_name,
            engine_index,
            rank,
            sum(prefix_cache_queries_delta) FILTER (WHERE prefix_cache_hits_delta IS NOT NULL) AS queries,
            sum(prefix_cache_hits_delta) FILTER (WHERE prefix_cache_queries_delta IS NOT NULL) AS hits,
            sum(preemptions_delta) AS preemptions,
            max(kv_cache_usage) AS kv_cache_usage_max,
            coalesce(bool_or(array_has(quality, 'counter_reset')), false) AS counter_reset
        FROM engine_samples
        GROUP BY
            date_bin(INTERVAL '5 minutes', time), engine, model, service_name, service_instance_id,
            k8s_namespace_name, k8s_pod_name, engine_index, rank
    )
    WINDOW hour_before AS (
        PARTITION BY
            engine, model, service_name, service_instance_id, k8s_namespace_name, k8s_pod_name, engine_index, rank
        ORDER BY window_start
        RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND INTERVAL '1 microsecond' PRECEDING
    )
)
WHERE queries > 0
    AND baseline_queries > 0
    AND baseline_hits / CAST(baseline_queries AS DOUBLE) - hits / CAST(queries AS DOUBLE) >= 0.1
