SELECT
    slow.trace_id,
    slow.span_id,
    slow.start_time,
    slow.model,
    slow.outcome,
    slow.e2e_s,
    slow.engine_ttft_s,
    slow.queue_s,
    slow.prefill_s,
    slow.decode_s,
    gpu.gpu_uuid,
    gpu.attribution,
    gpu.missing_link,
    gpu.coverage,
    gpu.util_pct_avg,
    gpu.power_w_avg,
    gpu.sm_clock_mhz_avg,
    gpu.baseline_sm_clock_mhz,
    gpu.thermal_throttle_share,
    gpu.other_request_count
FROM (
    SELECT *
    FROM requests
    WHERE NOT wrapper AND start_time >= TIMESTAMP '{since}'
    ORDER BY e2e_s DESC NULLS LAST
    LIMIT 20
) AS slow
LEFT JOIN gpu_evidence AS gpu
    ON gpu.trace_id = slow.trace_id AND gpu.span_id = slow.span_id {bound}
ORDER BY slow.e2e_s DESC NULLS LAST, slow.span_id, gpu.gpu_uuid
