-- Requests joined with the samples of their GPUs by buckets of ten seconds. `{wanted}` says which requests.
SELECT
    pairs.request_id,
    pairs.gpu_uuid,
    count(*) AS sample_count,
    avg(samples.util_pct) AS util_pct_avg,
    avg(samples.power_w) AS power_w_avg,
    max(samples.power_w) AS power_w_max,
    avg(samples.sm_clock_mhz) AS sm_clock_mhz_avg,
    min(samples.sm_clock_mhz) AS sm_clock_mhz_min,
    max(samples.temp_c) AS temp_c_max,
    avg(CASE WHEN (samples.throttle_mask & 96) <> 0 THEN 1.0 ELSE 0.0 END) AS thermal_throttle_share
FROM (
    SELECT
        request_id,
        gpu_uuid,
        start_unix_nano,
        end_unix_nano,
        unnest(range(start_unix_nano / 10000000000, end_unix_nano / 10000000000 + 1)) AS bucket
    FROM requests
    JOIN placements ON requests.pod = placements.pod
        AND start_unix_nano < valid_to_unix_nano AND end_unix_nano >= valid_from_unix_nano
    WHERE {wanted}
) AS pairs
JOIN (SELECT *, time_unix_nano / 10000000000 AS bucket FROM samples) AS samples
    ON samples.gpu_uuid = pairs.gpu_uuid AND samples.bucket = pairs.bucket
    AND samples.time_unix_nano BETWEEN pairs.start_unix_nano AND pairs.end_unix_nano
GROUP BY pairs.request_id, pairs.gpu_uuid
