-- Question: Which requests failed or were slow, and in which phase was the time spent?
--   Failed ones come first, then the slowest; among them a request without a measured duration comes
--   last. Rows that restate another row (`wrapper`) are left out. A call that reached no engine, or one
--   that reports nothing, is a row of the gateway's.
-- Columns:
--   start_time (UTC): when the engine, or the gateway, received the request
--   trace_id: trace to drill into
--   span_id: span of the engine, or of the call
--   position: engine; gateway or app for a call without an engine request
--   request_id: identifier that gateway and engine share
--   model: model that answered
--   service_name: service that ran the engine
--   k8s_pod_name: pod that ran the engine
--   outcome: ok, error, cancelled or no_output
--   failed: outcome is error or no_output; a cancelled request did not fail
--   finish_reason: why generation ended
--   error_type: class of the failure
--   e2e_s (s): start to completion
--   engine_ttft_s (s): start to first output, measured in the engine
--   queue_s (s): waiting for a place in the engine's batch
--   prefill_s (s): reading the prompt
--   decode_s (s): producing output after the first token
--   longest_phase: queue, prefill or decode, whichever took longest of those measured
--   longest_phase_s (s): how long it took
--   longest_phase_share: its part of e2e_s, 0 to 1
--   tpot_s (s): time per output token after the first; absent for a single token
--   input_tokens (tokens): length of the prompt
--   output_tokens (tokens): length of the answer
-- Example:
--   SELECT start_time, model, e2e_s, longest_phase, longest_phase_s, trace_id
--   FROM slow_requests WHERE start_time > now() - INTERVAL '1 hour' LIMIT 20
SELECT
    start_time,
    trace_id,
    span_id,
    position,
    request_id,
    model,
    service_name,
    k8s_pod_name,
    outcome,
    coalesce(outcome IN ('error', 'no_output'), false) AS failed,
    finish_reason,
    error_type,
    e2e_s,
    engine_ttft_s,
    queue_s,
    prefill_s,
    decode_s,
    CASE longest_phase_s
        WHEN queue_s THEN 'queue'
        WHEN prefill_s THEN 'prefill'
        WHEN decode_s THEN 'decode'
    END AS longest_phase,
    longest_phase_s,
    CASE WHEN e2e_s > 0 THEN longest_phase_s / e2e_s END AS longest_phase_share,
    tpot_s,
    input_tokens,
    output_tokens
FROM (
    SELECT *, greatest(queue_s, prefill_s, decode_s) AS longest_phase_s
    FROM requests
    WHERE NOT wrapper
)
ORDER BY failed DESC, e2e_s DESC NULLS LAST
