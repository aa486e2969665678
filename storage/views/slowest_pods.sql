-- Question: Which pods answer slower than the others of the same model, and in which phase?
--   One row per window of 5 minutes, model and pod of an engine, slowest first, over all traffic, kept or not. Times are of
--   requests that ended well, also of those whose caller got another's output. Quantiles are of the requests of
--   one window: they cannot be averaged over windows; for a longer time ask `requests`. A row without a pod
--   is of requests whose spans name none.
-- Columns:
--   window_start (UTC): start of the 5 minutes in which the requests began
--   model: model
--   k8s_namespace_name: namespace
--   k8s_pod_name: pod of the engine
--   k8s_node_name: node
--   requests (requests): engine requests
--   ok (requests): of them, those that ended well
--   failed (requests): of them, those with outcome error or no_output
--   cancelled (requests): of them, those that were given up
--   e2e_p50_s (s): start to completion, median
--   e2e_p95_s (s): start to completion, 95th percentile
--   e2e_max_s (s): start to completion, longest
--   engine_ttft_p95_s (s): start to first output, 95th percentile
--   queue_p95_s (s): waiting for a place in the batch, 95th percentile
--   prefill_p95_s (s): reading the prompt, 95th percentile
--   tpot_p50_s (s): time per output token after the first, median: it hardly depends on the length of answers
--   tpot_p95_s (s): time per output token after the first, 95th percentile
--   input_tokens_avg (tokens): length of the prompts, mean: pods with longer prompts are slower for that
--   output_tokens_avg (tokens): length of the answers, mean
--   concurrent_requests_avg (requests): requests on the same engine when they began, mean
--   model_pods: pods that served the model in the window
--   model_e2e_p95_s (s): 95th percentile of the model's requests on all pods in the window
--   model_tpot_p50_s (s): median time per output token of the model's requests on all pods in the window
-- Example:
--   SELECT window_start, model, k8s_pod_name, ok, e2e_p95_s, model_e2e_p95_s, tpot_p50_s, model_tpot_p50_s
--   FROM slowest_pods WHERE window_start > now() - INTERVAL '1 hour' AND ok >= 20 LIMIT 20
SELECT
    pods.window_start,
    pods.model,
    pods.k8s_namespace_name,
    pods.k8s_pod_name,
    pods.k8s_node_name,
    pods.requests,
    pods.ok,
    pods.failed,
    pods.cancelled,
    pods.e2e_p50_s,
    pods.e2e_p95_s,
    pods.e2e_max_s,
    pods.engine_ttft_p95_s,
    pods.queue_p95_s,
    pods.prefill_p95_s,
    pods.tpot_p50_s,
    pods.tpot_p95_s,
    pods.input_tokens_avg,
    pods.output_tokens_avg,
    pods.concurrent_requests_avg,
    models.model_pods,
    models.model_e2e_p95_s,
    models.model_tpot_p50_s
FROM (
    SELECT
        date_bin(INTERVAL '5 minutes', start_time) AS window_start,
        model,
        k8s_namespace_name,
        k8s_pod_name,
        k8s_node_name,
        count(*) AS requests,
        count(*) FILTER (WHERE outcome = 'ok') AS ok,
        count(*) FILTER (WHERE outcome IN ('error', 'no_output')) AS failed,
        count(*) FILTER (WHERE outcome = 'cancelled') AS cancelled,
        approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY e2e_s) FILTER (WHERE outcome = 'ok') AS e2e_p50_s,
        approx_percentile_cont(0.95) WITHIN GROUP (ORDER BY e2e_s) FILTER (WHERE outcome = 'ok') AS e2e_p95_s,
        max(e2e_s) FILTER (WHERE outcome = 'ok') AS e2e_max_s,
        approx_percentile_cont(0.95) WITHIN GROUP (ORDER BY engine_ttft_s) FILTER (WHERE outcome = 'ok')
            AS engine_ttft_p95_s,
        approx_percentile_cont(0.95) WITHIN GROUP (ORDER BY queue_s) FILTER (WHERE outcome = 'ok') AS queue_p95_s,
        approx_percentile_cont(0.95) WITHIN GROUP (ORDER BY prefill_s) FILTER (WHERE outcome = 'ok') AS prefill_p95_s,
        approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY tpot_s) FILTER (WHERE outcome = 'ok') AS tpot_p50_s,
        approx_percentile_cont(0.95) WITHIN GROUP (ORDER BY tpot_s) FILTER (WHERE outcome = 'ok') AS tpot_p95_s,
        avg(input_tokens) FILTER (WHERE outcome = 'ok') AS input_tokens_avg,
        avg(output_tokens) FILTER (WHERE outcome = 'ok') AS output_tokens_avg,
        avg(concurrent_requests) FILTER (WHERE outcome = 'ok') AS concurrent_requests_avg
    FROM requests
    WHERE position = 'engine' AND NOT wrapper
    GROUP BY
        date_bin(INTERVAL '5 minutes', start_time), model, k8s_namespace_name, k8s_pod_name, k8s_node_name
) AS pods
JOIN (
    SELECT
        date_bin(INTERVAL '5 minutes', start_time) AS window_start,
        model,
        count(DISTINCT concat(coalesce(k8s_namespace_name, ''), '/', k8s_pod_name))
            FILTER (WHERE k8s_pod_name IS NOT NULL) AS model_pods,
        approx_percentile_cont(0.95) WITHIN GROUP (ORDER BY e2e_s) FILTER (WHERE outcome = 'ok') AS model_e2e_p95_s,
        approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY tpot_s) FILTER (WHERE outcome = 'ok') AS model_tpot_p50_s
    FROM requests
    WHERE position = 'engine' AND NOT wrapper
    GROUP BY date_bin(INTERVAL '5 minutes', start_time), model
) AS models
    ON pods.window_start = models.window_start
    AND pods.model IS NOT DISTINCT FROM models.model
ORDER BY pods.e2e_p95_s DESC NULLS LAST
