// The rows of a trace. Only those in sight exist: labels are elements that are used again for other rows, bars are drawn on
// one canvas behind them. So twenty thousand spans scroll like twenty.

import { h } from "../dom";
import { colour, seriesColour } from "../theme";
import { count, seconds } from "../words";
import { gridLines, prepare, type Axis } from "./axis";
import { gapsOf, type Row, type Span } from "./model";
import type { Path } from "./path";

export const ROW_HEIGHT = 22;

/** Rows that are shown at once, at most. */
const ROWS_SHOWN_MAX = 26;

export interface Phase {
  name: "queue" | "prefill" | "decode";
  from: number;
  to: number;
}

export interface Shown {
  rows: Row[];
  path: Path;
  /** Phases of engine spans, as they are shown. */
  phases: (span: Span) => Phase[];
}

export interface Handlers {
  toggle: (row: Row) => void;
  select: (row: Row) => void;
}

export class Waterfall {
  readonly root: HTMLElement;
  private readonly canvas = h("canvas", { "aria-hidden": "true" });
  private readonly labels = h("div", { class: "labels" });
  private readonly pane: HTMLElement;
  private readonly spacer = h("div", { class: "spacer" });
  private readonly pool: HTMLElement[] = [];
  private readonly services = new Map<string, number>();
  private shown: Shown = { rows: [], path: new Map(), phases: () => [] };
  private selected = -1;
  private isDue = false;

  constructor(
    private readonly axis: Axis,
    private readonly handlers: Handlers,
  ) {
    this.pane = h("div", { class: "pane" }, this.labels, h("div", { class: "time" }, this.canvas));
    this.root = h("div", { class: "waterfall", role: "tree", tabindex: "0", "aria-label": "Spans of the trace" }, this.pane, this.spacer);
    this.root.addEventListener("scroll", () => this.later(), { passive: true });
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.pane.addEventListener("click", (event) => this.click(event));
  }

  show(shown: Shown, selectedKey: string | null): void {
    this.shown = shown;
    for (const { span } of shown.rows) if (!this.services.has(span.service)) this.services.set(span.service, this.services.size);
    this.selected = selectedKey === null ? -1 : shown.rows.findIndex((row) => row.key === selectedKey);
    const height = shown.rows.length * ROW_HEIGHT;
    const visible = Math.min(shown.rows.length, ROWS_SHOWN_MAX) * ROW_HEIGHT;
    this.root.style.height = `${visible + 2}px`;
    this.pane.style.height = `${visible}px`;
    this.spacer.style.height = `${height - visible}px`;
    this.draw();
  }

  serviceColour(service: string): string {
    return seriesColour(this.services.get(service) ?? 0);
  }

  get serviceNames(): string[] {
    return [...this.services.keys()];
  }

