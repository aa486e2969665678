-- Requests joined with the samples of their GPUs as one would write it first. `{wanted}` says which requests.
SELECT
    request_id,
    placements.gpu_uuid,
    count(*) AS sample_count,
    avg(samples.util_pct) AS util_pct_avg,
    avg(samples.power_w) AS power_w_avg,
    max(samples.power_w) AS power_w_max,
    avg(samples.sm_clock_mhz) AS sm_clock_mhz_avg,
    min(samples.sm_clock_mhz) AS sm_clock_mhz_min,
    max(samples.temp_c) AS temp_c_max,
    avg(CASE WHEN (samples.throttle_mask & 96) <> 0 THEN 1.0 ELSE 0.0 END) AS thermal_throttle_share
FROM requests
JOIN placements ON requests.pod = placements.pod
    AND start_unix_nano < valid_to_unix_nano AND end_unix_nano >= valid_from_unix_nano
JOIN samples ON samples.gpu_uuid = placements.gpu_uuid
    AND samples.time_unix_nano BETWEEN start_unix_nano AND end_unix_nano
WHERE {wanted}
GROUP BY request_id, placements.gpu_uuid
