// An answer as a chart: one column along, others up.

import uPlot from "uplot";

import { choice, fill, h, onResize } from "../dom";
import { empty } from "../panel";
import { note } from "../route";
import type { Rows } from "../rows";
import { colour, onTheme, seriesColour } from "../theme";
import { number, timeTicks } from "../words";

const HEIGHT = 320;
const LINES_MAX = 8;

/** Rows up to which each is marked on its line, so that where none is can be seen. */
const POINTS_MAX = 200;

export interface Axes {
  along: string;
  up: string[];
  kind: string;
}

/** What the address says, else the first time or number along, and the other numbers up. */
export function axesOf(rows: Rows, params: URLSearchParams): Axes | null {
  const names = rows.names;
  const along = names.find((name) => name === params.get("x")) ?? names.find((name) => rows.isTime(name)) ?? names.find((name) => rows.isNumber(name)) ?? names[0];
  const wanted = (params.get("y") ?? "").split(",");
  const numbers = names.filter((name) => rows.isNumber(name) && name !== along);
  const chosen = numbers.filter((name) => wanted.includes(name));
  const up = chosen.length > 0 ? chosen : numbers.slice(0, LINES_MAX);
  if (along === undefined || up.length === 0) return null;
  return { along, up, kind: params.get("kind") ?? (rows.isTime(along) ? "line" : "bars") };
}

export function plot(rows: Rows, params: URLSearchParams, signal: AbortSignal): HTMLElement {
  const root = h("div", { class: "plot" });
  const first = axesOf(rows, params);
  if (!first || rows.length === 0) {
    return empty("Nothing to draw.", "A chart needs rows with at least one column of numbers beside the one along.");
  }
  let inner = new AbortController();
  const draw = (axes: Axes) => {
    inner.abort();
    inner = new AbortController();
    note({ x: axes.along, y: axes.up.join(","), kind: axes.kind });
    const along = choice("Along", rows.names.map((name) => [name, name] as const), axes.along, (value) => draw({ ...axes, along: value, up: axes.up.filter((name) => name !== value) }));
    const kinds = choice("As", [["line", "lines"], ["points", "points"], ["bars", "bars"]], axes.kind, (kind) => draw({ ...axes, kind }));
    const ups = rows.names.filter((name) => rows.isNumber(name) && name !== axes.along).map((name) => {
      const box = h("input", { type: "checkbox", checked: axes.up.includes(name) });
      box.addEventListener("change", () => {
        const up = box.checked ? [...axes.up, name].slice(-LINES_MAX) : axes.up.filter((other) => other !== name);
        if (up.length > 0) draw({ ...axes, up });
        else box.checked = true;
      });
      const idx = axes.up.indexOf(name);
      return h("label", { class: "check" }, box, idx >= 0 && h("span", { class: `key series-${(idx % 8) + 1}` }), name);
    });
    const place = h("div");
    fill(root, h("div", { class: "bar" }, along, kinds, ...ups), place);
    drawPlot(place, rows, axes, inner.signal);
  };
  signal.addEventListener("abort", () => inner.abort());
  draw(first);
  return root;
}

function drawPlot(into: HTMLElement, rows: Rows, { along, up, kind }: Axes, signal: AbortSignal): void {
  const isTime = rows.isTime(along);
  const isNumber = rows.isNumber(along);
  const order = Array.from({ length: rows.length }, (_, row) => row).filter((row) => !(isTime || isNumber) || rows.number(along, row) !== null);
  if (isTime || isNumber) order.sort((a, b) => (rows.number(along, a) ?? 0) - (rows.number(along, b) ?? 0));
  const xs = order.map((row, idx) => (isTime || isNumber ? (rows.number(along, row) ?? 0) : idx));
  const data: uPlot.AlignedData = [xs, ...up.map((name) => order.map((row) => rows.number(name, row)))];
  const axis: uPlot.Axis = { stroke: () => colour("text-soft"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { stroke: () => colour("line"), width: 1 }, font: "12px system-ui, sans-serif" };
  const names = (idx: number): string => (order[idx] === undefined || !Number.isInteger(idx) ? "" : rows.cell(along, order[idx]).slice(0, 16));
  const bars = kind === "bars" && uPlot.paths.bars ? { paths: uPlot.paths.bars({ size: [0.7, 60] }) } : {};
  const made = new uPlot(
    {
      width: 600,
      height: HEIGHT,
      padding: [10, 32, 0, 0],
      ms: 1,
      tzDate: (ms) => uPlot.tzDate(new Date(ms), "UTC"),
      legend: { show: false },
      scales: { x: { time: isTime, ...(kind === "bars" ? { range: (_u: uPlot, least: number, most: number): [number, number] => widened(least, most, xs.length) } : {}) } },
      axes: [
        { ...axis, ...(isTime ? { space: 90, values: (_u: uPlot, ticks: number[], _axis: number, _space: number, step: number) => timeTicks(ticks, step) } : { values: (_u: uPlot, ticks: number[]) => ticks.map((tick) => (isNumber ? number(tick) : names(tick))) }) },
        { ...axis, size: 72, values: (_u, ticks) => ticks.map((tick) => number(tick)) },
      ],
      series: [
        {},
        ...up.map((label, idx): uPlot.Series => ({
          label,
          stroke: () => seriesColour(idx),
          width: kind === "points" ? 0 : 1.75,
          ...(kind === "bars" ? { fill: () => `${seriesColour(idx)}99` } : {}),
          ...(kind === "points" ? { paths: () => null } : bars),
          points: { show: kind === "points" || (kind === "line" && xs.length <= POINTS_MAX), size: 5, fill: () => seriesColour(idx) },
        })),
      ],
    },
    data,
    into,
  );
  onResize(into, signal, (width) => made.setSize({ width, height: HEIGHT }));
  onTheme(signal, () => made.redraw(true, true));
  signal.addEventListener("abort", () => made.destroy());
}

function widened(least: number, most: number, n: number): [number, number] {
  const by = n > 1 ? (most - least) / (n - 1) / 2 : 1;
  return [least - by, most + by];
}
