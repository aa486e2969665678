-- Question: How is the time of a request divided into queue, prefill and decode?
--   One row per request and measured phase; a phase that was not measured has no row. Rows that
--   restate another row (`wrapper`) are left out.
-- Columns:
--   trace_id: trace of the request
--   span_id: span of the engine
--   request_id: identifier that gateway and engine share
--   model: model that answered
--   start_time (UTC): when the engine received the request
--   phase_idx: 1, 2, 3 in the order of time
--   phase: queue, prefill or decode
--   offset_s (s): from the start of the request to the start of the phase; absent if an earlier phase is unknown
--   duration_s (s): length of the phase
--   share: part of e2e_s, 0 to 1
--   e2e_s (s): start to completion of the request
-- Example:
--   SELECT model, phase, approx_percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_s) AS p95_s
--   FROM request_phases WHERE start_time > now() - INTERVAL '1 hour' GROUP BY model, phase
SELECT
    trace_id,
    span_id,
    request_id,
    model,
    start_time,
    phase_idx,
    phase,
    offset_s,
    duration_s,
    CASE WHEN e2e_s > 0 THEN duration_s / e2e_s END AS share,
    e2e_s
FROM (
    SELECT
        trace_id,
        span_id,
        request_id,
        model,
        start_time,
        phase_idx,
        phase,
        CASE phase
            WHEN 'queue' THEN 0.0
            WHEN 'prefill' THEN queue_s
            WHEN 'decode' THEN queue_s + prefill_s
        END AS offset_s,
        CASE phase
            WHEN 'queue' THEN queue_s
            WHEN 'prefill' THEN prefill_s
            WHEN 'decode' THEN decode_s
        END AS duration_s,
        e2e_s
    FROM (VALUES (1, 'queue'), (2, 'prefill'), (3, 'decode')) AS phases (phase_idx, phase)
    CROSS JOIN requests
    WHERE NOT wrapper
)
WHERE duration_s IS NOT NULL
