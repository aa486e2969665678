// The overview: all requests over time, what engines and GPUs said meanwhile, and what a region of it has in common.

import uPlot from "uplot";

import { rows } from "../api";
import { append, button, choice, fill, h } from "../dom";
import { empty, panel, show, type Panel } from "../panel";
import { address, go } from "../route";
import type { Rows } from "../rows";
import { count, counted, moment, percent, readMoment, seconds } from "../words";
import * as apart from "./apart";
import { cellsOf, chart } from "./heat";
import * as list from "./list";
import { linesOf, objectives, type Line } from "./objectives";
import * as sql from "./statements";
import { addressOf, FILTERS, METRICS, read, readSlo, type Range, type Region, type State } from "./state";
import { ENGINE_STRIPS, GPU_STRIPS, strip } from "./strips";

const HOUR = 3_600_000;

/** Without data nothing is to be seen; with data, the newest hour of it, unless the address says another time. */
export async function view(into: HTMLElement, signal: AbortSignal): Promise<void> {
  const state = read();
  const bar = h("div", { class: "bar" });
  const body = h("div", { class: "columns" });
  append(into, [h("h1", { class: "sr" }, "Overview of all requests"), bar, body]);
  if (state.range) {
    await draw(body, bar, state, state.range, signal);
    return;
  }
  const first = panel("Requests");
  append(body, [first.root]);
  await show(first, "what there is", signal, () => bounds(signal), (found) => {
    if (!found) {
      fill(first.body, nothing());
      return;
    }
    first.root.remove();
    void draw(body, bar, state, { fromMs: Math.max(found.fromMs, found.toMs - HOUR), toMs: found.toMs }, signal);
  });
}

/** When the data begins and ends, that of the last day if there is any. */
async function bounds(signal: AbortSignal, isWhole = false): Promise<Range | null> {
  const found = await rows(isWhole ? sql.BOUNDS_OF_ALL : sql.BOUNDS_OF_DAY, signal);
  const [oldest, newest] = [found.time("first", 0), found.time("last", 0)];
  if (oldest !== null && newest !== null) return { fromMs: oldest - 1000, toMs: newest + 1000 };
  return isWhole ? null : bounds(signal, true);
}

function nothing(): HTMLElement {
  const code = h("pre", {}, "whyslow replay --retime tests/data/real-chain\nwhyslow loadgen fleet --speed max");
  return empty(
    "No request has been stored yet.",
    "Point an OTLP exporter at this server (gRPC 4317, HTTP 4318), or send captured or simulated traffic; a trace shows up when it is decided.",
    code,
    button("Look again", () => dispatchEvent(new HashChangeEvent("hashchange"))),
  );
}

function controls(bar: HTMLElement, state: State, range: Range, signal: AbortSignal): HTMLElement {
  const change = (changed: Partial<State>) => go(addressOf({ ...state, ...changed }));
  const spans = [["", "as chosen"], ["newest", "newest hour"], ["900000", "last 15 min of data"], ["21600000", "last 6 h of data"], ["86400000", "last day of data"], ["all", "all data"]] as const;
  const choose = async (value: string) => {
    if (value === "newest") return change({ range: null, region: null });
    const all = await bounds(signal, value === "all");
    if (all) change({ range: value === "all" ? all : { fromMs: all.toMs - Number(value), toMs: all.toMs }, region: null });
  };
  const slo = h("input", { type: "number", min: "0", step: "any", placeholder: "promised", value: state.sloS ?? "", title: "Empty: what `extensions::slo` of the configuration promises. 0: no line." });
  slo.addEventListener("change", () => change({ sloS: readSlo(slo.value) }));
  const filters = h("span", { class: "filters" });
  addFilters(filters, state, null, change);
  fill(
    bar,
    choice("Show", METRICS, state.metric, (metric) => change({ metric, region: null })),
    choice("Time", spans, "", (value) => void choose(value)),
    filters,
    h("label", { class: "field" }, h("span", {}, "SLO line, s"), slo),
    button("Refresh", () => dispatchEvent(new HashChangeEvent("hashchange"))),
    h("span", { class: "note" }, `${moment(range.fromMs)} to ${moment(range.toMs)} UTC`),
  );
  return filters;
}

