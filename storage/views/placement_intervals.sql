-- Question: Which pod held which GPU from when to when, and who says so?
--   One row per interval, as it was known last. Sources that disagree have a row each, marked `disputed`.
-- Columns:
--   source: reported, pod_resources, exporter_labels or static_file; evidence believes the first of these that knows the pod
--   confidence: high, medium or low
--   disputed: another source placed the pod elsewhere then, or the same rank was on two GPUs
--   valid_from (UTC): since when the pod held the GPU; absent where it always did
--   valid_to (UTC): from when on it held it no more; absent while it holds
--   observed_time (UTC): when the source said last that it holds
--   k8s_node_name: node
--   k8s_namespace_name: namespace
--   k8s_pod_name: pod
--   k8s_pod_uid: UID of the pod, where the source knows it
--   k8s_container_name: container
--   gpu_uuid: GPU
--   mig_instance: GPU instance id of a MIG instance
--   dp_rank: data parallel rank of the worker
--   pp_rank: pipeline parallel rank of the worker
--   tp_rank: tensor parallel rank of the worker
--   other_pod_count: other pods that held the GPU in that time, by the same source
-- Example:
--   SELECT valid_from, valid_to, gpu_uuid, tp_rank, source, disputed
--   FROM placement_intervals WHERE k8s_pod_name = 'vllm-0' ORDER BY valid_from
SELECT
    source,
    confidence,
    disputed,
    valid_from,
    valid_to,
    observed_time,
    k8s_node_name,
    k8s_namespace_name,
    k8s_pod_name,
    k8s_pod_uid,
    k8s_container_name,
    gpu_uuid,
    mig_instance,
    dp_rank,
    pp_rank,
    tp_rank,
    other_pod_count
FROM (
    SELECT *, row_number() OVER (PARTITION BY placement_id ORDER BY time_unix_nano DESC) AS newest
    FROM placements
)
WHERE newest = 1
