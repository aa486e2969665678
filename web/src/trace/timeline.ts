// Where the time went: the rows of the trace, and under them, on the same axis, what engine and GPU did meanwhile. Rows are
// drawn from the spans alone; phases, clocks and lanes are added when the rest is there.

import { Problem, rows } from "../api";
import { append, button, fill, h, onResize } from "../dom";
import { failed, panel, show, type Panel } from "../panel";
import { current, note } from "../route";
import { onTheme } from "../theme";
import { counted, seconds } from "../words";
import { Axis, Ruler } from "./axis";
import { spanDetails } from "./details";
import type { Lane } from "./lanes";
import { clocksAhead, loadAround, type First, type Loaded } from "./load";
import { lanesOf } from "./meanwhile";
import { place, rowsOf, type Row, type Span, type Trace } from "./model";
import { contributors, criticalPath, type Path } from "./path";
import * as sql from "./statements";
import { Waterfall, type Phase } from "./waterfall";

export class Timeline {
  private readonly axis: Axis;
  private readonly ruler: Ruler;
  private readonly waterfall: Waterfall;
  private readonly details = panel("Span");
  private readonly bar = h("div", { class: "bar" });
  private readonly laneBox = h("div", { class: "lanes" }, h("p", { class: "state loading" }, "Waits for the requests ..."));
  private readonly under = h("div", { class: "under" });
  private readonly services = h("div");
  private readonly toggled = new Set<string>();
  private readonly trace: Trace;
  private path: Path;
  private phases: (span: Span) => Phase[] = () => [];
  private lanes: Lane[] = [];
  private selected: string | null;

  constructor(
    private readonly into: Panel,
    private readonly page: HTMLElement,
    private readonly traceId: string,
    { trace }: First,
    private readonly signal: AbortSignal,
  ) {
    this.trace = trace;
    this.path = criticalPath(trace);
    this.axis = new Axis(trace.from, trace.to, () => this.zoomed());
    this.ruler = new Ruler(this.axis);
    this.waterfall = new Waterfall(this.axis, { toggle: (row) => this.toggle(row), select: (row) => this.select(row) });
    this.selected = current().params.get("span");
    tools(this.bar, this.axis, null, false);
    legend(this.under, trace, this.path);
    const chart = h("div", { class: "timeline" }, this.ruler.root, this.waterfall.root, this.laneBox);
    fill(into.body, this.bar, chart, this.under, this.services);
    onResize(this.ruler.root, signal, () => this.resized());
    onTheme(signal, () => this.redraw());
    this.openAsAddressed();
    into.behind(...this.statements());
    performance.mark("whyslow-trace-drawn");
  }

  /** Adds what the requests of the trace say, and asks for what was around them. */
  complete(loaded: Loaded): void {
    const ahead = clocksAhead(loaded);
    const isCorrected = ahead.size > 0 && current().params.get("clock") === "corrected";
    if (isCorrected) {
      place(this.trace, ahead);
      this.path = criticalPath(this.trace);
      this.axis.extend(this.trace.from, this.trace.to);
      legend(this.under, this.trace, this.path);
      this.openAsAddressed();
    }
    this.phases = phasesOfSpans(loaded, isCorrected ? ahead : new Map());
    tools(this.bar, this.axis, ahead, isCorrected);
    this.refresh();
    void this.drawLanes(loaded, isCorrected ? (Math.max(0, ...ahead.values()) || [...ahead.values()][0] || 0) : 0);
  }

  private async drawLanes(loaded: Loaded, engineAheadMs: number): Promise<void> {
    fill(this.laneBox, h("p", { class: "state loading" }, "Asking for samples and neighbours ..."));
    try {
      const around = await loadAround(loaded, this.signal);
      this.lanes = lanesOf(this.axis, loaded, around, engineAheadMs);
      fill(this.laneBox, ...this.lanes.map(({ root }) => root));
      this.redraw();
      const gpu = around.gpuSql === null ? [] : [{ about: "Samples of its GPUs", sql: around.gpuSql }];
      this.into.behind(...this.statements(), ...gpu, { about: "Samples of its engine", sql: around.engineSql }, { about: "Neighbours", sql: around.neighbourSql });
    } catch (error) {
      if (!this.signal.aborted) fill(this.laneBox, failed(error, () => void this.drawLanes(loaded, engineAheadMs)));
    }
  }

  private statements(): { about: string; sql: string }[] {
    return [
      { about: "Spans", sql: sql.spans(this.traceId) },
      { about: "Chunks", sql: sql.chunks(this.traceId) },
    ];
  }

