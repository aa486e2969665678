// The slowest requests of what is selected. All of them are told; those whose trace was kept can be opened.

import { h } from "../dom";
import type { Rows } from "../rows";
import { address } from "../route";
import { clock, count, seconds } from "../words";

const PHASES = ["queue", "prefill", "decode"] as const;

export function table(rows: Rows, metric: string): HTMLElement {
  const names = ["Trace", "Start (UTC)", metric, "Phases", "Outcome", "Model", "Pod", "Tokens in / out"];
  const head = h("tr", {}, ...names.map((name) => h("th", { scope: "col" }, name)));
  const body = Array.from({ length: rows.length }, (_, row) => line(rows, row));
  return h("div", { class: "scroll tall" }, h("table", { class: "requests" }, h("thead", {}, head), h("tbody", {}, ...body)));
}

function line(rows: Rows, row: number): HTMLElement {
  const outcome = rows.text("outcome", row) ?? "-";
  const tokens = (name: string) => {
    const n = rows.number(name, row);
    return n === null ? "-" : count(n);
  };
  return h(
    "tr",
    {},
    h("td", {}, opener(rows, row)),
    h("td", { class: "mono" }, clock(rows.time("start_time", row) ?? 0, 3)),
    h("td", { class: "num" }, seconds(rows.number("value", row))),
    h("td", {}, phases(rows, row)),
    h("td", { class: outcome === "ok" ? "" : "bad" }, outcome),
    h("td", {}, rows.text("model", row) ?? "-"),
    h("td", {}, rows.text("k8s_pod_name", row) ?? "-"),
    h("td", { class: "num" }, `${tokens("input_tokens")} / ${tokens("output_tokens")}`),
  );
}

/** Queue, prefill and decode as a bar; what was not measured is left out of it. */
function phases(rows: Rows, row: number): HTMLElement {
  const known = PHASES.map((phase) => [phase, rows.number(`${phase}_s`, row)] as const).filter(([, s]) => s !== null);
  if (known.length === 0) return h("span", { class: "note" }, "not measured");
  const whole = known.reduce((sum, [, s]) => sum + (s ?? 0), 0);
  const text = known.map(([phase, s]) => `${phase} ${seconds(s)}`).join(", ");
  const bar = h("span", { class: "phases", role: "img", "aria-label": text, title: text });
  for (const [phase, s] of known) {
    const part = h("span", { class: `phase-${phase}` });
    part.style.width = `${whole > 0 ? ((s ?? 0) / whole) * 100 : 0}%`;
    bar.appendChild(part);
  }
  return bar;
}

function opener(rows: Rows, row: number): HTMLElement {
  const traceId = rows.text("trace_id", row) ?? "";
  if (rows.text("decision", row) !== "sampled") return h("span", { class: "note", title: traceId }, "not kept");
  const to = address("trace", traceId, { request: rows.text("span_id", row) ?? undefined });
  return h("a", { href: to, class: "mono", title: traceId }, `${traceId.slice(0, 8)} open`);
}
