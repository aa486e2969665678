// What engines and GPUs said meanwhile, in strips below the chart, on its time axis.

import uPlot from "uplot";

import { h, onResize } from "../dom";
import type { Rows } from "../rows";
import { onTheme, seriesColour } from "../theme";
import { number, shortGpu } from "../words";
import { axes, PADDING } from "./heat";
import type { Range } from "./state";

const HEIGHT = 64;

/** Lines of one strip; of more engines or GPUs the largest value is drawn. */
const LINES_MAX = 8;

export interface Strip {
  title: string;
  column: string;
  unit: string;
  /** Ends of the axis, where they are known beforehand. */
  to?: number;
}

export const ENGINE_STRIPS: Strip[] = [
  { title: "Running", column: "running", unit: "requests" },
  { title: "Waiting", column: "waiting", unit: "requests" },
  { title: "KV cache", column: "kv_pct", unit: "%", to: 100 },
  { title: "Preemptions", column: "preemptions", unit: "" },
];

export const GPU_STRIPS: Strip[] = [
  { title: "GPU utilisation", column: "util_pct", unit: "%", to: 100 },
  { title: "GPU slowed (heat, hardware, power brake)", column: "throttled_pct", unit: "% of samples", to: 100 },
];

interface Lines {
  times: number[];
  /** Name and values. */
  lines: [string, (number | null)[]][];
}

/** One line per engine or GPU; of many, one with the largest of them. */
function lines(rows: Rows, by: string, column: string): Lines {
  const times = [...new Set(rows.numbers("bucket").filter((ms) => ms !== null))].sort((a, b) => a - b);
  const at = new Map(times.map((ms, idx) => [ms, idx]));
  const found = new Map<string, (number | null)[]>();
  for (let row = 0; row < rows.length; row++) {
    const name = rows.text(by, row) ?? "unnamed";
    let values = found.get(name);
    if (!values) found.set(name, (values = new Array<number | null>(times.length).fill(null)));
    const idx = at.get(rows.time("bucket", row) ?? -1);
    if (idx !== undefined) values[idx] = rows.number(column, row);
  }
  const all = [...found].sort(([a], [b]) => a.localeCompare(b));
  if (all.length <= LINES_MAX) return { times, lines: all };
  const largest = times.map((_, idx) => {
    const values = all.map(([, values]) => values[idx]).filter((value) => value !== null && value !== undefined);
    return values.length > 0 ? Math.max(...values) : null;
  });
  return { times, lines: [[`largest of ${all.length}`, largest]] };
}

export function strip(rows: Rows, by: string, told: Strip, range: Range, sync: uPlot.SyncPubSub, signal: AbortSignal): HTMLElement {
  const { times, lines: drawn } = lines(rows, by, told.column);
  const isKnown = drawn.some(([, values]) => values.some((value) => value !== null));
  const title = h("h3", {}, told.title, told.unit && h("span", { class: "unit" }, ` ${told.unit}`));
  const root = h("div", { class: "strip", role: "img", "aria-label": summary(told, drawn) }, title);
  if (!isKnown) {
    root.appendChild(h("p", { class: "note" }, "Not measured in this time."));
    return root;
  }
  const most = drawn.reduce((most, [, values]) => values.reduce<number>((most, value) => Math.max(most, value ?? 0), most), 1);
  const top = told.to ?? rounded(most);
  const plot = new uPlot(
    {
      width: 600,
      height: HEIGHT,
      padding: PADDING,
      ms: 1,
      tzDate: (ms) => uPlot.tzDate(new Date(ms), "UTC"),
      cursor: { sync: { key: sync.key, setSeries: false }, drag: { x: false, y: false }, points: { show: false } },
      legend: { show: false },
      scales: { x: { time: true, range: () => [range.fromMs, range.toMs] }, y: { range: () => [0, top] } },
      // Room for two labels: both ends.
      axes: axes((ticks) => ticks.map((tick) => number(tick))).map((axis, idx) => (idx === 0 ? { ...axis, size: 6, values: () => [] } : { ...axis, splits: () => [0, top] })),
      series: [
        {},
        ...drawn.map(([label], idx): uPlot.Series => ({
          label,
          stroke: () => seriesColour(idx),
          width: 1.75,
          points: { show: false },
          spanGaps: true,
          ...(uPlot.paths.stepped ? { paths: uPlot.paths.stepped({ align: -1 }) } : {}),
        })),
      ],
    },
    [times, ...drawn.map(([, values]) => values)],
    root,
  );
  if (drawn.length > 1) root.appendChild(legend(drawn.map(([name]) => name)));
  onResize(root, signal, (width) => plot.setSize({ width, height: HEIGHT }));
  onTheme(signal, () => plot.redraw(true, true));
  signal.addEventListener("abort", () => plot.destroy());
  return root;
}

/** The next number with one digit, or two of which the second is 5. */
function rounded(most: number): number {
  const power = 10 ** Math.floor(Math.log10(most));
  return ([1, 1.5, 2, 2.5, 3, 4, 5, 6, 8].find((step) => step * power >= most) ?? 10) * power;
}

function legend(names: string[]): HTMLElement {
  const items = names.map((name, idx) => h("li", { title: name }, h("span", { class: `key series-${(idx % 8) + 1}` }), shortGpu(name)));
  return h("ul", { class: "legend" }, ...items);
}

/** What the strip shows, for those who do not see it. */
function summary({ title, unit }: Strip, drawn: Lines["lines"]): string {
  const said = drawn.map(([name, values]) => {
    const known = values.filter((value) => value !== null);
    return known.length > 0 ? `${name}: at most ${number(Math.max(...known), unit)}` : `${name}: not measured`;
  });
  return `${title}. ${said.join("; ")}`;
}
