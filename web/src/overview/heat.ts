// The chart of all requests: points where they are few, cells of a heat map where they are many. Dragging selects a
// region; a click on a kept point opens its trace.

import uPlot from "uplot";

import { h, onResize } from "../dom";
import type { Rows } from "../rows";
import { colour, onTheme } from "../theme";
import { clock, seconds, timeTicks } from "../words";
import { label, type Line } from "./objectives";
import type { Range, Region, State } from "./state";
import { bucketMs, FLOOR_S, ROWS_PER_DECADE } from "./statements";

const HEIGHT = 340;

/** Room for the last time on the axis; strips have the same, so that their times are below those of the chart. */
export const PADDING: uPlot.Padding = [10, 38, 0, 0];

/** Pixels around a point within which a click means it. */
const REACH = 9;

export interface Chart {
  root: HTMLElement;
  plot: uPlot;
}

interface Cell {
  fromMs: number;
  low: number;
  high: number;
  n: number;
  kept: number;
  failed: number;
}

interface Point {
  ms: number;
  value: number;
  isKept: boolean;
  outcome: string;
  traceId: string;
  spanId: string;
}

export interface Handlers {
  select: (region: Region) => void;
  open: (traceId: string, spanId: string) => void;
}

export function cellsOf(rows: Rows): Cell[] {
  const cells: Cell[] = [];
  for (let row = 0; row < rows.length; row++) {
    const level = rows.number("level", row);
    const fromMs = rows.time("bucket", row);
    if (level === null || fromMs === null) continue;
    cells.push({
      fromMs,
      low: 10 ** (level / ROWS_PER_DECADE),
      high: 10 ** ((level + 1) / ROWS_PER_DECADE),
      n: rows.number("n", row) ?? 0,
      kept: rows.number("kept", row) ?? 0,
      failed: rows.number("failed", row) ?? 0,
    });
  }
  return cells;
}

function pointsOf(rows: Rows): Point[] {
  return Array.from({ length: rows.length }, (_, row) => ({
    ms: rows.time("start_time", row) ?? 0,
    value: Math.max(rows.number("value", row) ?? 0, FLOOR_S),
    isKept: rows.text("decision", row) === "sampled",
    outcome: rows.text("outcome", row) ?? "",
    traceId: rows.text("trace_id", row) ?? "",
    spanId: rows.text("span_id", row) ?? "",
  }));
}

/** The colour of a cell: the more requests, the stronger, by the logarithm. */
export function shade(n: number, most: number): number {
  return most <= 1 ? 1 : 0.18 + 0.82 * (Math.log(n) / Math.log(most));
}

export function chart(
  state: State,
  range: Range,
  cells: Cell[],
  pointRows: Rows | null,
  lines: Line[],
  handlers: Handlers,
  sync: uPlot.SyncPubSub,
  signal: AbortSignal,
): Chart {
  const points = pointRows ? pointsOf(pointRows) : null;
  const values = points ? points.map((point) => point.value) : cells.flatMap((cell) => [cell.low, cell.high]);
  const seen = [...values, ...lines.map(({ s }) => s)];
  const least = seen.reduce((least, value) => Math.min(least, value), Infinity);
  const low = Math.max(FLOOR_S, 10 ** Math.floor(Math.log10(least * 0.95)));
  const high = seen.reduce((most, value) => Math.max(most, value), low * 10) * 1.25;
  const most = cells.reduce((most, cell) => Math.max(most, cell.n), 1);
  const hint = h("div", { class: "hint", hidden: true });

  const draw = (u: uPlot): void => {
    const { ctx } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    ctx.clip();
    if (points) drawPoints(u, points);
    else drawCells(u, cells, most, bucketMs(range));
    drawLines(u, lines);
    if (state.region) drawRegion(u, state.region);
    ctx.restore();
    performance.mark("whyslow-overview-drawn");
  };

  const options: uPlot.Options = {
    width: 600,
    height: HEIGHT,
    padding: PADDING,
    ms: 1,
    tzDate: (ms) => uPlot.tzDate(new Date(ms), "UTC"),
    cursor: { sync: { key: sync.key, setSeries: false }, drag: { x: true, y: true, uni: 10, setScale: false }, points: { show: false } },
    legend: { show: false },
    select: { show: true, left: 0, top: 0, width: 0, height: 0 },
    scales: {
      x: { time: true, min: range.fromMs, max: range.toMs, range: () => [range.fromMs, range.toMs] },
      y: { distr: 3, log: 10, range: () => [low, high] },
    },
    axes: axes((ticks) => ticks.map((tick) => (tick === null ? "" : seconds(tick)))),
    series: [{}, { show: true, paths: () => null, points: { show: false } }],
    hooks: {
      draw: [draw],
      setSelect: [
        (u) => {
          const { left, top, width, height } = u.select;
          if (width < 4 && height < 4) return;
          const region = {
            fromMs: u.posToVal(left, "x"),
            toMs: u.posToVal(left + Math.max(width, 1), "x"),
            high: height < 4 ? high : u.posToVal(top, "y"),
            low: height < 4 ? low : u.posToVal(top + height, "y"),
          };
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          handlers.select(region);
        },
      ],
      setCursor: [(u) => say(u, hint, points, cells, bucketMs(range))],
      ready: [(u) => u.over.addEventListener("click", () => click(u, points, handlers))],
    },
  };
  const root = h("div", { class: "heat" });
  const plot = new uPlot(options, [[range.fromMs, range.toMs], [low, low]], root);
  root.appendChild(hint);
  onResize(root, signal, (width) => plot.setSize({ width, height: HEIGHT }));
  onTheme(signal, () => plot.redraw(true, true));
  signal.addEventListener("abort", () => plot.destroy());
  return { root, plot };
}

