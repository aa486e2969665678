-- Question: Which call did an engine request answer, and how is that known?
--   One row per engine request and call: those of one trace, and those that were stitched over traces by
--   request id because the trace context was lost.
-- Columns:
--   engine_trace_id: trace of the engine request
--   engine_span_id: span of the engine
--   call_trace_id: trace of the call
--   call_span_id: span of the call
--   link_method: trace (ancestor), trace_time (in one trace, by time) or request_id (stitched)
--   clock_skew_s (s): how far the engine's clock seems ahead of the call's; absent where nothing contradicts equal clocks
--   request_id_normalised: what both know the request by, where a call names it
-- Example:
--   SELECT link_method, count(*) AS links FROM request_links GROUP BY link_method
SELECT
    trace_id AS engine_trace_id,
    span_id AS engine_span_id,
    trace_id AS call_trace_id,
    call_span_id,
    link_method,
    clock_skew_s,
    request_id_normalised
FROM requests
WHERE call_span_id IS NOT NULL
UNION ALL
SELECT
    unnest(engine_trace_ids) AS engine_trace_id,
    unnest(engine_span_ids) AS engine_span_id,
    trace_id AS call_trace_id,
    span_id AS call_span_id,
    link_method,
    clock_skew_s,
    request_id_normalised
FROM requests
WHERE engine_span_ids IS NOT NULL