  /** The stretch and the span that stand in the address. */
  private openAsAddressed(): void {
    this.refresh();
    const { params } = current();
    const [from, to] = [Number(params.get("from")), Number(params.get("to"))];
    if (to > from) this.axis.set(from, to);
    const span = this.trace.byId.get(this.selected ?? "");
    if (!span || this.details.root.isConnected) return;
    this.page.appendChild(this.details.root);
    void drawSpan(this.details, this.traceId, { kind: "span", span }, this.signal);
  }

  private refresh(): void {
    this.waterfall.show({ rows: rowsOf(this.trace, this.toggled), path: this.path, phases: this.phases }, this.selected);
    fill(this.services, serviceLegend(this.waterfall));
  }

  private redraw(): void {
    this.ruler.draw();
    this.waterfall.later();
    for (const lane of this.lanes) lane.draw();
  }

  private zoomed(): void {
    const { axis } = this;
    this.redraw();
    note({ from: axis.isWhole ? undefined : axis.from.toFixed(3), to: axis.isWhole ? undefined : axis.to.toFixed(3) });
  }

  private resized(): void {
    this.axis.width = Math.max(this.ruler.root.querySelector(".time")?.clientWidth ?? 300, 100);
    this.redraw();
  }

  private toggle(row: Row): void {
    if (!this.toggled.delete(row.key)) this.toggled.add(row.key);
    this.selected = row.key;
    this.refresh();
  }

  private select(row: Row): void {
    this.selected = row.key;
    note({ span: row.key });
    void drawSpan(this.details, this.traceId, row, this.signal);
    if (!this.details.root.isConnected) this.page.appendChild(this.details.root);
  }
}

/** Clocks and zoom. `ahead` is NULL while it is not known. */
function tools(into: HTMLElement, axis: Axis, ahead: Map<string, number> | null, isCorrected: boolean): void {
  const said = [...(ahead ?? [])].map(([host, ms]) => `the clock of ${host} seems ${seconds(Math.abs(ms) / 1000)} ${ms > 0 ? "ahead" : "behind"}`).join("; ");
  const turn = (corrected: boolean) => {
    note({ clock: corrected ? "corrected" : undefined, from: undefined, to: undefined });
    dispatchEvent(new HashChangeEvent("hashchange"));
  };
  const clocks = h(
    "span",
    { class: "switch", role: "group", "aria-label": "Clocks" },
    button("Clocks as recorded", () => turn(false), { "aria-pressed": String(!isCorrected) }),
    button("Corrected", () => turn(true), { "aria-pressed": String(isCorrected), disabled: !ahead || ahead.size === 0 }),
  );
  const isEqual = ahead === null ? "" : "nothing contradicts equal clocks";
  fill(
    into,
    clocks,
    h("span", { class: "note" }, said ? `${said}${isCorrected ? "; samples keep the clock of who took them" : ""}` : isEqual),
    h("span", { class: "spring" }),
    button("Zoom in", () => axis.zoom(0.5)),
    button("Zoom out", () => axis.zoom(2)),
    button("Whole trace", () => axis.reset()),
  );
}

function phasesOfSpans({ requests, trace }: Loaded, ahead: Map<string, number>): (span: Span) => Phase[] {
  const byId = new Map(requests.map((request) => [request.spanId, request.phases]));
  return (span) => {
    const by = ahead.get(trace.byId.get(span.id)?.host ?? "") ?? 0;
    return (byId.get(span.id) ?? []).map(({ name, from, to }) => ({ name, from: from - by, to: to - by }));
  };
}

function serviceLegend(waterfall: Waterfall): HTMLElement {
  const items = waterfall.serviceNames.map((service, idx) => h("li", {}, h("span", { class: `key series-${(idx % 8) + 1}` }), service));
  return h("ul", { class: "legend" }, ...items);
}

function legend(into: HTMLElement, trace: Trace, path: Path): void {
  const whole = trace.to - trace.from;
  const top = contributors(path).slice(0, 5);
  fill(
    into,
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

async function drawSpan(into: Panel, traceId: string, row: Pick<Row, "kind" | "span"> & Partial<Row>, signal: AbortSignal): Promise<void> {
  if (row.kind !== "span") {
    fill(into.body, h("p", {}, `${counted(row.ticks?.length ?? 0, "chunk")} of ${row.span.service}. Open the row to see each.`));
    into.behind();
    return;
  }
  const statement = sql.oneSpan(traceId, row.span.id);
  into.behind({ about: "This span", sql: statement });
  await show(into, "the span", signal, () => rows(statement, signal), (found) => {
    if (found.length === 0) throw new Problem(404, "page", "the span is not stored any more");
    append(into.body, [spanDetails(found)]);
  });
}
