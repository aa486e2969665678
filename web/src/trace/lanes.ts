// Lanes under the waterfall, on its time axis: samples of GPUs and engines, and the requests beside this one.
//
// A sample describes the time before it, so that a line keeps the value of a sample back to the one before. Samples have
// the clock of who scraped them, which is not corrected.

import { h } from "../dom";
import { colour } from "../theme";
import { number } from "../words";
import { gridLines, prepare, type Axis } from "./axis";

const LINE_HEIGHT = 46;
const TRACK = 7;

export interface Sample {
  at: number;
  value: number | null;
}

export interface Lane {
  root: HTMLElement;
  draw: () => void;
}

function lane(name: string, about: HTMLElement | string, canvas: HTMLCanvasElement, said: string, draw: () => void): Lane {
  const label = h("div", { class: "label" }, h("strong", {}, name), h("div", { class: "note" }, about));
  const time = h("div", { class: "time", role: "img", "aria-label": said }, canvas);
  return { root: h("div", { class: "lane-row" }, label, time), draw };
}

/** What is written where there is nothing to draw. */
export function remark(name: string, text: string): Lane {
  const root = h("div", { class: "lane-row" }, h("div", { class: "label" }, h("strong", {}, name)), h("div", { class: "time remark" }, text));
  return { root, draw: () => undefined };
}

export interface Line {
  name: string;
  about: HTMLElement | string;
  unit: string;
  samples: Sample[];
  /** What is usual, drawn as a dashed line. */
  usual?: number | null;
  usualName?: string;
  /** Top of the lane, where it is known. */
  top?: number;
  /** Times that are marked, with a word. */
  marks?: { from: number; to: number; text: string }[];
  hue: string;
}

export function line(axis: Axis, told: Line): Lane {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const known = told.samples.filter((sample): sample is { at: number; value: number } => sample.value !== null);
  const largest = known.reduce((most, { value }) => Math.max(most, value), 0);
  const top = Math.max(told.top ?? 0, largest * 1.1, (told.usual ?? 0) * 1.1, 1e-9);
  const y = (value: number) => LINE_HEIGHT - 4 - (value / top) * (LINE_HEIGHT - 10);
  const draw = () => {
    const ctx = prepare(canvas, axis.width, LINE_HEIGHT);
    if (!ctx) return;
    gridLines(ctx, axis, LINE_HEIGHT);
    ctx.font = "11px system-ui, sans-serif";
    drawMarks(ctx, axis, told.marks ?? []);
    drawSteps(ctx, axis, known, y, colour(told.hue));
    drawUsual(ctx, axis, told, y);
    drawReadings(ctx, axis, known, y, told);
  };
  const least = known.reduce((least, { value }) => Math.min(least, value), Infinity);
  const marks = (told.marks ?? []).map(({ text }) => text).join(", ");
  const usual = told.usual ? `; ${told.usualName ?? "usual"} ${number(told.usual, told.unit)}` : "";
  const said = known.length > 0 ? `${told.name}: ${number(least)} to ${number(largest, told.unit)}${usual}. ${marks}` : `${told.name}: not measured`;
  return lane(told.name, told.about, canvas, said, draw);
}

function drawMarks(ctx: CanvasRenderingContext2D, axis: Axis, marks: { from: number; to: number; text: string }[]): void {
  let free = -Infinity;
  for (const { from, to, text } of marks) {
    const [left, right] = [Math.max(axis.x(from), 0), Math.min(axis.x(to), axis.width)];
    if (right < 0 || left > axis.width) continue;
    ctx.fillStyle = colour("gap");
    ctx.fillRect(left, 0, Math.max(right - left, 2), LINE_HEIGHT);
    if (left < free) continue;
    ctx.fillStyle = colour("bad");
    ctx.fillText(text, left + 4, LINE_HEIGHT - 6);
    free = left + ctx.measureText(text).width + 12;
  }
}

function drawSteps(ctx: CanvasRenderingContext2D, axis: Axis, known: { at: number; value: number }[], y: (value: number) => number, hue: string): void {
  ctx.strokeStyle = hue;
  ctx.lineWidth = 1.75;
  ctx.beginPath();
  known.forEach(({ at, value }, idx) => {
    const before = known[idx - 1];
    if (before) ctx.lineTo(axis.x(before.at), y(value));
    ctx.lineTo(axis.x(at), y(value));
  });
  ctx.stroke();
  ctx.fillStyle = hue;
  for (const { at, value } of known) ctx.fillRect(axis.x(at) - 1.5, y(value) - 1.5, 3, 3);
}

