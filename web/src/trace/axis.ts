// The time axis that the waterfall and all lanes share, and its ruler: dragging over it zooms.

import { h } from "../dom";
import { colour } from "../theme";
import { seconds } from "../words";

export class Axis {
  from: number;
  to: number;
  width = 600;

  constructor(
    private least: number,
    private most: number,
    private readonly changed: () => void,
  ) {
    this.from = least;
    this.to = most;
  }

  x(ms: number): number {
    return ((ms - this.from) / (this.to - this.from)) * this.width;
  }

  ms(x: number): number {
    return this.from + (x / this.width) * (this.to - this.from);
  }

  get isWhole(): boolean {
    return this.from <= this.least && this.to >= this.most;
  }

  /** Shows this time; not less than a microsecond, nothing outside the trace. */
  set(from: number, to: number): void {
    const length = Math.min(Math.max(to - from, 0.001), this.most - this.least);
    this.from = Math.min(Math.max(from, this.least), this.most - length);
    this.to = this.from + length;
    this.changed();
  }

  /** Shows `factor` times the time around the middle. */
  zoom(factor: number): void {
    const [middle, half] = [(this.from + this.to) / 2, ((this.to - this.from) / 2) * factor];
    this.set(middle - half, middle + half);
  }

  pan(share: number): void {
    const by = (this.to - this.from) * share;
    this.set(this.from + by, this.to + by);
  }

  /** The trace is from here to there now; the whole of it is shown. */
  extend(least: number, most: number): void {
    [this.least, this.most] = [least, most];
    [this.from, this.to] = [least, most];
  }

  reset(): void {
    this.set(this.least, this.most);
  }

  /** Round times to write on it. */
  ticks(): number[] {
    const rough = (this.to - this.from) / Math.max(this.width / 110, 2);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) ?? power * 10;
    const ticks: number[] = [];
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) ticks.push(at);
    return ticks;
  }
}

/** A canvas of this height that is as wide as the axis. */
export function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const ratio = devicePixelRatio;
  const [w, tall] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== tall) {
    canvas.width = w;
    canvas.height = tall;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const ctx = canvas.getContext("2d");
  ctx?.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx?.clearRect(0, 0, width, height);
  return ctx;
}

export function gridLines(ctx: CanvasRenderingContext2D, axis: Axis, height: number): void {
  ctx.fillStyle = colour("line");
  for (const tick of axis.ticks()) ctx.fillRect(Math.round(axis.x(tick)), 0, 1, height);
}

const RULER = 26;

export class Ruler {
  readonly root: HTMLElement;
  private readonly canvas = h("canvas", { "aria-hidden": "true" });
  private readonly mark = h("div", { class: "ruler-mark", hidden: true });

  constructor(private readonly axis: Axis) {
    const time = h("div", { class: "time ruler" }, this.canvas, this.mark);
    this.root = h("div", { class: "lane-row" }, h("div", { class: "label note" }, "Drag over the ruler to zoom"), time);
    this.drag(time);
  }

  draw(): void {
    const ctx = prepare(this.canvas, this.axis.width, RULER);
    if (!ctx) return;
    gridLines(ctx, this.axis, RULER);
    ctx.fillStyle = colour("text-soft");
    ctx.font = "12px system-ui, sans-serif";
    for (const tick of this.axis.ticks()) ctx.fillText(seconds(tick / 1000), this.axis.x(tick) + 4, 16);
  }

  private drag(time: HTMLElement): void {
    let begun: number | null = null;
    const at = (event: PointerEvent) => event.clientX - time.getBoundingClientRect().left;
    time.addEventListener("pointerdown", (event) => {
      begun = at(event);
      time.setPointerCapture(event.pointerId);
    });
    time.addEventListener("pointermove", (event) => {
      if (begun === null) return;
      this.mark.hidden = false;
      this.mark.style.left = `${Math.min(begun, at(event))}px`;
      this.mark.style.width = `${Math.abs(at(event) - begun)}px`;
    });
    time.addEventListener("pointerup", (event) => {
      if (begun !== null && Math.abs(at(event) - begun) > 4) {
        const ends = [this.axis.ms(begun), this.axis.ms(at(event))].sort((a, b) => a - b);
        this.axis.set(ends[0] ?? 0, ends[1] ?? 1);
      }
      begun = null;
      this.mark.hidden = true;
    });
    time.addEventListener("dblclick", () => this.axis.reset());
  }
}
