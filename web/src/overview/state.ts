// What the overview shows, as it stands in the address.

import { quoted } from "../api";
import { address, current } from "../route";
import { moment } from "../words";

/** Times that can be looked at: column of `requests`, and where it is measured. */
export const METRICS = [
  ["e2e_s", "E2E"],
  ["engine_ttft_s", "TTFT (engine)"],
  ["operation_ttft_s", "TTFT (caller)"],
  ["tpot_s", "TPOT"],
  ["queue_s", "Queue"],
  ["prefill_s", "Prefill"],
  ["decode_s", "Decode"],
] as const;

/** Columns that can be filtered by. */
export const FILTERS = [
  ["model", "Model"],
  ["k8s_pod_name", "Pod"],
  ["input_band", "Input band"],
  ["output_band", "Output band"],
  ["outcome", "Outcome"],
] as const;

/** A part of the chart: milliseconds since 1970, and seconds of the metric. */
export interface Region {
  fromMs: number;
  toMs: number;
  low: number;
  high: number;
}

export interface Range {
  fromMs: number;
  toMs: number;
}

export interface State {
  metric: string;
  /** NULL: as the newest data have it. */
  range: Range | null;
  filters: Record<string, string>;
  /** A line that was typed; 0: none; NULL: what the configuration promises. */
  sloS: number | null;
  region: Region | null;
}

export function read(): State {
  const { params } = current();
  const metric = params.get("metric") ?? "e2e_s";
  const [fromMs, toMs] = [Number(params.get("from")), Number(params.get("to"))];
  const filters: Record<string, string> = {};
  for (const [column] of FILTERS) {
    const value = params.get(column);
    if (value) filters[column] = value;
  }
  const slo = params.get("slo");
  const numbers = (params.get("region") ?? "").split(",").map(Number);
  const [regionFrom, regionTo, low, high] = numbers;
  const isRegion = numbers.length === 4 && numbers.every(Number.isFinite);
  return {
    metric: METRICS.some(([known]) => known === metric) ? metric : "e2e_s",
    range: fromMs > 0 && toMs > fromMs ? { fromMs, toMs } : null,
    filters,
    sloS: slo === null ? null : readSlo(slo),
    region: isRegion ? { fromMs: regionFrom ?? 0, toMs: regionTo ?? 0, low: low ?? 0, high: high ?? 0 } : null,
  };
}

/** A time of 0 or more. */
export function readSlo(text: string): number | null {
  const s = Number(text);
  return text.trim() !== "" && Number.isFinite(s) && s >= 0 ? s : null;
}

export function addressOf(state: State): string {
  const { range, region } = state;
  return address("overview", "", {
    metric: state.metric === "e2e_s" ? undefined : state.metric,
    from: range ? String(Math.floor(range.fromMs)) : undefined,
    to: range ? String(Math.ceil(range.toMs)) : undefined,
    ...state.filters,
    slo: state.sloS === null ? undefined : String(state.sloS),
    region: region ? [Math.floor(region.fromMs), Math.ceil(region.toMs), short(region.low), short(region.high)].join(",") : undefined,
  });
}

function short(n: number): number {
  return Number(n.toPrecision(4));
}

/** A condition on a time column. */
export function between(column: string, { fromMs, toMs }: Range): string {
  return `${column} >= ${timestamp(fromMs)} AND ${column} < ${timestamp(toMs)}`;
}

export function timestamp(ms: number): string {
  return `TIMESTAMP '${moment(Math.floor(ms), 3).replace(" ", "T")}Z'`;
}

/** Conditions on `requests`: the time, the filters, and no row that restates another. */
export function conditions(state: State, range: Range): string[] {
  const filters = Object.entries(state.filters).map(([column, value]) =>
    value === "(none)" ? `${column} IS NULL` : `${column} = ${quoted(value)}`,
  );
  return [between("start_time", range), "NOT wrapper", ...filters];
}

/** Whether a request lies in the region. */
export function inside(state: State, region: Region): string {
  const { metric } = state;
  const low = metric === "queue_s" && region.low <= 0.0001 ? "" : ` AND ${metric} >= ${short(region.low)}`;
  return `${between("start_time", region)}${low} AND ${metric} < ${short(region.high)}`;
}
