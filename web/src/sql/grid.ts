// Rows as a table of which only what is in sight exists.

import { h } from "../dom";
import type { Rows } from "../rows";

const ROW_HEIGHT = 26;
const ROWS_SHOWN = 18;

/** Rows that decide how wide columns are. */
const MEASURED = 60;

export function grid(rows: Rows): HTMLElement {
  const names = rows.names;
  const widths = names.map((name) => {
    let longest = name.length + 2;
    for (let row = 0; row < Math.min(rows.length, MEASURED); row++) longest = Math.max(longest, rows.cell(name, row).length);
    return `${Math.min(longest, 44) + 3}ch`;
  });
  const columns = widths.join(" ");
  const line = (className: string, role: string) => {
    const element = h("div", { class: className, role });
    element.style.gridTemplateColumns = columns;
    return element;
  };
  const head = line("grid-row grid-head", "row");
  for (const name of names) head.appendChild(h("div", { role: "columnheader" }, name));
  const body = h("div", { class: "grid-body" });
  const spacer = h("div", { class: "spacer" });
  spacer.style.height = `${rows.length * ROW_HEIGHT}px`;
  spacer.appendChild(body);
  const root = h("div", { class: "grid", role: "table", tabindex: "0", "aria-rowcount": String(rows.length + 1), "aria-label": "Rows of the answer" }, head, spacer);
  root.style.maxHeight = `${(ROWS_SHOWN + 1) * ROW_HEIGHT}px`;
  let drawn = "";
  const draw = () => {
    const first = Math.max(Math.floor(root.scrollTop / ROW_HEIGHT) - 4, 0);
    const last = Math.min(first + ROWS_SHOWN + 10, rows.length);
    if (drawn === `${first}-${last}`) return;
    drawn = `${first}-${last}`;
    body.style.transform = `translateY(${first * ROW_HEIGHT}px)`;
    body.replaceChildren();
    for (let row = first; row < last; row++) {
      const element = line("grid-row", "row");
      element.setAttribute("aria-rowindex", String(row + 2));
      for (const name of names) element.appendChild(cell(rows, name, row));
      body.appendChild(element);
    }
  };
  root.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  draw();
  return root;
}

function cell(rows: Rows, name: string, row: number): HTMLElement {
  if (rows.raw(name, row) === null) return h("div", { role: "cell", class: "absent", title: "absent (NULL)" }, "NULL");
  const text = rows.cell(name, row);
  const children = name === "trace_id" && /^[0-9a-f]{32}$/.test(text) ? h("a", { href: `#/trace/${text}` }, text) : text;
  return h("div", { role: "cell", class: rows.isNumber(name) ? "num" : "", title: text }, children);
}
