// A trace as a tree: children under their parents, streamed chunks folded into one row, clocks corrected on demand. Times
// are milliseconds from the trace's first start as recorded.

import type { Rows } from "../rows";

/** Equal leaves in a row from which they are folded. */
const FOLD_MIN = 6;

export interface Span {
  id: string;
  parentId: string | null;
  name: string;
  service: string;
  kind: string;
  host: string;
  isError: boolean;
  message: string;
  isLate: boolean;
  /** As recorded. */
  rawStart: number;
  rawEnd: number;
  /** As shown: the same, or corrected. */
  start: number;
  end: number;
  hasEnd: boolean;
  children: Span[];
  /** The parent is not among the spans. */
  isOrphan: boolean;
  /** Times of chunk events in it. */
  chunks: number[];
}

export interface Trace {
  /** Nanoseconds since 1970 of time 0. */
  zero: bigint;
  spans: Span[];
  byId: Map<string, Span>;
  roots: Span[];
  from: number;
  to: number;
}

/** Reads `statements.spans`. */
export function readSpans(rows: Rows): Trace {
  let zero: bigint | null = null;
  for (let row = 0; row < rows.length; row++) {
    const at = rows.big("start_time_unix_nano", row);
    if (at !== null && (zero === null || at < zero)) zero = at;
  }
  const base = zero ?? 0n;
  const since = (at: bigint | null) => (at === null ? null : Number(at - base) / 1e6);
  const byId = new Map<string, Span>();
  const spans: Span[] = [];
  for (let row = 0; row < rows.length; row++) {
    const start = since(rows.big("start_time_unix_nano", row)) ?? 0;
    const end = since(rows.big("end_time_unix_nano", row));
    const service = rows.text("service_name", row) ?? "(no service)";
    const span: Span = {
      id: rows.text("span_id", row) ?? "",
      parentId: rows.text("parent_span_id", row),
      name: rows.text("name", row) ?? "(no name)",
      service,
      kind: rows.text("kind", row) ?? "",
      host: rows.text("k8s_pod_name", row) ?? rows.text("service_instance_id", row) ?? service,
      isError: rows.text("status_code", row) === "ERROR",
      message: rows.text("status_message", row) ?? "",
      isLate: rows.flag("late", row),
      rawStart: start,
      rawEnd: Math.max(end ?? start, start),
      start,
      end: Math.max(end ?? start, start),
      hasEnd: end !== null,
      children: [],
      isOrphan: false,
      chunks: [],
    };
    spans.push(span);
    if (!byId.has(span.id)) byId.set(span.id, span);
  }
  const trace: Trace = { zero: base, spans, byId, roots: [], from: 0, to: 1 };
  link(trace);
  place(trace, new Map());
  return trace;
}

/** Puts chunks (`statements.chunks`) into their spans. */
export function addChunks(trace: Trace, rows: Rows): void {
  for (let row = 0; row < rows.length; row++) {
    const at = rows.big("time_unix_nano", row);
    if (at !== null) trace.byId.get(rows.text("span_id", row) ?? "")?.chunks.push(Number(at - trace.zero) / 1e6);
  }
}

function link(trace: Trace): void {
  for (const span of trace.spans) {
    const parent = span.parentId === null ? undefined : trace.byId.get(span.parentId);
    if (parent && parent !== span) parent.children.push(span);
    else {
      span.isOrphan = span.parentId !== null;
      trace.roots.push(span);
    }
  }
  openCircles(trace);
}

/** Senders can name each other as parents: a span that no root leads to becomes one. */
function openCircles(trace: Trace): void {
  const reached = new Set<Span>();
  const reach = (from: Span) => {
    const stack = [from];
    for (let span = stack.pop(); span; span = stack.pop()) {
      if (reached.has(span)) continue;
      reached.add(span);
      stack.push(...span.children);
    }
  };
  trace.roots.forEach(reach);
  if (reached.size === trace.spans.length) return;
  for (const span of trace.spans) {
    if (reached.has(span)) continue;
    const parent = trace.byId.get(span.parentId ?? "");
    if (parent) parent.children = parent.children.filter((child) => child !== span);
    span.isOrphan = true;
    trace.roots.push(span);
    reach(span);
  }
}

