-- Question: How much engine time did each request take, as its part of the steps that it was in?
--   A part is a model, not a measurement: by tokens where the engine told them, else equal and marked as estimated. It is
--   time of the engine's steps; where an engine runs on several GPUs, they all worked that long. Parts of all
--   requests and the remainders (in `batches`, what nobody named took) add up to the time of the steps. Sum `gpu_time_ns` over
--   a trace for the trace.
-- Columns:
--   trace_id: trace to drill into; absent where an engine reported only the request id
--   span_id: span of the request, as the engine named it
--   request_id: identifier that gateway and engine share
--   k8s_pod_name: pod that ran the engine
--   start_time (UTC): start of its first step
--   batch_count (steps): steps that it was in
--   unshared_count (steps): of them, those whose time or number of participants is not known
--   gpu_time_ns (ns): its part of their time, where known
--   gpu_time_s (s): the same
--   estimated_share: part of that which rests on an assumption, 0 to 1
--   prefill_s (s): its part of steps that computed its prompt
--   decode_s (s): its part of steps that produced its output
--   tokens (tokens): its tokens in them, where known
--   participants_max (requests): most requests of one step
-- Example:
--   SELECT trace_id, sum(gpu_time_s) AS gpu_time_s FROM request_gpu_time
--   WHERE start_time > now() - INTERVAL '1 hour' GROUP BY trace_id ORDER BY gpu_time_s DESC LIMIT 20
SELECT
    trace_id,
    span_id,
    max(request_id_normalised) AS request_id,
    k8s_pod_name,
    min(start_time) AS start_time,
    count(*) AS batch_count,
    count(*) FILTER (WHERE share_ns IS NULL) AS unshared_count,
    sum(share_ns) AS gpu_time_ns,
    sum(share_ns) / 1e9 AS gpu_time_s,
    CASE WHEN sum(share_ns) > 0
        THEN coalesce(sum(share_ns) FILTER (WHERE estimated), 0) / CAST(sum(share_ns) AS DOUBLE)
    END AS estimated_share,
    sum(share_ns) FILTER (WHERE phase = 'prefill') / 1e9 AS prefill_s,
    sum(share_ns) FILTER (WHERE phase = 'decode') / 1e9 AS decode_s,
    sum(tokens) AS tokens,
    max(participant_count) AS participants_max
FROM batches
WHERE (share_method IS DISTINCT FROM 'remainder')
GROUP BY trace_id, span_id, k8s_pod_name, CASE WHEN trace_id IS NULL THEN request_id_normalised END
