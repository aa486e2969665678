// The trace view: what a request did and when, what engine and GPU did meanwhile, and why it was slow.

import { ask } from "../api";
import { append, button, copy, fill, h, save } from "../dom";
import { empty, failed, panel, show, type Panel } from "../panel";
import { address, current, go, note } from "../route";
import { count, counted, moment, seconds } from "../words";
import { evidenceTable, gpuTimeTable } from "./details";
import * as explain from "./explain";
import { load, loadRest, type First, type Loaded } from "./load";
import * as sql from "./statements";
import { Timeline } from "./timeline";

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
  for (const later of [why, time]) append(later.body, [h("p", { class: "state loading" }, "Waits for the spans ...")]);
  await show(head, "the trace", signal, () => load(traceId, signal), (first) => {
    if (first.trace.spans.length > 0) {
      void drawAll({ head, why, time }, into, traceId, first, signal);
      return;
    }
    why.root.remove();
    time.root.remove();
    void show(head, "its requests", signal, () => loadRest(traceId, first, signal), (loaded) => fill(head.body, absent(traceId, loaded)));
  });
}

interface Panels {
  head: Panel;
  why: Panel;
  time: Panel;
}

/** The rows of the trace first: the rest is drawn into them when it comes. */
async function drawAll({ head, why, time }: Panels, page: HTMLElement, traceId: string, first: First, signal: AbortSignal): Promise<void> {
  const facts = h("dl", { class: "facts" });
  append(head.body, [facts, files(traceId)]);
  drawFacts(facts, first, null);
  // Where clocks are corrected, rows have no place before the requests have told by how much.
  const isCorrected = current().params.get("clock") === "corrected";
  const timeline = isCorrected ? null : new Timeline(time, page, traceId, first, signal);
  await show(why, "its requests", signal, () => loadRest(traceId, first, signal), (loaded) => {
    drawFacts(facts, first, loaded);
    (timeline ?? new Timeline(time, page, traceId, first, signal)).complete(loaded);
    void drawWhy(why, traceId, loaded, signal);
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

/** What is known of the trace; what its requests say comes after its spans. */
function drawFacts(into: HTMLElement, { trace, summary }: First, loaded: Loaded | null): void {
  const root = trace.roots[0];
  const startMs = Number(trace.zero / 1_000_000n);
  const errors = trace.spans.filter(({ isError }) => isError).length;
  const ofRequest = (absent: string, of: (rows: Loaded["requestRows"]) => string) => {
    if (loaded === null) return "...";
    return loaded.requestRows.length > 0 ? of(loaded.requestRows) : absent;
  };
  const facts: [string, string][] = [
    ["Root", root ? `${root.service}: ${root.name}` : "-"],
    ["Start (UTC)", moment(startMs, 3)],
    ["Duration", seconds((trace.to - trace.from) / 1000)],
    ["Spans", `${count(trace.spans.length)}${errors > 0 ? `, ${counted(errors, "error")}` : ""}`],
    ["Model", ofRequest("-", (rows) => rows.text("model", 0) ?? "-")],
    ["Tokens in / out", ofRequest("-", (rows) => `${rows.text("input_tokens", 0) ?? "-"} / ${rows.text("output_tokens", 0) ?? "-"}`)],
    ["Outcome", ofRequest("no engine request", (rows) => rows.text("outcome", 0) ?? "-")],
    ["Kept by", summary.length > 0 ? `${summary.text("policy", 0) ?? "-"} (${summary.text("trigger", 0) ?? "-"})` : "not decided yet"],
  ];
  const losses = summary.length > 0 ? summary.texts("loss_flags", 0) : [];
  if (losses.length > 0) facts.push(["May not be whole", losses.join(", ")]);
  fill(into, ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function files(traceId: string): HTMLElement {
  const said = h("span", {}, "Copy link");
  return h(
    "div",
    { class: "bar" },
    h("button", { type: "button", on: { click: () => void copy(location.href, said) } }, said),
    ...FORMATS.map(([format, label, ending]) => exporter(traceId, format, label, ending)),
  );
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
    const { evidence, gpuTime } = loaded;
    if (evidence.length > 0) append(into.body, [h("h3", {}, "What is known of its GPUs"), evidenceTable(evidence)]);
    if (gpuTime.length > 0) append(into.body, [h("h3", {}, "Its share of the engine's steps"), gpuTimeTable(gpuTime)]);
  });
}