/** Axes of a chart on the overview's time axis. On a logarithmic one, ticks without room for a label are NULL. */
export function axes(values: (ticks: (number | null)[]) => string[]): uPlot.Axis[] {
  const common: uPlot.Axis = {
    stroke: () => colour("text-soft"),
    grid: { stroke: () => colour("line"), width: 1 },
    ticks: { stroke: () => colour("line"), width: 1 },
    font: "12px system-ui, sans-serif",
  };
  return [
    { ...common, size: 26, space: 90, values: (_u, ticks, _axis, _space, step) => timeTicks(ticks, step) },
    { ...common, size: 72, values: (_u, ticks) => values(ticks) },
  ];
}

function drawCells(u: uPlot, cells: Cell[], most: number, widthMs: number): void {
  const { ctx } = u;
  const [fill, failed] = [colour("heat"), colour("bad")];
  for (const cell of cells) {
    const left = u.valToPos(cell.fromMs, "x", true);
    const right = u.valToPos(cell.fromMs + widthMs, "x", true);
    const top = u.valToPos(cell.high, "y", true);
    const bottom = u.valToPos(cell.low, "y", true);
    ctx.globalAlpha = shade(cell.n, most);
    ctx.fillStyle = fill;
    ctx.fillRect(left, top, Math.max(right - left - 0.5, 1), Math.max(bottom - top - 0.5, 1));
    if (cell.failed > 0) {
      ctx.globalAlpha = 1;
      ctx.fillStyle = failed;
      const height = Math.max((bottom - top) * Math.min(1, cell.failed / cell.n), 2);
      ctx.fillRect(left, bottom - height, Math.min(4 * devicePixelRatio, Math.max(right - left - 0.5, 1)), height);
    }
  }
  ctx.globalAlpha = 1;
}

function drawPoints(u: uPlot, points: Point[]): void {
  const { ctx } = u;
  const radius = 3.5 * devicePixelRatio;
  const [kept, dropped, bad] = [colour("kept"), colour("dropped"), colour("bad")];
  ctx.lineWidth = 1.25 * devicePixelRatio;
  for (const { ms, value, isKept, outcome } of points) {
    const [x, y] = [u.valToPos(ms, "x", true), u.valToPos(value, "y", true)];
    const hue = outcome === "ok" || outcome === "" ? (isKept ? kept : dropped) : bad;
    ctx.beginPath();
    if (outcome === "ok" || outcome === "") ctx.arc(x, y, radius, 0, 7);
    else {
      ctx.moveTo(x, y - radius * 1.3);
      ctx.lineTo(x + radius * 1.3, y + radius);
      ctx.lineTo(x - radius * 1.3, y + radius);
      ctx.closePath();
    }
    if (isKept) {
      ctx.fillStyle = hue;
      ctx.fill();
    } else {
      ctx.strokeStyle = hue;
      ctx.stroke();
    }
  }
}

