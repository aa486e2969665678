// The lanes of one trace: each GPU that its requests touched, the gauges of their engines, and the requests beside them.

import { h } from "../dom";
import { address, go } from "../route";
import type { Rows } from "../rows";
import { counted, seconds, shortGpu } from "../words";
import type { Axis } from "./axis";
import { attribution, gpuName, missingLink } from "./details";
import { bars, line, remark, type Bar, type Lane, type Sample } from "./lanes";
import { phasesOf, since, type Around, type Loaded } from "./load";
import type { Trace } from "./model";
import { NEIGHBOURS_MAX } from "./statements";

/** Bits of `throttle_mask` that slow a device down (NVML's clock event reasons). */
const SLOWED: [number, string][] = [
  [0x8, "hardware slowdown"],
  [0x20, "heat (software)"],
  [0x40, "heat (hardware)"],
  [0x80, "power brake"],
];

export function lanesOf(axis: Axis, loaded: Loaded, around: Around, aheadMs: number): Lane[] {
  return [...gpuLanes(axis, loaded, around), ...engineLanes(axis, loaded.trace, around.engineSamples), neighbourLane(axis, loaded.trace, around, aheadMs)];
}

function gpuLanes(axis: Axis, { evidence, trace, requests }: Loaded, { gpuSamples }: Around): Lane[] {
  if (evidence.length === 0) {
    const isEngine = requests.some(({ position }) => position === "engine");
    const why = isEngine
      ? "No evidence is stored for it (yet): it is written when samples have come, or after `processors::correlate::max_lateness`."
      : "No engine request is in this trace, so no GPU is looked for.";
    return [remark("GPU", why)];
  }
  const lanes: Lane[] = [];
  const seen = new Set<string>();
  for (let row = 0; row < evidence.length; row++) {
    const name = gpuName(evidence, row);
    const missing = missingLink(evidence, row);
    const uuid = evidence.text("gpu_uuid", row);
    if (missing) lanes.push(remark(name, missing));
    if (uuid === null || seen.has(name) || !gpuSamples) continue;
    seen.add(name);
    const instance = evidence.text("mig_instance", row);
    const mine = (sample: number) => gpuSamples.text("gpu_uuid", sample) === uuid && gpuSamples.text("mig_instance", sample) === instance;
    const of = (column: string) => samplesOf(gpuSamples, column, trace, mine);
    const about = attribution(evidence, row);
    lanes.push(
      line(axis, { name: `${name} clock`, about, unit: "MHz", samples: of("sm_clock_mhz"), usual: evidence.number("baseline_sm_clock_mhz", row), usualName: "usual under load", marks: slowed(gpuSamples, trace, mine), hue: "series-1" }),
      line(axis, { name: `${name} utilisation`, about: "", unit: "%", samples: of("util_pct"), top: 100, hue: "series-2" }),
    );
  }
  return lanes;
}

function samplesOf(rows: Rows, column: string, trace: Trace, mine: (row: number) => boolean): Sample[] {
  const samples: Sample[] = [];
  for (let row = 0; row < rows.length; row++) {
    const at = since(rows, "time_unix_nano", row, trace);
    if (at !== null && mine(row)) samples.push({ at, value: rows.number(column, row) });
  }
  return samples;
}

/** Stretches in which samples say that the device was slowed, and XIDs. */
function slowed(rows: Rows, trace: Trace, mine: (row: number) => boolean): { from: number; to: number; text: string }[] {
  const marks: { from: number; to: number; text: string }[] = [];
  let before: number | null = null;
  for (let row = 0; row < rows.length; row++) {
    if (!mine(row)) continue;
    const at = since(rows, "time_unix_nano", row, trace);
    if (at === null) continue;
    const mask = rows.number("throttle_mask", row) ?? 0;
    const reasons = SLOWED.filter(([bit]) => (mask & bit) !== 0).map(([, text]) => text);
    const xids = rows.text("xids", row);
    const texts = [...(reasons.length > 0 ? [`slowed: ${reasons.join(", ")}`] : []), ...(xids ? [`XID ${xids}`] : [])];
    const last = marks.at(-1);
    for (const text of texts) {
      if (last && last.text === text && last.to === before) last.to = at;
      else marks.push({ from: before ?? at, to: at, text });
    }
    before = at;
  }
  return marks;
}

function engineLanes(axis: Axis, trace: Trace, rows: Rows): Lane[] {
  if (rows.length === 0) return [remark("Engine", "No sample of its engine came in this time. Configure the receiver `vllm_metrics`, or send its metrics over OTLP.")];
  const engines = [...new Set(Array.from({ length: rows.length }, (_, row) => rows.text("engine", row)))];
  return engines.flatMap((engine) => {
    const of = (column: string) => samplesOf(rows, column, trace, (row) => rows.text("engine", row) === engine);
    const name = shortGpu(engine ?? "Engine");
    return [
      line(axis, { name: `${name} running`, about: "requests in its batches", unit: "", samples: of("requests_running"), hue: "series-3" }),
      line(axis, { name: `${name} waiting`, about: "requests in its queue", unit: "", samples: of("requests_waiting"), hue: "series-4" }),
      line(axis, { name: `${name} KV cache`, about: "in use; marked where it preempted", unit: "%", samples: of("kv_pct"), top: 100, marks: preemptions(of("preemptions")), hue: "series-5" }),
    ];
  });
}

function preemptions(samples: Sample[]): { from: number; to: number; text: string }[] {
  return samples.flatMap(({ at, value }, idx) => {
    const before = samples[idx - 1];
    return value !== null && value > 0 ? [{ from: before?.at ?? at, to: at, text: counted(value, "preemption") }] : [];
  });
}

function neighbourLane(axis: Axis, trace: Trace, { neighbours: rows, neighbourSql }: Around, aheadMs: number): Lane {
  if (rows.length === 0) return remark("Neighbours", "No other request ran on the same engine in this time, of all traffic, kept or not.");
  const shown: Bar[] = [];
  for (let row = 0; row < rows.length; row++) {
    const from = (since(rows, "start_time_unix_nano", row, trace) ?? 0) - aheadMs;
    const to = from + (rows.number("duration_ns", row) ?? 0) / 1e6;
    const phases = phasesOf(rows, row, from);
    const parts = phases.length > 0 ? phases.map(({ name, from, to }) => ({ phase: name, from, to })) : [{ phase: "unknown", from, to }];
    const traceId = rows.text("trace_id", row) ?? "";
    const isKept = rows.text("decision", row) === "sampled";
    const tokens = `${rows.text("input_tokens", row) ?? "?"} tokens in, ${rows.text("output_tokens", row) ?? "?"} out`;
    const text = `${traceId.slice(0, 8)}: ${seconds((to - from) / 1000)}, ${tokens}, ${rows.text("outcome", row) ?? "outcome unknown"}${isKept ? "; click to open" : "; not kept"}`;
    shown.push({ parts, from, to, text, open: isKept ? () => go(address("trace", traceId)) : null });
  }
  const more = rows.length >= NEIGHBOURS_MAX ? `the first ${NEIGHBOURS_MAX} requests` : counted(rows.length, "other request");
  const said = `${more} on the same engine, coloured by phase`;
  // Bars are opened with a mouse; the rows can be reached without one.
  return bars(axis, "Neighbours", h("span", {}, `${said}: `, h("a", { href: address("sql", "", { q: neighbourSql }) }, "as rows")), said, shown);
}
