// The statements of the overview. All counts and cells are over all traffic: `requests` has a row for every request, kept
// or not. Cells are made where the data is, so that a day of a million requests is some thousand rows on the way.

import { quoted } from "../api";
import type { Line } from "./objectives";
import { between, conditions, FILTERS, inside, timestamp, type Range, type Region, type State } from "./state";

const FILTER_COLUMNS = FILTERS.map(([column]) => column);

/** Requests up to which each is drawn as a point. */
export const POINTS_MAX = 4000;

/** Columns of the chart, at most. */
const COLUMNS = 240;

/** Cells per factor of ten. */
export const ROWS_PER_DECADE = 12;

/** Shorter times are drawn at the lower edge. */
export const FLOOR_S = 0.0001;

const BOUNDS = "SELECT min(start_time) AS first, max(start_time) AS last FROM requests";

/** First and last start of the last day, which reads that day's files only; and of all there is. */
export const BOUNDS_OF_DAY = `${BOUNDS} WHERE start_time >= now() - INTERVAL '1 day'`;
export const BOUNDS_OF_ALL = BOUNDS;

/**
 * Values of the columns that can be filtered by. Requests that are alike in all of them are counted first: there are few
 * kinds, and grouping sets look at each of their rows once for each set.
 */
export function filterValues(range: Range): string {
  const columns = FILTER_COLUMNS.join(", ");
  return (
    `SELECT\n  ${which(FILTER_COLUMNS)},\n  sum(n) AS n\nFROM (\n  SELECT ${columns}, count(*) AS n\n  FROM requests\n` +
    `  WHERE ${between("start_time", range)} AND NOT wrapper\n  GROUP BY ${columns}\n)\n` +
    `GROUP BY GROUPING SETS (${sets(FILTER_COLUMNS)})\nORDER BY n DESC LIMIT 1000`
  );
}

function sets(columns: readonly string[]): string {
  return columns.map((column) => `(${column})`).join(", ");
}

/** Which of the grouping sets a row is of, and the value. */
function which(columns: readonly string[]): string {
  const cases = (value: (column: string) => string) => columns.map((column) => `WHEN grouping(${column}) = 0 THEN ${value(column)}`).join("\n    ");
  return `CASE ${cases((column) => quoted(column))}\n  END AS attribute,\n  CASE ${cases((column) => column)}\n  END AS value`;
}

/** Width of a column in milliseconds, a round number. */
export function bucketMs({ fromMs, toMs }: Range, columns = COLUMNS): number {
  const least = (toMs - fromMs) / columns;
  const rounds = [10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 144e5, 432e5, 864e5];
  return rounds.find((round) => round >= least) ?? Math.ceil(least / 864e5) * 864e5;
}

function bucket(column: string, range: Range): string {
  return `date_bin(INTERVAL '${bucketMs(range)} milliseconds', ${column})`;
}

/** Requests by time and by the logarithm of the metric; one row of each column for those that lack it. */
export function cells(state: State, range: Range): string {
  const { metric } = state;
  return (
    `SELECT ${bucket("start_time", range)} AS bucket,\n` +
    `  CAST(floor(log10(greatest(${metric}, ${FLOOR_S})) * ${ROWS_PER_DECADE}) AS INTEGER) AS level,\n` +
    `  count(*) AS n,\n` +
    `  count(*) FILTER (WHERE decision = 'sampled') AS kept,\n` +
    `  count(*) FILTER (WHERE outcome IN ('error', 'no_output')) AS failed` +
    `\nFROM requests\nWHERE ${conditions(state, range).join("\n  AND ")}\nGROUP BY 1, 2`
  );
}

/** Every request, where they are few. */
export function points(state: State, range: Range): string {
  return (
    `SELECT start_time, ${state.metric} AS value, outcome, decision, trace_id, span_id\nFROM requests\n` +
    `WHERE ${conditions(state, range).join("\n  AND ")}\n  AND ${state.metric} IS NOT NULL\nORDER BY start_time LIMIT ${POINTS_MAX}`
  );
}

/** Percentiles, and for each line how many of its requests there are and take longer. */
export function percentiles(state: State, range: Range, lines: Line[]): string {
  const { metric } = state;
  const of = (share: number) => `approx_percentile_cont(${share}) WITHIN GROUP (ORDER BY ${metric})`;
  const judged = lines.map(({ s, of }, idx) => {
    const count = (more: string[]) => (of.length + more.length > 0 ? `count(${metric}) FILTER (WHERE ${[...of, ...more].join(" AND ")})` : `count(${metric})`);
    return `,\n  ${count([])} AS of_${idx},\n  ${count([`${metric} > ${s}`])} AS over_${idx}`;
  });
  return (
    `SELECT ${of(0.5)} AS p50, ${of(0.9)} AS p90, ${of(0.99)} AS p99, count(${metric}) AS n${judged.join("")}\n` +
    `FROM requests\nWHERE ${conditions(state, range).join("\n  AND ")}`
  );
}