/** Each with its name, beside that of a line close to it. */
function drawLines(u: uPlot, lines: Line[]): void {
  const { ctx } = u;
  ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  // The axes leave theirs.
  [ctx.textAlign, ctx.textBaseline] = ["left", "alphabetic"];
  const named: { y: number; right: number }[] = [];
  for (const line of lines) {
    const y = u.valToPos(line.s, "y", true);
    ctx.beginPath();
    ctx.moveTo(u.bbox.left, y);
    ctx.lineTo(u.bbox.left + u.bbox.width, y);
    // On a ground of its own, as cells may have any colour.
    for (const [hue, width] of [["panel", 4], ["bad", 1.5]] as const) {
      ctx.setLineDash(hue === "bad" ? [6 * devicePixelRatio, 4 * devicePixelRatio] : []);
      ctx.strokeStyle = colour(hue);
      ctx.lineWidth = width * devicePixelRatio;
      ctx.stroke();
    }
    ctx.setLineDash([]);
    const near = named.filter((other) => Math.abs(other.y - y) < 16 * devicePixelRatio);
    const x = near.reduce((right, other) => Math.max(right, other.right), u.bbox.left) + 8 * devicePixelRatio;
    const text = label(line);
    const width = ctx.measureText(text).width;
    ctx.fillStyle = colour("panel");
    ctx.fillRect(x - 3 * devicePixelRatio, y - 17 * devicePixelRatio, width + 6 * devicePixelRatio, 15 * devicePixelRatio);
    ctx.fillStyle = colour("bad");
    ctx.fillText(text, x, y - 5 * devicePixelRatio);
    named.push({ y, right: x + width });
  }
}

function drawRegion(u: uPlot, region: Region): void {
  const { ctx } = u;
  const left = u.valToPos(region.fromMs, "x", true);
  const right = u.valToPos(region.toMs, "x", true);
  const top = u.valToPos(region.high, "y", true);
  const bottom = u.valToPos(Math.max(region.low, FLOOR_S), "y", true);
  ctx.fillStyle = colour("select");
  ctx.fillRect(left, top, right - left, bottom - top);
  ctx.strokeStyle = colour("accent");
  ctx.lineWidth = 2 * devicePixelRatio;
  ctx.strokeRect(left, top, right - left, bottom - top);
}

function nearest(u: uPlot, points: Point[]): Point | null {
  const { left = -1, top = -1 } = u.cursor;
  let best: Point | null = null;
  let least = REACH * REACH;
  for (const point of points) {
    const dx = u.valToPos(point.ms, "x") - left;
    const dy = u.valToPos(point.value, "y") - top;
    if (dx * dx + dy * dy < least) {
      least = dx * dx + dy * dy;
      best = point;
    }
  }
  return best;
}

function click(u: uPlot, points: Point[] | null, handlers: Handlers): void {
  const point = points && nearest(u, points);
  if (point?.isKept) handlers.open(point.traceId, point.spanId);
}

/** Says what is under the pointer. */
function say(u: uPlot, hint: HTMLElement, points: Point[] | null, cells: Cell[], widthMs: number): void {
  const { left = -1, top = -1 } = u.cursor;
  hint.hidden = true;
  if (left < 0 || top < 0) return;
  let text = "";
  if (points) {
    const point = nearest(u, points);
    u.over.style.cursor = point?.isKept ? "pointer" : "crosshair";
    if (!point) return;
    const does = point.isKept ? "kept: click to open the trace" : "not kept: no trace to open";
    text = `${clock(point.ms, 3)}  ${seconds(point.value)}  ${point.outcome || "outcome unknown"}  ${does}`;
  } else {
    const [ms, value] = [u.posToVal(left, "x"), u.posToVal(top, "y")];
    const cell = cells.find(({ fromMs, low, high }) => ms >= fromMs && ms < fromMs + widthMs && value >= low && value < high);
    if (!cell) return;
    text = `${clock(cell.fromMs)}  ${seconds(cell.low)} to ${seconds(cell.high)}: ${cell.n} requests, ${cell.kept} kept, ${cell.failed} failed`;
  }
  hint.textContent = text;
  hint.hidden = false;
  hint.style.left = `${Math.min(left + 90, u.over.clientWidth - 180)}px`;
  hint.style.top = `${Math.max(top - 24, 0)}px`;
}
