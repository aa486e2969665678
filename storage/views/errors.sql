-- Question: Which requests failed, of which class and where, and which were given up?
--   One row per window of 5 minutes, outcome, class, model and place, over all traffic, kept or not. Those that a caller or
--   the engine gave up (`cancelled`) are apart from failures. Rows that restate another row (`wrapper`) are left
--   out; a failure after which a later attempt answered is counted, and again in `retried`. Spans that failed
--   outside of calls to models are in `traces` (`error`).
-- Columns:
--   window_start (UTC): start of the 5 minutes in which the requests began
--   outcome: error, no_output or cancelled
--   failed: outcome is error or no_output; a cancelled request did not fail
--   error_type: class of the failure, as the span says it
--   http_status_code: HTTP status of the answer to the call, where one is known
--   finish_reason: why generation ended, where the engine says it
--   position: engine, or gateway or app for a call of which no engine request is known
--   model: model that was asked for, or that answered
--   service_name: service that reported it
--   k8s_namespace_name: namespace
--   k8s_pod_name: pod that reported it
--   requests (requests): how many
--   retried (requests): of them, those whose caller got the output of another attempt
--   kept (requests): of them, those whose trace was kept
--   first_time (UTC): start of the first of them
--   last_time (UTC): start of the last of them
--   example_trace_id: one of their traces: the latest that was kept, else the latest
--   example_is_kept: whether its spans are in `spans`
-- Example:
--   SELECT outcome, error_type, http_status_code, model, k8s_pod_name, sum(requests) AS requests, max(last_time) AS last_time
--   FROM errors WHERE failed AND window_start > now() - INTERVAL '1 hour'
--   GROUP BY outcome, error_type, http_status_code, model, k8s_pod_name ORDER BY requests DESC LIMIT 20
SELECT
    date_bin(INTERVAL '5 minutes', start_time) AS window_start,
    outcome,
    outcome <> 'cancelled' AS failed,
    error_type,
    http_status_code,
    finish_reason,
    position,
    model,
    service_name,
    k8s_namespace_name,
    k8s_pod_name,
    count(*) AS requests,
    count(*) FILTER (WHERE superseded) AS retried,
    count(*) FILTER (WHERE decision = 'sampled') AS kept,
    min(start_time) AS first_time,
    max(start_time) AS last_time,
    first_value(trace_id ORDER BY coalesce(decision = 'sampled', false) DESC, start_time DESC, span_id)
        AS example_trace_id,
    coalesce(bool_or(decision = 'sampled'), false) AS example_is_kept
FROM requests
WHERE outcome IN ('error', 'no_output', 'cancelled')
    AND NOT wrapper
GROUP BY
    date_bin(INTERVAL '5 minutes', start_time), outcome, error_type, http_status_code, finish_reason, position,
    model, service_name, k8s_namespace_name, k8s_pod_name
