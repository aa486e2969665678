-- Question: Which other requests ran on the engine, or on the GPU, of a request meanwhile?
--   One row per request and other request whose times overlap, of all traffic, kept or not; name the request
--   (`trace_id`), or few of them. `same_engine`: both ran on one engine process. `same_gpu`: they ran on different pods that were
--   placed on one GPU then. What ran meanwhile need not have slowed it down; what the GPU did is in `gpu_evidence`.
--   Others that ran for more than a day, and those that began after the first hour of the request, are not looked for.
-- Columns:
--   trace_id: trace of the request
--   span_id: its engine span
--   start_time (UTC): its start
--   model: its model
--   e2e_s (s): its start to completion
--   k8s_pod_name: its pod
--   relation: same_engine or same_gpu
--   gpu_uuid: the GPU that both pods held; for same_gpu only
--   mig_instance: GPU instance id of a MIG instance; for same_gpu only
--   placement_disputed: whether another source places one of the pods elsewhere; for same_gpu only
--   other_trace_id: trace of the other request
--   other_span_id: its engine span
--   other_start_time (UTC): its start
--   other_k8s_pod_name: its pod
--   other_model: its model
--   other_outcome: how it ended
--   other_e2e_s (s): its start to completion
--   other_input_tokens (tokens): length of its prompt: long ones delay the steps of the others
--   other_output_tokens (tokens): length of its answer
--   overlap_s (s): time in which both ran
--   overlap_share: part of the request's time, 0 to 1
--   began_within: whether the other began while the request ran, else it ran already
-- Example:
--   SELECT relation, other_trace_id, other_model, other_input_tokens, overlap_s, began_within FROM co_tenants
--   WHERE trace_id = '4bf92f3577b34da6a3ce929d0e0e4736' ORDER BY other_input_tokens DESC NULLS LAST
WITH engine_requests AS (
    SELECT
        date,
        trace_id,
        span_id,
        start_time,
        start_time_unix_nano AS start_ns,
        start_time_unix_nano + duration_ns AS end_ns,
        duration_ns,
        model,
        outcome,
        e2e_s,
        input_tokens,
        output_tokens,
        k8s_namespace_name,
        k8s_pod_name,
        k8s_pod_uid,
        coalesce(service_instance_id, k8s_pod_uid, concat(k8s_namespace_name, '/', k8s_pod_name)) AS engine_key
    FROM requests
    WHERE position = 'engine'
        AND NOT wrapper
        AND duration_ns IS NOT NULL
        AND coalesce(service_instance_id, k8s_pod_uid, k8s_pod_name) IS NOT NULL
),
-- Overlaps are found by equality: others stand in the bucket of their start, whose size follows from their length (60 s, 1 h,
-- 1 day), and so they can only be in the buckets of the request, or in the one before.
focus AS (
    SELECT
        *,
        CAST(CAST(bucket * size_s / 86400 AS INT) AS DATE) AS bucket_date
    FROM (
        SELECT
            engine_requests.*,
            size_s,
            start_ns / (size_s * 1000000000) + unnest(array_slice(
                make_array(
                -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
                24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45,
                46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60
                ),
                1,
                end_ns / (size_s * 1000000000) - start_ns / (size_s * 1000000000) + 2
            )) AS bucket
        FROM engine_requests
        CROSS JOIN (VALUES (60), (3600), (86400)) AS sizes (size_s)
    )
),
others AS (
    SELECT
        *,
        start_ns / (size_s * 1000000000) AS bucket
    FROM (
        SELECT
            *,
            CASE WHEN duration_ns <= 60000000000 THEN 60 WHEN duration_ns <= 3600000000000 THEN 3600 ELSE 86400 END AS size_s
        FROM engine_requests
    )
),
-- Pods that one source places on one device at one time.
neighbours AS (
    SELECT
        mine.k8s_namespace_name,
        mine.k8s_pod_name,
        mine.k8s_pod_uid,
        theirs.k8s_namespace_name AS other_namespace_name,
        theirs.k8s_pod_name AS other_pod_name,
        theirs.k8s_pod_uid AS other_pod_uid,
        mine.gpu_uuid,
        mine.mig_instance,
        mine.disputed OR theirs.disputed AS placement_disputed,
        greatest(mine.valid_from, theirs.valid_from) AS valid_from,
        least(mine.valid_to, theirs.valid_to) AS valid_to
    FROM placement_intervals AS mine
    JOIN placement_intervals AS theirs
        ON mine.source = theirs.source
        AND mine.gpu_uuid = theirs.gpu_uuid
        AND (mine.mig_instance IS NOT DISTINCT FROM theirs.mig_instance)
        AND (mine.k8s_pod_name <> theirs.k8s_pod_name
            OR mine.k8s_namespace_name <> theirs.k8s_namespace_name
            OR mine.k8s_pod_uid <> theirs.k8s_pod_uid)
)
SELECT
    trace_id,
    span_id,
    start_time,
    model,
    e2e_s,
    k8s_pod_name,
    relation,
    gpu_uuid,
    mig_instance,
    bool_and(placement_disputed) AS placement_disputed,
    other_trace_id,
    other_span_id,
    other_start_time,
    other_k8s_pod_name,
    other_model,
    other_outcome,
    other_e2e_s,
    other_input_tokens,
    other_output_tokens,
    overlap_ns / 1e9 AS overlap_s,
    CASE WHEN duration_ns > 0 THEN overlap_ns / CAST(duration_ns AS DOUBLE) END AS overlap_share,
    began_within