/** The filters with the values that there are, once these are known. */
function addFilters(into: HTMLElement, state: State, values: Rows | null, change: (changed: Partial<State>) => void): void {
  into.replaceChildren();
  for (const [column, label] of FILTERS) {
    const options: [string, string][] = [["", "all"]];
    for (let row = 0; values && row < values.length; row++) {
      if (values.text("attribute", row) !== column) continue;
      const value = values.text("value", row) ?? "(none)";
      options.push([value, `${value} (${count(values.number("n", row) ?? 0)})`]);
    }
    const chosen = state.filters[column] ?? "";
    if (chosen && !options.some(([value]) => value === chosen)) options.push([chosen, chosen]);
    const choose = (value: string) => {
      const filters = { ...state.filters };
      if (value) filters[column] = value;
      else delete filters[column];
      change({ filters });
    };
    append(into, [choice(label, options, chosen, choose)]);
  }
}

/** The chart first: it is what is waited for, and what else is asked for shares the server's threads. */
async function draw(body: HTMLElement, bar: HTMLElement, state: State, range: Range, signal: AbortSignal): Promise<void> {
  const label = METRICS.find(([column]) => column === state.metric)?.[1] ?? state.metric;
  const filters = controls(bar, state, range, signal);
  const requests = panel(`${label} of all requests`, { class: "wide" });
  const meanwhile = panel("Engines and GPUs meanwhile", { class: "wide" });
  const common = panel("What sets these requests apart", { class: "wide" });
  const slow = panel(state.region ? "Slowest requests of the region" : "Slowest requests shown", { class: "wide" });
  const shown = h("div", { class: "region" });
  append(body, [requests.root, shown, meanwhile.root, common.root, slow.root]);
  for (const later of [meanwhile, common, slow]) append(later.body, [h("p", { class: "state loading" }, "Waits for the chart ...")]);
  const sync = uPlot.sync(`overview-${range.fromMs}`);
  const select = (region: Region | null) => go(addressOf({ ...state, region }));
  drawRegion(shown, state, range, select);
  await drawRequests(requests, state, range, sync, select, signal);
  if (signal.aborted) return;
  void drawStrips(meanwhile, range, sync, signal);
  void drawApart(common, state, range, signal);
  void drawSlowest(slow, label, state, range, signal);
  const values = await rows(sql.filterValues(range), signal).catch(() => null);
  if (values && !signal.aborted) addFilters(filters, state, values, (changed) => go(addressOf({ ...state, ...changed })));
}

async function drawSlowest(into: Panel, label: string, state: State, range: Range, signal: AbortSignal): Promise<void> {
  const statement = sql.slowest(state, range, state.region);
  into.behind({ about: "Slowest requests", sql: statement });
  await show(into, "the slowest requests", signal, () => rows(statement, signal), (found) => {
    into.aside(counted(found.length, "request"));
    append(into.body, [found.length > 0 ? list.table(found, label) : empty("No request is in it.", "Select another region, or fewer filters.")]);
  });
}

