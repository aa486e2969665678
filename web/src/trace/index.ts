// The trace view: what a request did and when, what engine and GPU did meanwhile, and why it was slow.

import { ask, Problem, rows } from "../api";
import { append, button, copy, fill, h, onResize, save } from "../dom";
import { empty, failed, panel, show, type Panel } from "../panel";
import { address, current, go, note } from "../route";
import { onTheme } from "../theme";
import { count, counted, moment, seconds } from "../words";
import { Axis, Ruler } from "./axis";
import { evidenceTable, spanDetails } from "./details";
import * as explain from "./explain";
import type { Lane } from "./lanes";
import { clocksAhead, load, loadAround, type Loaded } from "./load";
import { lanesOf } from "./meanwhile";
import { place, rowsOf, type Row, type Span } from "./model";
import { contributors, criticalPath, type Path } from "./path";
import * as sql from "./statements";
import { Waterfall } from "./waterfall";

const FORMATS = [["json", "OTLP JSON", "otlp.json"], ["parquet", "Parquet", "parquet"], ["perfetto", "Perfetto", "perfetto.json"]] as const;

export async function view(into: HTMLElement, signal: AbortSignal): Promise<void> {
  const { part: traceId } = current();
  append(into, [h("h1", { class: traceId ? "sr" : "" }, traceId ? "Trace" : "Open a trace"), traceId ? null : opener()]);
  if (!traceId) return;
  const head = panel(`Trace ${traceId}`, { class: "wide" });
  const why = panel("Why it was slow", { class: "wide" });
  const time = panel("Where the time went, and what happened meanwhile", { class: "wide" });
  append(into, [head.root, why.root, time.root]);
  head.behind({ about: "Its decision", sql: sql.trace(traceId) });
  await show(head, "the trace", signal, () => load(traceId, signal), (loaded) => {
    if (loaded.trace.spans.length === 0) {
      why.root.remove();
      time.root.remove();
      fill(head.body, absent(traceId, loaded));
      return;
    }
    drawHead(head, traceId, loaded);
    void drawWhy(why, traceId, loaded, signal);
    drawTime(time, into, traceId, loaded, signal);
  });
}

function opener(): HTMLElement {
  const input = h("input", { type: "text", size: "34", pattern: "[0-9a-fA-F]{32}", required: true, autocomplete: "off", spellcheck: "false" });
  const submit = (event: Event) => {
    event.preventDefault();
    go(address("trace", input.value.trim().toLowerCase()));
  };
  return h(
    "div",
    { class: "state empty" },
    h("p", {}, "Click a request in the ", h("a", { href: address("overview") }, "overview"), ", or enter a trace id."),
    h("form", { class: "bar", on: { submit } }, h("label", { class: "field" }, h("span", {}, "Trace id (32 hex digits)"), input), h("button", { type: "submit" }, "Open")),
  );
}

function absent(traceId: string, { summary, requestRows }: Loaded): HTMLElement {
  const decision = summary.length > 0 ? summary.text("decision", 0) : null;
  const back = h("a", { href: address("overview") }, "To the overview");
  if (decision === "not_sampled" || decision === "dropped") {
    return empty("This trace was not kept.", `It was decided ${decision} (policy ${summary.text("policy", 0) ?? "none"}). Its row in \`requests\` is all there is${requestRows.length > 0 ? "" : ", and it has none"}; a policy that keeps such traces keeps the next one.`, back);
  }
  if (decision === "sampled") return empty("Its spans are not stored any more.", "Spans are kept for a shorter time than decisions; `extensions::maintenance` says how long.", back);
  return empty("No such trace.", `Nothing is stored about ${traceId}: it has not come, is not decided yet, or is older than rows are kept.`, back);
}

