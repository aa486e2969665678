-- Question: On which GPUs were the kept requests slow, and what did these GPUs do?
--   One row per window of 5 minutes, device and attribution, slowest first. Evidence exists for kept requests only, and slow and
--   failed ones are kept first: quantiles are weighted by the traces that each kept one stands for. What a device did is
--   said of the device: `attribution` tells whether others shared it (`shared_batch`, `shared_gpu`), or whether the device is
--   not even known (`node_only`, `unmapped`; then `missing_link` says why). A request that ran on several GPUs is a request of
--   each: do not add up over devices. Values of devices are extremes: requests that overlap share the same samples.
-- Columns:
--   window_start (UTC): start of the 5 minutes in which the requests began
--   k8s_node_name: node
--   gpu_uuid: GPU; absent for node_only and unmapped
--   mig_instance: GPU instance id of a MIG instance
--   attribution: exclusive, shared_batch, shared_gpu, node_only or unmapped
--   missing_link: where the chain to the device breaks: pod, pod_ambiguous, placement or gpu_samples; absent where it holds
--   requests (requests): kept engine requests
--   ok (requests): of them, those that ended well
--   unweighted (requests): of the ok ones, those of which it is not known how many they stand for; they are in no quantile
--   represented (requests): requests of all traffic that the ok ones stand for, where known
--   e2e_p50_s (s): start to completion of the ok ones, median
--   e2e_p95_s (s): start to completion of the ok ones, 95th percentile
--   e2e_max_s (s): start to completion, longest of the kept and ok ones
--   tpot_p50_s (s): time per output token after the first, median
--   tpot_p95_s (s): time per output token after the first, 95th percentile
--   sample_count_min: fewest samples of the device in the time of one of the requests; 0: only one nearby
--   coverage_min: smallest share of the time of one of the requests that samples describe, 0 to 1
--   throttled (requests): requests in whose time a sample had a thermal reason
--   thermal_throttle_share_max: largest share of samples with a thermal reason in the time of a request, 0 to 1
--   sm_clock_mhz_min (MHz): lowest clock in the time of a request
--   clock_to_baseline_min: smallest mean clock in the time of a request, by the clock of the same device at work before
--   temp_c_max (Cel): highest temperature in the time of a request
--   power_w_max (W): highest power in the time of a request
--   with_xid (requests): requests in whose time an XID error appeared
--   other_pods_max: most other pods that held the device in the time of a request
-- Example:
--   SELECT gpu_uuid, attribution, requests, e2e_p95_s, tpot_p95_s, throttled, clock_to_baseline_min, with_xid
--   FROM slowest_gpus WHERE window_start > now() - INTERVAL '1 hour' LIMIT 20
SELECT
    date_bin(INTERVAL '5 minutes', requests.start_time) AS window_start,
    seen.k8s_node_name,
    seen.gpu_uuid,
    seen.mig_instance,
    seen.attribution,
    seen.missing_link,
    count(*) AS requests,
    count(*) FILTER (WHERE requests.outcome = 'ok') AS ok,
    count(*) FILTER (WHERE requests.outcome = 'ok' AND weights.adjusted_count IS NULL) AS unweighted,
    sum(weights.adjusted_count) FILTER (WHERE requests.outcome = 'ok') AS represented,
    approx_percentile_cont_with_weight(weights.adjusted_count, 0.5) WITHIN GROUP (ORDER BY requests.e2e_s)
        FILTER (WHERE requests.outcome = 'ok' AND weights.adjusted_count IS NOT NULL AND requests.e2e_s IS NOT NULL)
        AS e2e_p50_s,
    approx_percentile_cont_with_weight(weights.adjusted_count, 0.95) WITHIN GROUP (ORDER BY requests.e2e_s)
        FILTER (WHERE requests.outcome = 'ok' AND weights.adjusted_count IS NOT NULL AND requests.e2e_s IS NOT NULL)
        AS e2e_p95_s,
    max(requests.e2e_s) FILTER (WHERE requests.outcome = 'ok') AS e2e_max_s,
    approx_percentile_cont_with_weight(weights.adjusted_count, 0.5) WITHIN GROUP (ORDER BY requests.tpot_s)
        FILTER (WHERE requests.outcome = 'ok' AND weights.adjusted_count IS NOT NULL AND requests.tpot_s IS NOT NULL)
        AS tpot_p50_s,
    approx_percentile_cont_with_weight(weights.adjusted_count, 0.95) WITHIN GROUP (ORDER BY requests.tpot_s)
        FILTER (WHERE requests.outcome = 'ok' AND weights.adjusted_count IS NOT NULL AND requests.tpot_s IS NOT NULL)
        AS tpot_p95_s,
    min(seen.sample_count) AS sample_count_min,
    min(seen.coverage) AS coverage_min,
    count(*) FILTER (WHERE seen.thermal_throttle_share > 0) AS throttled,
    max(seen.thermal_throttle_share) AS thermal_throttle_share_max,
    min(seen.sm_clock_mhz_min) AS sm_clock_mhz_min,
    min(seen.sm_clock_mhz_avg / nullif(seen.baseline_sm_clock_mhz, 0)) AS clock_to_baseline_min,
    max(seen.temp_c_max) AS temp_c_max,
    max(seen.power_w_max) AS power_w_max,
    count(*) FILTER (WHERE cardinality(seen.xids) > 0) AS with_xid,
    max(seen.other_pod_count) AS other_pods_max
FROM requests
JOIN gpu_evidence AS seen
    ON requests.trace_id = seen.trace_id
    AND requests.span_id = seen.span_id
LEFT JOIN (
    SELECT trace_id, max(adjusted_count) AS adjusted_count
    FROM traces
    WHERE decision = 'sampled'
    GROUP BY trace_id
) AS weights
    ON requests.trace_id = weights.trace_id
WHERE requests.position = 'engine'
    AND NOT requests.wrapper
    AND requests.decision = 'sampled'
GROUP BY
    date_bin(INTERVAL '5 minutes', requests.start_time), seen.k8s_node_name, seen.gpu_uuid, seen.mig_instance,
    seen.attribution, seen.missing_link
ORDER BY e2e_p95_s DESC NULLS LAST
