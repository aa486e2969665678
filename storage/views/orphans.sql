-- Question: Which traces are not whole, and which link is missing?
--   One row per missing link. `root`: no span without a parent was seen when the trace was decided (all traffic). `parent`: spans
--   name a parent that is not among the stored spans of the trace; one that came later is no longer missing. Of traces that
--   were not kept it is only known how many spans lacked theirs when they were decided. `engine_request`: a call was answered, and no engine request is known that answered it (all traffic): the
--   trace context and the request id were lost, or the engine reports nothing.
-- Columns:
--   trace_id: trace
--   start_time (UTC): start of the trace; for engine_request, of the call
--   missing: root, parent or engine_request
--   missing_span_id: the parent that is missing, of kept traces
--   span_id: the earliest span that names it; the call; absent for root
--   service_name: service of that span
--   name: name of that span; absent for a call
--   orphans (spans): spans that lack this link; for root, all of the trace when it was decided
--   decision: sampled, not_sampled or dropped
--   loss_flags: why the trace may not be whole, as far as is known here
-- Example:
--   SELECT missing, service_name, count(*) AS links, max(start_time) AS last_time, min(trace_id) AS example_trace_id
--   FROM orphans WHERE start_time > now() - INTERVAL '1 hour' GROUP BY missing, service_name ORDER BY links DESC
SELECT
    trace_id,
    start_time,
    'root' AS missing,
    CAST(NULL AS VARCHAR) AS missing_span_id,
    CAST(NULL AS VARCHAR) AS span_id,
    CAST(NULL AS VARCHAR) AS service_name,
    CAST(NULL AS VARCHAR) AS name,
    span_count AS orphans,
    decision,
    loss_flags
FROM traces
WHERE root_count = 0
UNION ALL
SELECT
    trace_id,
    start_time,
    'parent' AS missing,
    CAST(NULL AS VARCHAR) AS missing_span_id,
    CAST(NULL AS VARCHAR) AS span_id,
    CAST(NULL AS VARCHAR) AS service_name,
    CAST(NULL AS VARCHAR) AS name,
    orphan_count AS orphans,
    decision,
    loss_flags
FROM traces
WHERE orphan_count > 0 AND decision <> 'sampled'
UNION ALL
SELECT
    trace_id,
    start_time,
    'parent' AS missing,
    link['id'] AS missing_span_id,
    first_value(link['span_id'] ORDER BY link['start']) AS span_id,
    first_value(link['service_name'] ORDER BY link['start']) AS service_name,
    first_value(link['name'] ORDER BY link['start']) AS name,
    count(DISTINCT link['span_id']) AS orphans,
    decision,
    loss_flags
FROM (
    SELECT
        incomplete.trace_id,
        incomplete.start_time,
        incomplete.decision,
        incomplete.loss_flags,
        -- Each span is there under its own id, and names another.
        unnest(make_array(
            named_struct(
                'id', spans.span_id,
                'is_there', true,
                'span_id', spans.span_id,
                'start', spans.start_time_unix_nano,
                'service_name', spans.service_name,
                'name', spans.name
            ),
            named_struct(
                'id', spans.parent_span_id,
                'is_there', false,
                'span_id', spans.span_id,
                'start', spans.start_time_unix_nano,
                'service_name', spans.service_name,
                'name', spans.name
            )
        )) AS link
    FROM (
        -- The days before and after hold spans around midnight; no other files are read.
        SELECT trace_id, start_time, decision, loss_flags, date + days AS day
        FROM traces
        CROSS JOIN (VALUES (INTERVAL '-1 day'), (INTERVAL '0 days'), (INTERVAL '1 day')) AS around (days)
        WHERE orphan_count > 0 AND decision = 'sampled'
    ) AS incomplete
    JOIN spans
        ON spans.trace_id = incomplete.trace_id
        AND spans.date = incomplete.day
)
WHERE link['id'] IS NOT NULL
GROUP BY trace_id, start_time, decision, loss_flags, link['id']
HAVING NOT bool_or(link['is_there'])
UNION ALL
SELECT
    trace_id,
    start_time,
    'engine_request' AS missing,
    CAST(NULL AS VARCHAR) AS missing_span_id,
    span_id,
    service_name,
    CAST(NULL AS VARCHAR) AS name,
    1 AS orphans,
    decision,
    CAST(NULL AS VARCHAR[]) AS loss_flags
FROM requests
WHERE position <> 'engine'
    AND NOT wrapper
    AND outcome = 'ok'
    AND engine_span_ids IS NULL