/** Gauges of engines on the same time axis. */
export function engineStrips(range: Range): string {
  return (
    `SELECT ${bucket("time", range)} AS bucket,\n` +
    `  coalesce(k8s_pod_name, service_instance_id, service_name) AS engine,\n` +
    `  max(requests_running) AS running, max(requests_waiting) AS waiting,\n` +
    `  max(kv_cache_usage) * 100 AS kv_pct, sum(preemptions_delta) AS preemptions\n` +
    `FROM engine_samples\nWHERE ${between("time", range)}\nGROUP BY 1, 2 ORDER BY 1`
  );
}

/** What GPUs said: 232 are the bits of a slowdown (hardware, heat twice, power brake), 4 that of the power cap. */
export function gpuStrips(range: Range): string {
  return (
    `SELECT ${bucket("time", range)} AS bucket, gpu_uuid,\n` +
    `  avg(util_pct) AS util_pct, min(sm_clock_mhz) AS clock_mhz,\n` +
    `  100.0 * count(*) FILTER (WHERE throttle_mask & 232 <> 0) / nullif(count(throttle_mask), 0) AS throttled_pct\n` +
    `FROM gpu_samples\nWHERE ${between("time", range)} AND mig_instance IS NULL\nGROUP BY 1, 2 ORDER BY 1`
  );
}

/** Attributes by which requests of a region are told from the others. */
export const DIMENSIONS = [
  "model",
  "k8s_pod_name",
  "k8s_node_name",
  "service_name",
  "input_band",
  "output_band",
  "outcome",
  "finish_reason",
  "error_type",
  "position",
  "operation",
  "stage",
] as const;

/** How many requests of the region, and how many others, have each value of each attribute; counted as `filterValues`. */
export function apart(state: State, range: Range, region: Region): string {
  const columns = DIMENSIONS.join(", ");
  const isInside = `coalesce(${inside(state, region)}, false)`;
  return (
    `SELECT\n  ${which(DIMENSIONS)},\n  sum(inside) AS inside, sum(outside) AS outside\n` +
    `FROM (\n  SELECT ${columns},\n    count(*) FILTER (WHERE ${isInside}) AS inside,\n    count(*) FILTER (WHERE NOT ${isInside}) AS outside\n` +
    `  FROM requests\n  WHERE ${conditions(state, range).join("\n    AND ")}\n  GROUP BY ${columns}\n)\nGROUP BY GROUPING SETS (${sets(DIMENSIONS)})`
  );
}

/** The same for GPUs, which are known of kept requests only. */
export function apartByGpu(state: State, range: Range, region: Region): string {
  return (
    `SELECT gpu_uuid AS value,\n  count(*) FILTER (WHERE inside) AS inside, count(*) FILTER (WHERE NOT inside) AS outside,\n` +
    `  max(max(n_inside)) OVER () AS n_inside, max(max(n_outside)) OVER () AS n_outside\n` +
    `FROM (\n  SELECT trace_id, span_id, inside,\n` +
    `    count(*) FILTER (WHERE inside) OVER () AS n_inside, count(*) FILTER (WHERE NOT inside) OVER () AS n_outside\n` +
    `  FROM (\n    SELECT trace_id, span_id, coalesce(${inside(state, region)}, false) AS inside\n    FROM requests\n` +
    `    WHERE ${conditions(state, range).join("\n      AND ")}\n      AND decision = 'sampled' AND position = 'engine'\n  )\n)\n` +
    `JOIN (\n  SELECT DISTINCT trace_id, span_id, gpu_uuid FROM gpu_evidence\n` +
    `  WHERE start_time >= ${timestamp(range.fromMs - 600_000)} AND gpu_uuid IS NOT NULL\n) USING (trace_id, span_id)\nGROUP BY gpu_uuid`
  );
}

/** The slowest requests of the region, or of all that is shown. */
export function slowest(state: State, range: Range, region: Region | null): string {
  const where = [...conditions(state, range), region ? inside(state, region) : `${state.metric} IS NOT NULL`];
  return (
    `SELECT start_time, trace_id, span_id, decision, outcome, model, k8s_pod_name, input_tokens, output_tokens,\n` +
    `  e2e_s, engine_ttft_s, tpot_s, queue_s, prefill_s, decode_s, ${state.metric} AS value\n` +
    `FROM requests\nWHERE ${where.join("\n  AND ")}\nORDER BY value DESC NULLS LAST LIMIT 100`
  );
}
