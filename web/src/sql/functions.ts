// Functions that complete: those that questions about latency need, out of the several hundred that the server has.

export const FUNCTIONS = [
  "abs", "approx_distinct", "approx_median", "approx_percentile_cont", "array_agg", "array_has", "array_length", "array_to_string",
  "arrow_typeof", "avg", "bit_or", "bool_and", "bool_or", "ceil", "coalesce", "concat", "corr", "count", "date_bin", "date_part",
  "date_trunc", "dense_rank", "extract", "first_value", "floor", "from_unixtime", "greatest", "histogram", "lag", "last_value", "lead",
  "least", "length", "ln", "log10", "lower", "map_extract", "map_keys", "max", "median", "min", "now", "ntile", "nullif", "percent_rank",
  "power", "rank", "regexp_like", "regexp_replace", "round", "row_number", "split_part", "sqrt", "starts_with", "stddev", "strpos",
  "substr", "sum", "to_char", "to_timestamp", "to_timestamp_millis", "trim", "unnest", "upper", "var_pop",
];