  /** Draws in the next frame; several wishes are one. */
  later(): void {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.draw();
    });
  }

  draw(): void {
    const height = this.pane.clientHeight;
    const first = Math.floor(this.root.scrollTop / ROW_HEIGHT);
    const offset = first * ROW_HEIGHT - this.root.scrollTop;
    const last = Math.min(first + Math.ceil(height / ROW_HEIGHT) + 1, this.shown.rows.length);
    this.drawLabels(first, last, offset);
    const ctx = prepare(this.canvas, this.axis.width, height);
    if (!ctx) return;
    gridLines(ctx, this.axis, height);
    for (let idx = first; idx < last; idx++) {
      const row = this.shown.rows[idx];
      if (row) this.drawRow(ctx, row, idx, offset + (idx - first) * ROW_HEIGHT);
    }
  }

  private drawLabels(first: number, last: number, offset: number): void {
    while (this.pool.length < last - first) this.pool.push(this.labels.appendChild(label()));
    this.labels.style.transform = `translateY(${offset}px)`;
    this.pool.forEach((element, place) => {
      const idx = first + place;
      const row = idx < last ? this.shown.rows[idx] : undefined;
      element.hidden = row === undefined;
      if (row) this.fillLabel(element, row, idx);
    });
    const active = this.pool[this.selected - first];
    if (active && !active.hidden) this.root.setAttribute("aria-activedescendant", active.id);
    else this.root.removeAttribute("aria-activedescendant");
  }

  private fillLabel(element: HTMLElement, row: Row, idx: number): void {
    const [twisty, dot, text, time] = element.children as unknown as [HTMLElement, HTMLElement, HTMLElement, HTMLElement];
    const isSelected = idx === this.selected;
    element.dataset["row"] = String(idx);
    element.style.paddingLeft = `${Math.min(row.depth, 14) * 12 + 4}px`;
    element.classList.toggle("selected", isSelected);
    element.classList.toggle("bad", row.span.isError && row.kind === "span");
    element.setAttribute("aria-level", String(row.depth + 1));
    element.setAttribute("aria-selected", String(isSelected));
    if (row.hasChildren) element.setAttribute("aria-expanded", String(row.isOpen));
    else element.removeAttribute("aria-expanded");
    twisty.textContent = row.hasChildren ? (row.isOpen ? "-" : "+") : "";
    dot.style.background = this.serviceColour(row.span.service);
    text.textContent = nameOf(row);
    time.textContent = seconds(lengthOf(row) / 1000);
    element.title = `${row.span.service}: ${nameOf(row)}${row.span.message ? `: ${row.span.message}` : ""}`;
  }

  private drawRow(ctx: CanvasRenderingContext2D, row: Row, idx: number, top: number): void {
    const { axis } = this;
    if (idx === this.selected) {
      ctx.fillStyle = colour("select");
      ctx.fillRect(0, top, axis.width, ROW_HEIGHT);
    }
    if (row.kind !== "span") {
      drawTicks(ctx, axis, row.ticks, top, this.serviceColour(row.span.service));
      for (const span of row.folded) this.drawPath(ctx, span, top);
      return;
    }
    const { span } = row;
    const [left, width] = [axis.x(span.start), Math.max(axis.x(span.end) - axis.x(span.start), 1.5)];
    ctx.fillStyle = this.serviceColour(span.service);
    ctx.fillRect(left, top + 5, width, ROW_HEIGHT - 11);
    for (const { name, from, to } of this.shown.phases(span)) {
      ctx.fillStyle = colour(`phase-${name}`);
      ctx.fillRect(axis.x(from), top + 5, Math.max(axis.x(to) - axis.x(from), 1), ROW_HEIGHT - 11);
    }
    if (!span.hasEnd) {
      ctx.fillStyle = colour("bad");
      ctx.fillText("no end", left + 4, top + 15);
    }
    if (span.isError) {
      ctx.strokeStyle = colour("bad");
      ctx.lineWidth = 2;
      ctx.strokeRect(left, top + 5, width, ROW_HEIGHT - 11);
    }
    this.drawPath(ctx, span, top);
  }

  private drawPath(ctx: CanvasRenderingContext2D, span: Span, top: number): void {
    ctx.fillStyle = colour("text");
    for (const { from, to } of this.shown.path.get(span) ?? []) {
      const left = this.axis.x(from);
      ctx.fillRect(left, top + ROW_HEIGHT - 5, Math.max(this.axis.x(to) - left, 1), 2.5);
    }
  }

  private click(event: MouseEvent): void {
    const idx = Math.floor((event.clientY - this.root.getBoundingClientRect().top + this.root.scrollTop) / ROW_HEIGHT);
    const row = this.shown.rows[idx];
    if (!row) return;
    if ((event.target as HTMLElement).classList.contains("twisty") && row.hasChildren) this.handlers.toggle(row);
    else this.choose(idx);
  }

  private choose(idx: number): void {
    const row = this.shown.rows[idx];
    if (!row) return;
    this.selected = idx;
    this.reveal(idx);
    this.draw();
    this.handlers.select(row);
  }

  /** Scrolls as far as it needs to be seen. */
  reveal(idx: number): void {
    const top = idx * ROW_HEIGHT;
    if (top < this.root.scrollTop) this.root.scrollTop = top;
    const below = top + ROW_HEIGHT - this.pane.clientHeight;
    if (below > this.root.scrollTop) this.root.scrollTop = below;
  }

  private key(event: KeyboardEvent): void {
    const { rows } = this.shown;
    const row = rows[this.selected];
    const act: Record<string, () => void> = {
      ArrowDown: () => this.choose(Math.min(this.selected + 1, rows.length - 1)),
      ArrowUp: () => this.choose(Math.max(this.selected - 1, 0)),
      PageDown: () => this.choose(Math.min(this.selected + ROWS_SHOWN_MAX, rows.length - 1)),
      PageUp: () => this.choose(Math.max(this.selected - ROWS_SHOWN_MAX, 0)),
      Home: () => this.choose(0),
      End: () => this.choose(rows.length - 1),
      ArrowRight: () => (row?.hasChildren && !row.isOpen ? this.handlers.toggle(row) : this.choose(Math.min(this.selected + 1, rows.length - 1))),
      ArrowLeft: () => (row?.hasChildren && row.isOpen ? this.handlers.toggle(row) : this.choose(parentOf(rows, this.selected))),
      Enter: () => row?.hasChildren && this.handlers.toggle(row),
      "+": () => this.axis.zoom(0.5),
      "-": () => this.axis.zoom(2),
      "0": () => this.axis.reset(),
    };
    const found = event.shiftKey && event.key === "ArrowLeft" ? () => this.axis.pan(-0.25) : event.shiftKey && event.key === "ArrowRight" ? () => this.axis.pan(0.25) : act[event.key];
    if (!found || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    found();
  }
}

