SELECT *
FROM spans
WHERE trace_id = '{trace_id}'
ORDER BY start_time_unix_nano
