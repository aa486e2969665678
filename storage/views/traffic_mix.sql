-- Question: Of what kind is the traffic, and did that change?
--   One row per window of 5 minutes, model, bands of tokens and outcome, over all traffic, kept or not. A request
--   counts once, each choice of several (n > 1) as one: rows that restate another row (`wrapper`) are left out, and those whose
--   caller got another's output count only in what was computed.
-- Columns:
--   window_start (UTC): start of the 5 minutes in which the requests began
--   model: model that answered, or that was asked for
--   input_band: lt_128, lt_512, lt_2k, lt_8k, lt_32k or ge_32k prompt tokens; absent where the count is
--   output_band: the same of generated tokens
--   outcome: ok, error, cancelled or no_output
--   requests (requests): requests of that kind
--   requests_share: of all requests of the window, 0 to 1
--   requests_without_engine (requests): of them, calls of which no engine request is known
--   requests_without_tokens (requests): of them, those that do not tell how many tokens they generated
--   input_tokens (tokens): their prompts, each once; absent where no request tells
--   output_tokens (tokens): what their callers got
--   input_tokens_computed (tokens): prompts that engines took for that, all attempts and choices
--   output_tokens_computed (tokens): what engines generated for that
--   cached_tokens (tokens): of the prompts that engines took, found in a prefix cache
-- Example:
--   SELECT window_start, model, sum(requests) AS requests, sum(input_tokens) AS input_tokens
--   FROM traffic_mix WHERE window_start > now() - INTERVAL '6 hours' GROUP BY window_start, model ORDER BY window_start
SELECT
    window_start,
    model,
    input_band,
    output_band,
    outcome,
    requests,
    requests / nullif(CAST(sum(requests) OVER (PARTITION BY window_start) AS DOUBLE), 0) AS requests_share,
    requests_without_engine,
    requests_without_tokens,
    input_tokens,
    output_tokens,
    input_tokens_computed,
    output_tokens_computed,
    cached_tokens
FROM (
    SELECT
        date_bin(INTERVAL '5 minutes', start_time) AS window_start,
        model,
        input_band,
        output_band,
        outcome,
        count(*) FILTER (WHERE NOT superseded) AS requests,
        count(*) FILTER (WHERE NOT superseded AND position <> 'engine') AS requests_without_engine,
        count(*) FILTER (WHERE NOT superseded AND output_tokens IS NULL) AS requests_without_tokens,
        sum(input_tokens) FILTER (WHERE NOT superseded AND coalesce(choice, 1) = 1) AS input_tokens,
        sum(output_tokens) FILTER (WHERE NOT superseded) AS output_tokens,
        sum(input_tokens) FILTER (WHERE position = 'engine') AS input_tokens_computed,
        sum(output_tokens) FILTER (WHERE position = 'engine') AS output_tokens_computed,
        sum(cached_tokens) FILTER (WHERE position = 'engine') AS cached_tokens
    FROM requests
    WHERE NOT wrapper
    GROUP BY date_bin(INTERVAL '5 minutes', start_time), model, input_band, output_band, outcome
)
