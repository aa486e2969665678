// One span with all that is stored of it, and what is known of GPUs, in words.

import { h } from "../dom";
import type { Rows } from "../rows";
import { number, percent, seconds, shortGpu } from "../words";

/** Columns that say the same as others, or something of storage. */
const LEFT_OUT = new Set(["date", "minute", "trace_id", "start_time_unix_nano", "end_time_unix_nano", "received_time"]);

export function spanDetails(rows: Rows): HTMLElement {
  if (rows.length === 0) return h("p", { class: "note" }, "This span is not stored any more.");
  const shown = rows.names.filter((name) => !LEFT_OUT.has(name) && rows.raw(name, 0) !== null);
  const entries = shown.flatMap((name) => {
    const value = rows.raw(name, 0);
    if (name === "duration_ns") return [entry("duration", seconds(Number(value) / 1e9))];
    if (name === "attributes" || name === "resource_attributes") return mapEntries(name, rows.cell(name, 0));
    return [entry(name, rows.cell(name, 0))];
  });
  return h("dl", { class: "details" }, ...entries.flat());
}

function entry(name: string, value: string): HTMLElement[] {
  return [h("dt", {}, name), h("dd", {}, value)];
}

function mapEntries(name: string, json: string): HTMLElement[][] {
  try {
    const map = JSON.parse(json) as Record<string, unknown>;
    return Object.entries(map).map(([key, value]) => entry(`${name === "attributes" ? "" : "resource "}${key}`, String(value)));
  } catch {
    return [entry(name, json)];
  }
}

const ATTRIBUTIONS: Record<string, string> = {
  exclusive: "It ran there alone: what the GPU did then, it did for this request.",
  shared_batch: "Other requests ran on the engine at the same time: what the GPU did then, it did for all of them.",
  shared_gpu: "Other pods held the GPU at the same time: what it did then may be theirs.",
  node_only: "Only the node is known, not which of its GPUs.",
  unmapped: "No GPU can be named.",
};

const LINKS: Record<string, string> = {
  pod: "the request does not say in which pod its engine runs. Add `k8s.pod.name` or `k8s.pod.uid` to the engine's resource (`OTEL_RESOURCE_ATTRIBUTES`, or the `k8sattributes` processor)",
  pod_ambiguous: "several pods have that name, and nothing tells them apart. Add `k8s.pod.uid` or the namespace to the engine's resource",
  placement: "nobody said which GPU that pod held then. Let dcgm-exporter run with `--kubernetes`, or configure the receiver `pod_resources`, or `processors::correlate::placements_file`",
  gpu_samples: "the GPU is known, but no sample of it came for that time. Is its exporter scraped (receiver `dcgm`)?",
};

/** The attribution of a row of `gpu_evidence`. */
export function attribution(rows: Rows, row: number): string {
  const said = rows.text("attribution", row) ?? "";
  return ATTRIBUTIONS[said] ?? said;
}

/** The link that is missing, and what to do about it. */
export function missingLink(rows: Rows, row: number): string | null {
  const link = rows.text("missing_link", row);
  return link === null ? null : `Missing link \`${link}\`: ${LINKS[link] ?? "the chain from request to GPU breaks there"}.`;
}

export function gpuName(rows: Rows, row: number): string {
  const uuid = rows.text("gpu_uuid", row);
  const instance = rows.text("mig_instance", row);
  return uuid === null ? "GPU" : `${shortGpu(uuid)}${instance === null ? "" : ` instance ${instance}`}`;
}

/** What is known of each GPU, and how. */
export function evidenceTable(rows: Rows): HTMLElement {
  const head = ["GPU", "Attribution", "Known by", "Samples", "Clock, usual", "Slowed by heat", "Reasons", "XIDs", "Hottest", "Other requests"];
  const lines = Array.from({ length: rows.length }, (_, row) => {
    const text = (name: string) => rows.text(name, row) ?? "-";
    const clock = `${number(rows.number("sm_clock_mhz_avg", row), "MHz")}, ${number(rows.number("baseline_sm_clock_mhz", row), "MHz")}`;
    const throttled = rows.number("thermal_throttle_share", row);
    const samples = rows.number("sample_count", row);
    const cover = rows.number("coverage", row);
    const cells = [
      gpuName(rows, row),
      `${text("attribution")}${rows.text("missing_link", row) ? `, missing: ${text("missing_link")}` : ""}`,
      `${text("placement_source")}${rows.flag("placement_disputed", row) ? ", disputed" : ""}`,
      samples === null ? "-" : `${samples} (${text("method")}${cover === null ? "" : `, ${percent(cover)} of its time`})`,
      clock,
      throttled === null ? "-" : `${percent(throttled)} of samples`,
      rows.texts("throttle_reasons", row).join(" ") || "-",
      [...rows.texts("xids", row), ...rows.texts("xids_before", row).map((xid) => `${xid} (before)`)].join(" ") || "-",
      number(rows.number("temp_c_max", row), "C"),
      number(rows.number("other_request_count", row)),
    ];
    return h("tr", {}, ...cells.map((cell, idx) => h("td", { title: idx === 0 ? text("gpu_uuid") : undefined }, cell)));
  });
  return scrolledTable(head, lines);
}

/** The part of the engine's steps that each request had: a model, not a measurement. */
export function gpuTimeTable(rows: Rows): HTMLElement {
  const head = ["Span", "Pod", "Engine time", "of it prefill", "decode", "Assumed", "Steps", "Most requests in one"];
  const lines = Array.from({ length: rows.length }, (_, row) => {
    const assumed = rows.number("estimated_share", row);
    const [n, unshared] = [rows.number("batch_count", row), rows.number("unshared_count", row) ?? 0];
    const cells = [
      rows.text("span_id", row) ?? "-",
      rows.text("k8s_pod_name", row) ?? "-",
      seconds(rows.number("gpu_time_s", row)),
      seconds(rows.number("prefill_s", row)),
      seconds(rows.number("decode_s", row)),
      assumed === null ? "-" : percent(assumed),
      `${number(n)}${unshared > 0 ? `, ${unshared} of unknown length` : ""}`,
      number(rows.number("participants_max", row)),
    ];
    return h("tr", {}, ...cells.map((cell) => h("td", {}, cell)));
  });
  return scrolledTable(head, lines);
}

function scrolledTable(head: string[], lines: HTMLElement[]): HTMLElement {
  const names = head.map((name) => h("th", { scope: "col" }, name));
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ...names)), h("tbody", {}, ...lines)));
}
