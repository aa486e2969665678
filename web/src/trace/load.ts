// What the trace view asks for, in three steps: its spans, which are waited for; its requests and evidence, which are
// drawn into them; then what was around it, which depends on both. A step shares the server's threads with no other.

import { rows } from "../api";
import type { Rows } from "../rows";
import type { Phase } from "./waterfall";
import { addChunks, readSpans, type Span, type Trace } from "./model";
import * as sql from "./statements";

/** An engine request of the trace. */
export interface Request {
  spanId: string;
  position: string;
  startMs: number;
  endMs: number;
  phases: Phase[];
  pod: string | null;
  instance: string | null;
  skewS: number | null;
  row: number;
}

/** What is drawn first. */
export interface First {
  trace: Trace;
  summary: Rows;
}

export interface Loaded extends First {
  requestRows: Rows;
  requests: Request[];
  evidence: Rows;
  gpuTime: Rows;
}

export async function load(traceId: string, signal: AbortSignal): Promise<First> {
  const [summary, spanRows] = await Promise.all([rows(sql.trace(traceId), signal), rows(sql.spans(traceId), signal)]);
  return { trace: readSpans(spanRows), summary };
}

/** The rest of the trace; chunks are put into its spans. */
export async function loadRest(traceId: string, first: First, signal: AbortSignal): Promise<Loaded> {
  const [chunkRows, requestRows, evidence, gpuTime] = await Promise.all([
    rows(sql.chunks(traceId), signal),
    rows(sql.requests(traceId), signal),
    rows(sql.evidence(traceId), signal),
    rows(sql.gpuTime(traceId), signal),
  ]);
  addChunks(first.trace, chunkRows);
  return { ...first, requestRows, requests: requestsOf(requestRows, first.trace), evidence, gpuTime };
}

/** Milliseconds from the trace's time 0 of a column in nanoseconds. */
export function since(rows: Rows, column: string, row: number, trace: Trace): number | null {
  const at = rows.big(column, row);
  return at === null ? null : Number(at - trace.zero) / 1e6;
}

function requestsOf(rows: Rows, trace: Trace): Request[] {
  return Array.from({ length: rows.length }, (_, row) => {
    const startMs = since(rows, "start_time_unix_nano", row, trace) ?? 0;
    return {
      spanId: rows.text("span_id", row) ?? "",
      position: rows.text("position", row) ?? "",
      startMs,
      endMs: startMs + (rows.number("duration_ns", row) ?? 0) / 1e6,
      phases: rows.text("position", row) === "engine" ? phasesOf(rows, row, startMs) : [],
      pod: rows.text("k8s_pod_name", row),
      instance: rows.text("service_instance_id", row),
      skewS: rows.number("clock_skew_s", row),
      row,
    };
  });
}

/** Queue, prefill and decode one after the other; the first that was not measured ends it: what follows has no start. */
export function phasesOf(rows: Rows, row: number, startMs: number): Phase[] {
  const phases: Phase[] = [];
  let at = startMs;
  for (const name of ["queue", "prefill", "decode"] as const) {
    const s = rows.number(`${name}_s`, row);
    if (s === null) break;
    phases.push({ name, from: at, to: at + s * 1000 });
    at += s * 1000;
  }
  return phases;
}

/** What each host's clock is ahead, in ms, as the requests tell it. */
export function clocksAhead({ requests, trace }: Loaded): Map<string, number> {
  const ahead = new Map<string, number>();
  for (const { spanId, skewS } of requests) {
    const span: Span | undefined = trace.byId.get(spanId);
    if (span && skewS !== null && skewS !== 0) ahead.set(span.host, skewS * 1000);
  }
  return ahead;
}

export interface Around {
  gpus: string[];
  gpuSql: string | null;
  gpuSamples: Rows | null;
  engineSql: string;
  engineSamples: Rows;
  neighbourSql: string;
  neighbours: Rows;
}

export async function loadAround({ trace, requests, evidence }: Loaded, signal: AbortSignal): Promise<Around> {
  const nanos = (ms: number) => trace.zero + BigInt(Math.round(ms * 1e6));
  const starts = requests.map(({ startMs }) => startMs);
  const ends = requests.map(({ endMs }) => endMs);
  const window = { from: nanos(Math.min(trace.from, ...starts)), to: nanos(Math.max(trace.to, ...ends)) };
  const present = (values: (string | null)[]) => [...new Set(values.filter((value) => value !== null))];
  const engines = requests.filter(({ position }) => position === "engine");
  const names = { pods: present(engines.map(({ pod }) => pod)), instances: present(engines.map(({ instance }) => instance)) };
  const gpus = present(Array.from({ length: evidence.length }, (_, row) => evidence.text("gpu_uuid", row)));
  const gpuSql = gpus.length > 0 ? sql.gpuSamples(gpus, window) : null;
  const engineSql = sql.engineSamples(names, window);
  const neighbourSql = sql.neighbours(names, window, requests.map(({ spanId }) => spanId));
  const [gpuSamples, engineSamples, neighbours] = await Promise.all([gpuSql === null ? null : rows(gpuSql, signal), rows(engineSql, signal), rows(neighbourSql, signal)]);
  return { gpus, gpuSql, gpuSamples, engineSql, engineSamples, neighbourSql, neighbours };
}
