// The critical path: what the end of a trace waited for.
//
// From the end of the longest root backwards: at each time, of the children that run then, one was waited for; what is
// between children is the span's own. Where several run, it is the one that began last: services often record a call
// beside the span that waited for it. What a span began and did not wait for (a stream that goes on when the call has
// returned) is waited for by whoever is above and still runs.

import type { Gap, Span, Trace } from "./model";

/** Parts of spans that are on the path. */
export type Path = Map<Span, Gap[]>;

/** Children that end this much of the trace before their parent end with it. */
const SAME_END = 0.005;

/** A span on the way down, and who waits when it has ended. */
interface Held {
  span: Span;
  above: Held | null;
}

export function criticalPath(trace: Trace): Path {
  const path: Path = new Map();
  const reaches = lastEnds(trace);
  const reachOf = (span: Span) => reaches.get(span) ?? span.end;
  const root = trace.roots.reduce<Span | null>((longest, span) => (!longest || reachOf(span) - span.start > reachOf(longest) - longest.start ? span : longest), null);
  if (!root) return path;
  const near = (trace.to - trace.from) * SAME_END;
  const stack: { held: Held; from: number; to: number }[] = [{ held: { span: root, above: null }, from: root.start, to: reachOf(root) }];
  for (let item = stack.pop(); item; item = stack.pop()) {
    const { held, from, to } = item;
    const waiting = [...held.span.children].sort((a, b) => reachOf(b) - reachOf(a));
    const running: Span[] = [];
    let at = to;
    let next = 0;
    while (at > from) {
      const least = at === to ? at - near : at;
      for (let child = waiting[next]; child && reachOf(child) >= least; child = waiting[++next]) insert(running, child);
      const child = running.pop() ?? waiting[next++];
      if (!child) break;
      if (child.start >= at) continue;
      const [begin, end] = [Math.max(child.start, from), Math.min(reachOf(child), at)];
      if (end <= begin) continue;
      own(path, held, end, at);
      stack.push({ held: { span: child, above: held }, from: begin, to: end });
      at = begin;
    }
    own(path, held, from, at);
  }
  return path;
}

/** The last end in the subtree of each span, from the leaves up: parents come before their children in `order`. */
function lastEnds(trace: Trace): Map<Span, number> {
  const order: Span[] = [...trace.roots];
  for (let idx = 0; idx < order.length; idx++) for (const child of order[idx]?.children ?? []) order.push(child);
  const reaches = new Map<Span, number>();
  for (let idx = order.length - 1; idx >= 0; idx--) {
    const span = order[idx];
    if (!span) continue;
    let reach = span.end;
    for (const child of span.children) reach = Math.max(reach, reaches.get(child) ?? child.end);
    reaches.set(span, reach);
  }
  return reaches;
}

/** Keeps the one that began last at the end. */
function insert(running: Span[], child: Span): void {
  let [low, high] = [0, running.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((running[middle]?.start ?? 0) < child.start) low = middle + 1;
    else high = middle;
  }
  running.splice(low, 0, child);
}

/** A stretch in which no child was waited for: the span's own, and after its end that of who is above. */
function own(path: Path, held: Held, from: number, to: number): void {
  let [holder, end]: [Held | null, number] = [held, to];
  while (holder && end > from) {
    const until: number = holder.above === null ? end : Math.min(end, holder.span.end);
    if (until > from) add(path, holder.span, from, until);
    if (until >= end) return;
    from = Math.max(from, until);
    holder = holder.above;
  }
}

function add(path: Path, span: Span, from: number, to: number): void {
  const parts = path.get(span);
  if (parts) parts.push({ from, to });
  else path.set(span, [{ from, to }]);
}

/** Where the critical path spent its time, by service and name, longest first. */
export function contributors(path: Path): { service: string; name: string; ms: number }[] {
  const sums = new Map<string, { service: string; name: string; ms: number }>();
  for (const [{ service, name }, parts] of path) {
    const key = `${service}\n${name}`;
    const sum = sums.get(key) ?? { service, name, ms: 0 };
    sum.ms += parts.reduce((ms, { from, to }) => ms + to - from, 0);
    sums.set(key, sum);
  }
  return [...sums.values()].sort((a, b) => b.ms - a.ms);
}