let made = 0;

function label(): HTMLElement {
  const part = (name: string) => h("span", { class: name });
  return h("div", { class: "span-label", role: "treeitem", id: `span-row-${++made}` }, part("twisty"), part("dot"), part("name"), part("length"));
}

function parentOf(rows: Row[], idx: number): number {
  const depth = rows[idx]?.depth ?? 0;
  for (let above = idx - 1; above >= 0; above--) if ((rows[above]?.depth ?? 0) < depth) return above;
  return Math.max(idx, 0);
}

function nameOf({ kind, span, folded, ticks }: Row): string {
  if (kind === "fold") return `${span.name} x ${count(folded.length)}${longestGap(ticks)}`;
  if (kind === "events") return `chunks x ${count(ticks.length)}${longestGap(ticks)}`;
  return `${span.name}${span.isOrphan ? " (parent unknown)" : ""}${span.isLate ? " (late)" : ""}`;
}

function longestGap(ticks: number[]): string {
  const longest = gapsOf(ticks).reduce((longest, { from, to }) => Math.max(longest, to - from), 0);
  return longest > 0 ? `, longest gap ${seconds(longest / 1000)}` : "";
}

function lengthOf({ kind, span, ticks }: Row): number {
  if (kind === "span") return span.end - span.start;
  return ticks.reduce((most, tick) => Math.max(most, tick), -Infinity) - ticks.reduce((least, tick) => Math.min(least, tick), Infinity);
}

/** One tick per chunk; gaps that are longer than usual are boxes with their length. */
function drawTicks(ctx: CanvasRenderingContext2D, axis: Axis, ticks: number[], top: number, hue: string): void {
  ctx.font = "11px system-ui, sans-serif";
  for (const { from, to } of gapsOf(ticks)) {
    const [left, width] = [axis.x(from), axis.x(to) - axis.x(from)];
    ctx.fillStyle = colour("gap");
    ctx.fillRect(left, top + 4, width, ROW_HEIGHT - 9);
    ctx.fillStyle = colour("text");
    if (width > 70) ctx.fillText(`gap ${seconds((to - from) / 1000)}`, left + 6, top + 15);
  }
  ctx.fillStyle = hue;
  for (const tick of ticks) ctx.fillRect(axis.x(tick), top + 4, 1.5, ROW_HEIGHT - 9);
}
