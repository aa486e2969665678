-- Question: How many requests were as fast as promised, for whatever promise?
--   One row per window of 5 minutes, model, bands, measure and threshold, over all traffic, kept or not: the counts from which
--   any objective follows whose threshold is among those here, over any number of windows. Requests are judged as
--   the objectives of the configuration are: one that was given up counts nowhere, times are those of requests that ended well,
--   and one whose caller got another's output, or that restates another row (`wrapper`), is left out.
-- Columns:
--   window_start (UTC): start of the 5 minutes in which the requests began
--   model: model that answered, or that was asked for
--   input_band: band of prompt tokens, as in `requests`; absent where the count is
--   output_band: band of generated tokens
--   measure: errors; engine_ttft, app_ttft, gateway_ttft or client_ttft by where the clock was; tpot or e2e at the engine
--   threshold_s (s): longest time that is good: 0.01, 0.02, 0.05 and so on to 120; absent for errors
--   total (requests): requests that the measure is known of
--   good (requests): of them, those within the threshold; for errors, those that ended well
-- Example:
--   SELECT model, sum(total) AS requests, 1 - sum(good) / CAST(sum(total) AS DOUBLE) AS bad_share,
--       (1 - sum(good) / CAST(sum(total) AS DOUBLE)) / (1 - 0.99) AS burn_rate
--   FROM slo_compliance WHERE measure = 'engine_ttft' AND threshold_s = 0.5 AND window_start > now() - INTERVAL '1 hour'
--   GROUP BY model
SELECT
    window_start,
    model,
    input_band,
    output_band,
    measure,
    at['threshold_s'] AS threshold_s,
    total,
    at['good'] AS good
FROM (
    SELECT
        window_start,
        model,
        input_band,
        output_band,
        measure,
        total,
        unnest(CASE measure
            WHEN 'errors' THEN make_array(named_struct('threshold_s', CAST(NULL AS DOUBLE), 'good', ok))
            ELSE make_array(
                named_struct('threshold_s', CAST(0.01 AS DOUBLE), 'good', le_0_01),
                named_struct('threshold_s', CAST(0.02 AS DOUBLE), 'good', le_0_02),
                named_struct('threshold_s', CAST(0.05 AS DOUBLE), 'good', le_0_05),
                named_struct('threshold_s', CAST(0.1 AS DOUBLE), 'good', le_0_1),
                named_struct('threshold_s', CAST(0.2 AS DOUBLE), 'good', le_0_2),
                named_struct('threshold_s', CAST(0.5 AS DOUBLE), 'good', le_0_5),
                named_struct('threshold_s', CAST(1 AS DOUBLE), 'good', le_1),
                named_struct('threshold_s', CAST(2 AS DOUBLE), 'good', le_2),
                named_struct('threshold_s', CAST(5 AS DOUBLE), 'good', le_5),
                named_struct('threshold_s', CAST(10 AS DOUBLE), 'good', le_10),
                named_struct('threshold_s', CAST(20 AS DOUBLE), 'good', le_20),
                named_struct('threshold_s', CAST(30 AS DOUBLE), 'good', le_30),
                named_struct('threshold_s', CAST(60 AS DOUBLE), 'good', le_60),
                named_struct('threshold_s', CAST(120 AS DOUBLE), 'good', le_120)
            )
        END) AS at
    FROM (
        SELECT
            window_start,
            model,
            input_band,
            output_band,
            measured['measure'] AS measure,
            count(*) AS total,
            count(*) FILTER (WHERE outcome = 'ok') AS ok,
            count(*) FILTER (WHERE measured['seconds'] <= 0.01) AS le_0_01,
            count(*) FILTER (WHERE measured['seconds'] <= 0.02) AS le_0_02,
            count(*) FILTER (WHERE measured['seconds'] <= 0.05) AS le_0_05,
            count(*) FILTER (WHERE measured['seconds'] <= 0.1) AS le_0_1,
            count(*) FILTER (WHERE measured['seconds'] <= 0.2) AS le_0_2,
            count(*) FILTER (WHERE measured['seconds'] <= 0.5) AS le_0_5,
            count(*) FILTER (WHERE measured['seconds'] <= 1) AS le_1,
            count(*) FILTER (WHERE measured['seconds'] <= 2) AS le_2,
            count(*) FILTER (WHERE measured['seconds'] <= 5) AS le_5,
            count(*) FILTER (WHERE measured['seconds'] <= 10) AS le_10,
            count(*) FILTER (WHERE measured['seconds'] <= 20) AS le_20,
            count(*) FILTER (WHERE measured['seconds'] <= 30) AS le_30,
            count(*) FILTER (WHERE measured['seconds'] <= 60) AS le_60,
            count(*) FILTER (WHERE measured['seconds'] <= 120) AS le_120
        FROM (
            SELECT
                date_bin(INTERVAL '5 minutes', start_time) AS window_start,
                model,
                input_band,
                output_band,
                outcome,
                unnest(CASE WHEN outcome = 'ok' THEN make_array(
                    named_struct('measure', 'errors', 'seconds', CAST(NULL AS DOUBLE)),
                    named_struct('measure', 'engine_ttft', 'seconds', engine_ttft_s),
                    named_struct('measure', 'app_ttft', 'seconds', app_ttft_s),
                    named_struct('measure', 'gateway_ttft', 'seconds', gateway_ttft_s),
                    named_struct('measure', 'client_ttft', 'seconds', client_ttft_s),
                    named_struct('measure', 'tpot', 'seconds', CASE position WHEN 'engine' THEN tpot_s END),
                    named_struct('measure', 'e2e', 'seconds', CASE position WHEN 'engine' THEN e2e_s END)
                ) ELSE make_array(
                    named_struct('measure', 'errors', 'seconds', CAST(NULL AS DOUBLE))
                ) END) AS measured
            FROM requests
            WHERE NOT wrapper AND NOT superseded AND outcome <> 'cancelled'
        )
        WHERE measured['measure'] = 'errors' OR measured['seconds'] IS NOT NULL
        GROUP BY window_start, model, input_band, output_band, measured['measure']
    )
)