FROM (
    SELECT
        focus.trace_id,
        focus.span_id,
        focus.start_time,
        focus.model,
        focus.e2e_s,
        focus.duration_ns,
        focus.k8s_pod_name,
        'same_engine' AS relation,
        CAST(NULL AS VARCHAR) AS gpu_uuid,
        CAST(NULL AS VARCHAR) AS mig_instance,
        CAST(NULL AS BOOLEAN) AS placement_disputed,
        others.trace_id AS other_trace_id,
        others.span_id AS other_span_id,
        others.start_time AS other_start_time,
        others.k8s_pod_name AS other_k8s_pod_name,
        others.model AS other_model,
        others.outcome AS other_outcome,
        others.e2e_s AS other_e2e_s,
        others.input_tokens AS other_input_tokens,
        others.output_tokens AS other_output_tokens,
        least(focus.end_ns, others.end_ns) - greatest(focus.start_ns, others.start_ns) AS overlap_ns,
        others.start_ns >= focus.start_ns AS began_within
    FROM focus
    JOIN others
        ON others.date = focus.bucket_date
        AND others.engine_key = focus.engine_key
        AND others.size_s = focus.size_s
        AND others.bucket = focus.bucket
        AND others.start_ns < focus.end_ns
        AND others.end_ns > focus.start_ns
        AND (others.trace_id <> focus.trace_id OR others.span_id <> focus.span_id)
    UNION ALL
    SELECT
        focus.trace_id,
        focus.span_id,
        focus.start_time,
        focus.model,
        focus.e2e_s,
        focus.duration_ns,
        focus.k8s_pod_name,
        'same_gpu' AS relation,
        neighbours.gpu_uuid,
        neighbours.mig_instance,
        neighbours.placement_disputed,
        others.trace_id AS other_trace_id,
        others.span_id AS other_span_id,
        others.start_time AS other_start_time,
        others.k8s_pod_name AS other_k8s_pod_name,
        others.model AS other_model,
        others.outcome AS other_outcome,
        others.e2e_s AS other_e2e_s,
        others.input_tokens AS other_input_tokens,
        others.output_tokens AS other_output_tokens,
        least(focus.end_ns, others.end_ns) - greatest(focus.start_ns, others.start_ns) AS overlap_ns,
        others.start_ns >= focus.start_ns AS began_within
    FROM focus
    JOIN neighbours
        ON neighbours.k8s_pod_name = focus.k8s_pod_name
        AND coalesce(neighbours.k8s_namespace_name = focus.k8s_namespace_name, true)
        AND coalesce(neighbours.k8s_pod_uid = focus.k8s_pod_uid, true)
        AND coalesce(neighbours.valid_from <= focus.start_time, true)
        AND coalesce(neighbours.valid_to > focus.start_time, true)
    JOIN others
        ON others.date = focus.bucket_date
        AND others.k8s_pod_name = neighbours.other_pod_name
        AND others.size_s = focus.size_s
        AND others.bucket = focus.bucket
        AND others.start_ns < focus.end_ns
        AND others.end_ns > focus.start_ns
        AND others.engine_key <> focus.engine_key
        AND coalesce(neighbours.other_namespace_name = others.k8s_namespace_name, true)
        AND coalesce(neighbours.other_pod_uid = others.k8s_pod_uid, true)
)
GROUP BY
    trace_id, span_id, start_time, model, e2e_s, duration_ns, k8s_pod_name, relation, gpu_uuid, mig_instance,
    other_trace_id, other_span_id, other_start_time, other_k8s_pod_name, other_model, other_outcome, other_e2e_s,
    other_input_tokens, other_output_tokens, overlap_ns, began_within
