-- Question: What happened in a trace, in the order of time?
--   One row per span. Times are as recorded; clocks of different hosts may disagree, so a span may seem
--   to begin before its parent.
-- Columns:
--   trace_id: trace
--   span_id: span
--   parent_span_id: span that called it; absent for a root
--   service_name: service that recorded it
--   name: name of the span
--   kind: INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER or UNSPECIFIED
--   start_time (UTC): when it began
--   offset_ms (ms): from the first start in the trace to its start
--   duration_ms (ms): its length; absent if it has no end
--   status_code: UNSET, OK or ERROR
--   status_message: what the service said of the error
--   k8s_pod_name: pod that recorded it
--   late: it arrived after its trace was decided
-- Example:
--   SELECT offset_ms, duration_ms, service_name, name, status_code FROM trace_timeline
--   WHERE trace_id = '4bf92f3577b34da6a3ce929d0e0e4736'
SELECT
    trace_id,
    span_id,
    parent_span_id,
    service_name,
    name,
    kind,
    start_time,
    (start_time_unix_nano - min(start_time_unix_nano) OVER (PARTITION BY trace_id)) / 1000000.0
        AS offset_ms,
    duration_ns / 1000000.0 AS duration_ms,
    status_code,
    status_message,
    k8s_pod_name,
    late
FROM spans
ORDER BY trace_id, start_time_unix_nano