async function drawRequests(into: Panel, state: State, range: Range, sync: uPlot.SyncPubSub, select: (region: Region) => void, signal: AbortSignal): Promise<void> {
  const behind = (lines: Line[]) =>
    into.behind(
      { about: "Cells by time and logarithm", sql: sql.cells(state, range) },
      { about: "Percentiles, and how many took longer than promised", sql: sql.percentiles(state, range, lines) },
      { about: `Points, up to ${sql.POINTS_MAX} requests`, sql: sql.points(state, range) },
    );
  behind([]);
  const work = async () => {
    // One after the other where the second waits for the first; what is promised is known long before the cells are.
    const promised = objectives();
    const cells = await rows(sql.cells(state, range), signal);
    const n = total(cells, "n");
    const points = n > 0 && n <= sql.POINTS_MAX ? await rows(sql.points(state, range), signal) : null;
    return { cells, points, n, lines: linesOf(state, await promised) };
  };
  await show(into, "the requests", signal, work, ({ cells, points, n, lines }) => {
    if (n === 0) {
      into.body.appendChild(empty("No request started in this time with these filters.", "Choose another time or fewer filters.", h("a", { href: address("overview") }, "Show the newest hour")));
      return;
    }
    const absent = n - total(cells, "n", (row) => cells.number("level", row) !== null);
    const facts = said(cells, n, absent);
    into.aside(facts.join(", "));
    const handlers = { select, open: (id: string, span: string) => go(address("trace", id, { request: span })) };
    const drawn = chart(state, range, cellsOf(cells), points, lines, handlers, sync, signal);
    drawn.root.setAttribute("role", "group");
    drawn.root.setAttribute("aria-label", `Chart of ${facts.join(", ")}. The fields below it select a region without a mouse, the list at the end opens traces.`);
    const judged = h("p", { class: "note judged" });
    append(into.body, [drawn.root, judged, key(points !== null)]);
    behind(lines);
    rows(sql.percentiles(state, range, lines), signal)
      .then((found) => {
        into.aside([...facts, ...["p50", "p90", "p99"].map((name) => `${name} ${seconds(found.number(name, 0))}`)].join(", "));
        judged.textContent = lines.map((line, idx) => kept(line, found.number(`of_${idx}`, 0) ?? 0, found.number(`over_${idx}`, 0) ?? 0)).join(" ");
      })
      // The chart stands without them.
      .catch(() => undefined);
  });
}

/** How a promise was kept in what is shown. */
function kept({ name, s, target }: Line, of: number, over: number): string {
  if (of === 0) return `${name}: none of these requests is promised ${seconds(s)}.`;
  const said = `${name}: ${percent(over / of)} of ${counted(of, "request")} took longer than ${seconds(s)}`;
  return target === null ? `${said}.` : `${said}; ${percent(1 - target)} may.`;
}

function total(rows: Rows, column: string, of: (row: number) => boolean = () => true): number {
  let sum = 0;
  for (let row = 0; row < rows.length; row++) if (of(row)) sum += rows.number(column, row) ?? 0;
  return sum;
}

function said(cells: Rows, n: number, absent: number): string[] {
  const parts = [counted(n, "request"), `${count(total(cells, "kept"))} kept`, `${count(total(cells, "failed"))} failed`];
  if (absent > 0) parts.push(`${count(absent)} without this time (failed, cancelled or not measured)`);
  return parts;
}

function key(isPoints: boolean): HTMLElement {
  const items = isPoints
    ? [["dot kept", "kept: click to open"], ["dot dropped", "not kept"], ["dot failed", "failed or cancelled"]]
    : [["cell", "requests (darker: more)"], ["dot failed", "share of failed ones"]];
  return h(
    "p",
    { class: "key-line" },
    ...items.map(([name, text]) => h("span", {}, h("span", { class: `key ${name}` }), text ?? "")),
    h("span", { class: "note" }, "Drag over the chart to select a region."),
  );
}

