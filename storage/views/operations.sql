-- Question: What did a caller ask for, how often was it tried, and what did it get?
--   One row per operation: what arrived at a gateway's door, else a call, else an engine request of which
--   no call is known. Its attempts, choices and halves are together here. Rows that restate another row (`wrapper`) are
--   left out.
-- Columns:
--   trace_id: trace of the operation
--   operation_span_id: span of what arrived at the door, of the call, or of the engine request
--   start_time (UTC): start of its first attempt
--   engine_requests (requests): requests that engines ran for it
--   attempts (attempts): how often it was tried; absent where no call is known
--   failed_attempts (requests): requests and calls that did not end well
--   outcome: how its last attempt ended
--   k8s_pod_names: pods of the engines, comma separated; absent where none is named
--   operation_ttft_s (s): from its start to the first token that its caller got
--   input_tokens (tokens): length of the prompt
--   output_tokens (tokens): output that its caller got, all choices together
--   input_tokens_computed (tokens): prompts of all its engine requests
--   output_tokens_computed (tokens): output of all its engine requests
-- Example:
--   SELECT trace_id, attempts, failed_attempts, output_tokens, output_tokens_computed
--   FROM operations WHERE attempts > 1 ORDER BY start_time DESC LIMIT 20
SELECT
    trace_id,
    coalesce(operation_span_id, call_span_id, span_id) AS operation_span_id,
    min(start_time) AS start_time,
    count(*) FILTER (WHERE position = 'engine') AS engine_requests,
    max(attempts) AS attempts,
    count(*) FILTER (WHERE outcome <> 'ok') AS failed_attempts,
    first_value(outcome ORDER BY superseded, start_time DESC) AS outcome,
    nullif(array_to_string(array_sort(array_agg(DISTINCT k8s_pod_name) FILTER (WHERE position = 'engine')), ','), '')
        AS k8s_pod_names,
    min(operation_ttft_s) AS operation_ttft_s,
    sum(input_tokens) FILTER (WHERE NOT superseded AND coalesce(choice, 1) = 1) AS input_tokens,
    sum(output_tokens) FILTER (WHERE NOT superseded) AS output_tokens,
    sum(input_tokens) FILTER (WHERE position = 'engine') AS input_tokens_computed,
    sum(output_tokens) FILTER (WHERE position = 'engine') AS output_tokens_computed
FROM requests
WHERE NOT wrapper
GROUP BY trace_id, coalesce(operation_span_id, call_span_id, span_id)