/** Moves the spans of each host by what its clock is ahead, in ms, and sorts children by time. */
export function place(trace: Trace, aheadMs: Map<string, number>): void {
  let [from, to] = [Infinity, -Infinity];
  for (const span of trace.spans) {
    const ahead = aheadMs.get(span.host) ?? 0;
    span.start = span.rawStart - ahead;
    span.end = span.rawEnd - ahead;
    from = Math.min(from, span.start);
    to = Math.max(to, span.end);
  }
  const byStart = (a: Span, b: Span) => a.start - b.start || b.end - a.end;
  for (const span of trace.spans) if (span.children.length > 1) span.children.sort(byStart);
  trace.roots.sort(byStart);
  trace.from = Number.isFinite(from) ? from : 0;
  trace.to = Number.isFinite(to) && to > trace.from ? to : trace.from + 1;
}

export interface Row {
  key: string;
  depth: number;
  span: Span;
  /** More than one where chunks are folded. */
  folded: Span[];
  /** Times of chunks that are drawn as ticks. */
  ticks: number[];
  kind: "span" | "fold" | "events";
  hasChildren: boolean;
  isOpen: boolean;
}

/** Rows from top to bottom. A fold is closed until it is opened, a span is open until it is closed. */
export function rowsOf(trace: Trace, toggled: Set<string>): Row[] {
  const rows: Row[] = [];
  const stack: { span: Span; depth: number; group: Span[] | null }[] = [];
  const push = (spans: Span[], depth: number) => {
    const groups = grouped(spans);
    for (let idx = groups.length - 1; idx >= 0; idx--) {
      const group = groups[idx];
      const first = group?.[0];
      if (group && first) stack.push({ span: first, depth, group: group.length > 1 ? group : null });
    }
  };
  push(trace.roots, 0);
  for (let item = stack.pop(); item; item = stack.pop()) {
    const { span, depth, group } = item;
    if (group) {
      const key = `fold-${span.id}`;
      const isOpen = toggled.has(key);
      const ticks = group.map((span) => span.start);
      rows.push({ key, depth, span, folded: group, ticks, kind: "fold", hasChildren: true, isOpen });
      if (isOpen) {
        for (let idx = group.length - 1; idx >= 0; idx--) {
          const inner = group[idx];
          if (inner) stack.push({ span: inner, depth: depth + 1, group: null });
        }
      }
      continue;
    }
    const isOpen = !toggled.has(span.id);
    const hasChildren = span.children.length > 0 || span.chunks.length > 0;
    rows.push({ key: span.id, depth, span, folded: [], ticks: [], kind: "span", hasChildren, isOpen });
    if (!isOpen) continue;
    if (span.chunks.length > 0) {
      const key = `chunks-${span.id}`;
      rows.push({ key, depth: depth + 1, span, folded: [], ticks: span.chunks, kind: "events", hasChildren: false, isOpen: false });
    }
    push(span.children, depth + 1);
  }
  return rows;
}

/** Siblings of one name without children are one group where they are many: a streamed answer has one per chunk. */
function grouped(spans: Span[]): Span[][] {
  if (spans.length < FOLD_MIN) return spans.map((span) => [span]);
  const byName = new Map<string, Span[]>();
  for (const span of spans) {
    if (span.children.length > 0 || span.chunks.length > 0) continue;
    const key = `${span.service}\n${span.name}`;
    const same = byName.get(key);
    if (same) same.push(span);
    else byName.set(key, [span]);
  }
  const groups: Span[][] = [];
  const done = new Set<Span[]>();
  for (const span of spans) {
    const same = span.children.length > 0 || span.chunks.length > 0 ? undefined : byName.get(`${span.service}\n${span.name}`);
    if (!same || same.length < FOLD_MIN) groups.push([span]);
    else if (!done.has(same)) {
      done.add(same);
      groups.push(same);
    }
  }
  return groups;
}

export interface Gap {
  from: number;
  to: number;
}

/** Gaps of ticks that were asked for: each drawn frame asks again. */
const gapsKnown = new WeakMap<number[], Gap[]>();

/** Gaps between ticks that are much longer than usual: three times the median, and 50 ms at least. */
export function gapsOf(ticks: number[]): Gap[] {
  let gaps = gapsKnown.get(ticks);
  if (!gaps) gapsKnown.set(ticks, (gaps = longGaps(ticks)));
  return gaps;
}

function longGaps(ticks: number[]): Gap[] {
  if (ticks.length < 3) return [];
  const sorted = [...ticks].sort((a, b) => a - b);
  const gaps = sorted.slice(1).map((to, idx) => ({ from: sorted[idx] ?? to, to }));
  const lengths = gaps.map(({ from, to }) => to - from).sort((a, b) => a - b);
  const least = Math.max(3 * (lengths[Math.floor(lengths.length / 2)] ?? 0), 50);
  return gaps.filter(({ from, to }) => to - from >= least);
}