/** The region in words and fields, so that it can be chosen without a mouse. */
function drawRegion(into: HTMLElement, state: State, range: Range, select: (region: Region | null) => void): void {
  const { region } = state;
  const field = (label: string, value: string) => {
    const input = h("input", { type: "text", value, size: String(Math.max(value.length, 8)) });
    return { input, root: h("label", { class: "field" }, h("span", {}, label), input) };
  };
  const from = field("From (UTC)", moment(region?.fromMs ?? range.fromMs));
  const to = field("To (UTC)", moment(Math.ceil((region?.toMs ?? range.toMs) / 1000) * 1000));
  const low = field("At least, s", region ? String(Number(region.low.toPrecision(3))) : "0");
  const high = field("Less than, s", region ? String(Number(region.high.toPrecision(3))) : "1000");
  const wrong = h("span", { class: "bad", role: "alert" });
  const submit = (event: Event) => {
    event.preventDefault();
    const [fromMs, toMs] = [readMoment(from.input.value), readMoment(to.input.value)];
    const [least, most] = [Number(low.input.value), Number(high.input.value)];
    if (fromMs === null || toMs === null || !(toMs > fromMs) || !(most > least)) {
      wrong.textContent = "A region is from an earlier to a later time, as 2026-11-30 10:00:00, and from a smaller to a larger number of seconds.";
      return;
    }
    select({ fromMs, toMs, low: least, high: most });
  };
  const zoom = () => region && go(addressOf({ ...state, range: { fromMs: region.fromMs, toMs: region.toMs }, region: null }));
  append(into, [
    h(
      "form",
      { class: "bar", "aria-label": "Region", on: { submit } },
      h("strong", {}, region ? "Region" : "No region selected"),
      from.root,
      to.root,
      low.root,
      high.root,
      h("button", { type: "submit" }, "Select"),
      region && button("Zoom to it", zoom),
      region && button("Clear", () => select(null)),
      wrong,
    ),
  ]);
}

async function drawStrips(into: Panel, range: Range, sync: uPlot.SyncPubSub, signal: AbortSignal): Promise<void> {
  const [engines, gpus] = [sql.engineStrips(range), sql.gpuStrips(range)];
  into.behind({ about: "Engines", sql: engines }, { about: "GPUs", sql: gpus });
  const work = () => Promise.all([rows(engines, signal), rows(gpus, signal)]);
  await show(into, "samples", signal, work, ([engineRows, gpuRows]) => {
    const missing = (what: string, receiver: string) =>
      empty(`No sample of ${what} in this time.`, `Configure the receiver \`${receiver}\` or send its metrics over OTLP; \`pipelines/kubernetes.yaml\` shows how.`);
    const strips = [
      ...(engineRows.length > 0 ? ENGINE_STRIPS.map((told) => strip(engineRows, "engine", told, range, sync, signal)) : [missing("an engine", "vllm_metrics")]),
      ...(gpuRows.length > 0 ? GPU_STRIPS.map((told) => strip(gpuRows, "gpu_uuid", told, range, sync, signal)) : [missing("a GPU", "dcgm")]),
    ];
    append(into.body, strips);
  });
}

async function drawApart(into: Panel, state: State, range: Range, signal: AbortSignal): Promise<void> {
  const { region } = state;
  if (!region) {
    fill(into.body, empty("No region is selected.", "Drag over slow requests in the chart, or fill in the fields below it."));
    return;
  }
  const statements = [sql.apart(state, range, region), sql.apartByGpu(state, range, region)] as const;
  into.behind({ about: "Attributes", sql: statements[0] }, { about: "GPUs of kept requests", sql: statements[1] });
  const work = () => Promise.all([rows(statements[0], signal), rows(statements[1], signal)]);
  await show(into, "attributes", signal, work, ([all, gpus]) => {
    const traits = apart.ranked(apart.traitsOf(all, gpus));
    into.aside(`${counted(total(all, "inside", (row) => all.text("attribute", row) === "outcome"), "request")} in the region`);
    const filter = (attribute: string, value: string | null) =>
      FILTERS.some(([column]) => column === attribute) ? addressOf({ ...state, filters: { ...state.filters, [attribute]: value ?? "(none)" } }) : null;
    const found = traits.length > 0
      ? apart.table(traits, filter)
      : empty("Nothing sets them apart beyond chance.", "Select more requests, or a region in which the slow ones are more alike.");
    append(into.body, [found, h("p", { class: "note" }, apart.METHOD)]);
  });
}