function drawHead(into: Panel, traceId: string, { trace, summary, requestRows }: Loaded): void {
  const root = trace.roots[0];
  const startMs = Number(trace.zero / 1_000_000n);
  const errors = trace.spans.filter(({ isError }) => isError).length;
  const hasRequest = requestRows.length > 0;
  const facts: [string, string][] = [
    ["Root", root ? `${root.service}: ${root.name}` : "-"],
    ["Start (UTC)", moment(startMs, 3)],
    ["Duration", seconds((trace.to - trace.from) / 1000)],
    ["Spans", `${count(trace.spans.length)}${errors > 0 ? `, ${counted(errors, "error")}` : ""}`],
    ["Model", hasRequest ? (requestRows.text("model", 0) ?? "-") : "-"],
    ["Tokens in / out", hasRequest ? `${requestRows.text("input_tokens", 0) ?? "-"} / ${requestRows.text("output_tokens", 0) ?? "-"}` : "-"],
    ["Outcome", hasRequest ? (requestRows.text("outcome", 0) ?? "-") : "no engine request"],
    ["Kept by", summary.length > 0 ? `${summary.text("policy", 0) ?? "-"} (${summary.text("trigger", 0) ?? "-"})` : "not decided yet"],
  ];
  const losses = summary.length > 0 ? summary.texts("loss_flags", 0) : [];
  if (losses.length > 0) facts.push(["May not be whole", losses.join(", ")]);
  const said = h("span", {}, "Copy link");
  append(into.body, [
    h("dl", { class: "facts" }, ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    h(
      "div",
      { class: "bar" },
      h("button", { type: "button", on: { click: () => void copy(location.href, said) } }, said),
      ...FORMATS.map(([format, label, ending]) => exporter(traceId, format, label, ending)),
    ),
  ]);
}

function exporter(traceId: string, format: string, label: string, ending: string): HTMLElement {
  const made = button(`Export ${label}`, () => {
    made.disabled = true;
    ask(`v1/traces/${traceId}?format=${format}`)
      .then((answer) => answer.blob())
      .then((blob) => save(blob, `${traceId}.${ending}`))
      .catch((error: unknown) => made.parentElement?.parentElement?.appendChild(failed(error)))
      .finally(() => (made.disabled = false));
  });
  return made;
}

async function drawWhy(into: Panel, traceId: string, loaded: Loaded, signal: AbortSignal): Promise<void> {
  into.behind({ about: "Its requests", sql: sql.requests(traceId) }, { about: "Evidence of GPUs", sql: sql.evidence(traceId) }, { about: "Its time in the engine's steps", sql: sql.gpuTime(traceId) });
  await show(into, "the explanation", signal, () => explain.load(traceId, signal), (explained) => {
    const place = h("div");
    const draw = (wanted: string | null) => fill(place, explain.draw(explained, wanted, (spanId) => (note({ request: spanId }), draw(spanId))));
    draw(current().params.get("request"));
    append(into.body, [place]);
    const { evidence } = loaded;
    if (evidence.length > 0) append(into.body, [h("h3", {}, "What is known of its GPUs"), evidenceTable(evidence)]);
  });
}

function drawTime(into: Panel, page: HTMLElement, traceId: string, loaded: Loaded, signal: AbortSignal): void {
  const { trace } = loaded;
  const ahead = clocksAhead(loaded);
  const isCorrected = ahead.size > 0 && current().params.get("clock") === "corrected";
  place(trace, isCorrected ? ahead : new Map());
  const details = panel("Span");
  const path = criticalPath(trace);
  const toggled = new Set<string>();
  let lanes: Lane[] = [];

  const axis = new Axis(trace.from, trace.to, () => {
    redraw();
    note({ from: axis.isWhole ? undefined : axis.from.toFixed(3), to: axis.isWhole ? undefined : axis.to.toFixed(3) });
  });
  const ruler = new Ruler(axis);
  const waterfall = new Waterfall(axis, {
    toggle: (row) => {
      if (toggled.has(row.key)) toggled.delete(row.key);
      else toggled.add(row.key);
      refresh(row.key);
    },
    select: (row) => {
      note({ span: row.key });
      void drawSpan(details, traceId, row, signal);
      if (!details.root.isConnected) page.appendChild(details.root);
    },
  });
  const phases = phasesOfSpans(loaded, isCorrected ? ahead : new Map());
  const refresh = (key: string | null) => waterfall.show({ rows: rowsOf(trace, toggled), path, phases }, key);
  const redraw = () => {
    ruler.draw();
    waterfall.later();
    for (const lane of lanes) lane.draw();
  };
  const laneBox = h("div", { class: "lanes" });
  const chart = h("div", { class: "timeline" }, ruler.root, waterfall.root, laneBox);
  append(into.body, [tools(axis, ahead, isCorrected), chart, legend(path, loaded)]);
  onResize(ruler.root, signal, () => {
    axis.width = Math.max(ruler.root.querySelector(".time")?.clientWidth ?? 300, 100);
    redraw();
  });
  onTheme(signal, redraw);
  const wanted = current().params;
  refresh(wanted.get("span"));
  append(into.body, [serviceLegend(waterfall)]);
  const [from, to] = [Number(wanted.get("from")), Number(wanted.get("to"))];
  if (to > from) axis.set(from, to);
  openWanted(trace.byId.get(wanted.get("span") ?? ""), details, page, traceId, signal);
  performance.mark("whyslow-trace-drawn");
  const statements = [{ about: "Spans", sql: sql.spans(traceId) }, { about: "Chunks", sql: sql.chunks(traceId) }];
  into.behind(...statements);
  fill(laneBox, h("p", { class: "state loading" }, "Asking for samples and neighbours ..."));
  loadAround(loaded, signal)
    .then((around) => {
      const engineAhead = isCorrected ? Math.max(0, ...ahead.values()) || [...ahead.values()][0] || 0 : 0;
      lanes = lanesOf(axis, loaded, around, engineAhead);
      fill(laneBox, ...lanes.map(({ root }) => root));
      redraw();
      const gpu = around.gpuSql === null ? [] : [{ about: "Samples of its GPUs", sql: around.gpuSql }];
      into.behind(...statements, ...gpu, { about: "Samples of its engine", sql: around.engineSql }, { about: "Neighbours", sql: around.neighbourSql });
    })
    .catch((error: unknown) => signal.aborted || fill(laneBox, failed(error)));
}

function openWanted(span: Span | undefined, details: Panel, page: HTMLElement, traceId: string, signal: AbortSignal): void {
  if (!span) return;
  page.appendChild(details.root);
  void drawSpan(details, traceId, { kind: "span", span } as Row, signal);
}

function tools(axis: Axis, ahead: Map<string, number>, isCorrected: boolean): HTMLElement {
  const said = [...ahead].map(([host, ms]) => `the clock of ${host} seems ${seconds(Math.abs(ms) / 1000)} ${ms > 0 ? "ahead" : "behind"}`).join("; ");
  const turn = (corrected: boolean) => {
    note({ clock: corrected ? "corrected" : undefined, from: undefined, to: undefined });
    dispatchEvent(new HashChangeEvent("hashchange"));
  };
  const clocks = h(
    "span",
    { class: "switch", role: "group", "aria-label": "Clocks" },
    button("Clocks as recorded", () => turn(false), { "aria-pressed": String(!isCorrected) }),
    button("Corrected", () => turn(true), { "aria-pressed": String(isCorrected), disabled: ahead.size === 0 }),
  );
  return h(
    "div",
    { class: "bar" },
    clocks,
    h("span", { class: "note" }, ahead.size > 0 ? `${said}${isCorrected ? "; samples keep the clock of who took them" : ""}` : "nothing contradicts equal clocks"),
    h("span", { class: "spring" }),
    button("Zoom in", () => axis.zoom(0.5)),
    button("Zoom out", () => axis.zoom(2)),
    button("Whole trace", () => axis.reset()),
  );
}

function phasesOfSpans({ requests, trace }: Loaded, ahead: Map<string, number>): (span: Span) => { name: "queue" | "prefill" | "decode"; from: number; to: number }[] {
  const byId = new Map(requests.map((request) => [request.spanId, request.phases]));
  return (span) => {
    const by = ahead.get(trace.byId.get(span.id)?.host ?? "") ?? 0;
    return (byId.get(span.id) ?? []).map(({ name, from, to }) => ({ name, from: from - by, to: to - by }));
  };
}

function serviceLegend(waterfall: Waterfall): HTMLElement {
  const items = waterfall.serviceNames.map((service) => {
    const key = h("span", { class: `key series-${(waterfall.serviceNames.indexOf(service) % 8) + 1}` });
    return h("li", {}, key, service);
  });
  return h("ul", { class: "legend" }, ...items);
}

function legend(path: Path, { trace }: Loaded): HTMLElement {
  const whole = trace.to - trace.from;
  const top = contributors(path).slice(0, 5);
  return h(
    "div",
    { class: "under" },
    h(
      "p",
      { class: "key-line" },
      ...["queue", "prefill", "decode"].map((phase) => h("span", {}, h("span", { class: `key phase-${phase}` }), phase)),
      h("span", {}, h("span", { class: "key path" }), "critical path: what the end waited for"),
      h("span", {}, h("span", { class: "key gap" }), "gap between chunks, slowed GPU"),
      h("span", {}, h("span", { class: "key error" }), "error"),
    ),
    h("p", { class: "note" }, "On the critical path: ", top.map(({ service, name, ms }) => `${service}: ${name} ${seconds(ms / 1000)} (${Math.round((ms / whole) * 100)} %)`).join("; ")),
    h("p", { class: "note" }, "Keys in the rows: arrows move, open and close; + - 0 zoom; Shift with arrows moves in time."),
  );
}

async function drawSpan(into: Panel, traceId: string, row: Row, signal: AbortSignal): Promise<void> {
  if (row.kind !== "span") {
    fill(into.body, h("p", {}, `${counted(row.ticks.length, "chunk")} of ${row.span.service}. Open the row to see each.`));
    into.behind();
    return;
  }
  const statement = sql.oneSpan(traceId, row.span.id);
  into.behind({ about: "This span", sql: statement });
  await show(into, "the span", signal, () => rows(statement, signal), (found) => {
    if (found.length === 0) throw new Problem(404, "page", "the span is not stored any more");
    into.body.appendChild(spanDetails(found));
  });
}
