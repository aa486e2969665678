-- Question: How fast did objectives burn their error budget, from the stored requests?
--   For history that Prometheus does not have: before the counters, beyond its retention, or for objectives that were not
--   configured then. Put your own into `objectives`: `%` matches any model (also an unknown one) or band. The counters of
--   /metrics judge in the same way.
-- Columns:
--   objective, measure: as in the configuration
--   over: the window, up to now
--   requests: those that the objective is about and that have its measure
--   bad_share: share of them that is not as promised
--   burn_rate: bad_share by the share that may be bad; 1 uses the budget up exactly
WITH objectives (objective, measure, model, input_band, threshold_s, target) AS (VALUES
    ('chat', 'ttft', '%', 'lt_2k', 0.5, 0.99),
    ('chat', 'tpot', '%', 'lt_2k', 0.05, 0.95),
    ('all', 'e2e', '%', '%', 60.0, 0.99),
    ('all', 'errors', '%', '%', NULL, 0.999)
),
windows (over, seconds) AS (VALUES
    ('5m', 300), ('30m', 1800), ('1h', 3600), ('6h', 21600), ('3d', 259200), ('30d', 2592000)
),
judged AS (
    SELECT
        o.objective,
        o.measure,
        o.target,
        date_part('epoch', now()) - r.start_time_unix_nano / 1000000000.0 AS age_s,
        CASE
            WHEN o.measure = 'errors' AND r.outcome <> 'cancelled' THEN r.outcome = 'ok'
            WHEN r.outcome <> 'ok' THEN NULL
            WHEN o.measure = 'ttft' THEN r.engine_ttft_s <= o.threshold_s
            WHEN r.position <> 'engine' THEN NULL
            WHEN o.measure = 'tpot' THEN r.tpot_s <= o.threshold_s
            WHEN o.measure = 'e2e' THEN r.e2e_s <= o.threshold_s
        END AS is_good
    FROM requests AS r
    CROSS JOIN objectives AS o
    WHERE NOT r.wrapper
        AND NOT r.superseded
        AND r.start_time > now() - INTERVAL '30 days'
        AND (o.model = '%' OR r.model LIKE o.model)
        AND (o.input_band = '%' OR r.input_band = o.input_band)
)
SELECT
    objective,
    measure,
    over,
    count(*) AS requests,
    avg(CASE WHEN is_good THEN 0.0 ELSE 1.0 END) AS bad_share,
    avg(CASE WHEN is_good THEN 0.0 ELSE 1.0 END) / (1 - max(target)) AS burn_rate
FROM judged
JOIN windows ON age_s <= seconds
WHERE is_good IS NOT NULL
GROUP BY objective, measure, over, seconds
ORDER BY objective, measure, seconds