function drawUsual(ctx: CanvasRenderingContext2D, axis: Axis, { usual, usualName, unit }: Line, y: (value: number) => number): void {
  if (!usual) return;
  ctx.strokeStyle = colour("text-soft");
  ctx.lineWidth = 1;
  ctx.setLineDash([4, 4]);
  ctx.beginPath();
  ctx.moveTo(0, y(usual));
  ctx.lineTo(axis.width, y(usual));
  ctx.stroke();
  ctx.setLineDash([]);
  write(ctx, `${usualName ?? "usual"} ${number(usual, unit)}`, axis.width - 4, y(usual) + 12, "right");
}

/** The largest and the smallest value that are in sight. */
function drawReadings(ctx: CanvasRenderingContext2D, axis: Axis, known: { at: number; value: number }[], y: (value: number) => number, { unit }: Line): void {
  const sight = known.filter(({ at }) => at >= axis.from && at <= axis.to);
  const first = sight[0];
  if (!first) {
    write(ctx, known.length > 0 ? "no sample in sight; the line is that of samples around it" : "not measured", 4, 14, "left");
    return;
  }
  const largest = sight.reduce((most, sample) => (sample.value > most.value ? sample : most), first);
  const least = sight.reduce((least, sample) => (sample.value < least.value ? sample : least), first);
  if (largest.value > least.value && Math.abs(axis.x(largest.at) - axis.x(least.at)) < 90) {
    const x = Math.min(axis.x(least.at), axis.x(largest.at));
    write(ctx, `${number(least.value)} to ${number(largest.value, unit)}`, Math.min(x + 5, axis.width - 120), Math.max(y(least.value) - 6, 11), "left");
    return;
  }
  for (const sample of largest.value === least.value ? [largest] : [largest, least]) {
    const x = axis.x(sample.at);
    const side = x > axis.width - 90 ? "right" : "left";
    write(ctx, number(sample.value, unit), side === "left" ? x + 5 : x - 5, Math.max(y(sample.value) + (sample === largest ? 12 : -4), 11), side);
  }
}

/** A text that can be read over lines. */
function write(ctx: CanvasRenderingContext2D, text: string, x: number, y: number, align: CanvasTextAlign): void {
  ctx.textAlign = align;
  ctx.lineWidth = 3;
  ctx.strokeStyle = colour("panel");
  ctx.strokeText(text, x, y);
  ctx.fillStyle = colour("text-soft");
  ctx.fillText(text, x, y);
  ctx.textAlign = "left";
}

export interface Bar {
  parts: { phase: string; from: number; to: number }[];
  from: number;
  to: number;
  text: string;
  open: (() => void) | null;
}

/** Requests as bars in tracks, coloured by phase. */
export function bars(axis: Axis, name: string, about: HTMLElement, said: string, shown: Bar[]): Lane {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const tracks: number[] = [];
  const placed = shown.map((bar) => {
    let track = tracks.findIndex((end) => end <= bar.from);
    if (track < 0) track = tracks.push(0) - 1;
    tracks[track] = bar.to;
    return { bar, track };
  });
  const height = Math.max(tracks.length, 1) * TRACK + 6;
  const draw = () => {
    const ctx = prepare(canvas, axis.width, height);
    if (!ctx) return;
    gridLines(ctx, axis, height);
    for (const { bar, track } of placed) {
      for (const { phase, from, to } of bar.parts) {
        ctx.fillStyle = colour(`phase-${phase}`);
        ctx.fillRect(axis.x(from), 3 + track * TRACK, Math.max(axis.x(to) - axis.x(from), 1), TRACK - 2);
      }
    }
  };
  const made = lane(name, about, canvas, `${name}: ${said}`, draw);
  const under = (event: MouseEvent): Bar | undefined => {
    const box = canvas.getBoundingClientRect();
    const [ms, track] = [axis.ms(event.clientX - box.left), Math.floor((event.clientY - box.top - 3) / TRACK)];
    return placed.find((item) => item.track === track && ms >= item.bar.from && ms <= item.bar.to)?.bar;
  };
  canvas.addEventListener("mousemove", (event) => {
    const bar = under(event);
    canvas.title = bar?.text ?? "";
    canvas.style.cursor = bar?.open ? "pointer" : "default";
  });
  canvas.addEventListener("click", (event) => under(event)?.open?.());
  return made;
}
