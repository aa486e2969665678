// The SQL view: an editor, its answer as a table and a chart, and both as an address and as files.

import { file, names, rows, type Format, type Names, type TableDoc } from "../api";
import { append, button, choice, copy, fill, h, save } from "../dom";
import { empty, failed, panel, show } from "../panel";
import { current, note } from "../route";
import { count, counted, seconds } from "../words";
import { editor, type Editor } from "./editor";
import { grid } from "./grid";
import { plot } from "./plot";

const FIRST = "SELECT * FROM slow_requests LIMIT 20";

/** A statement in the address is run when it is opened: statements only read. */
export async function view(into: HTMLElement, signal: AbortSignal): Promise<void> {
  const given = current().params.get("q");
  const write = panel("Statement", { class: "wide" });
  const answer = panel("Answer", { class: "wide" });
  append(into, [h("h1", { class: "sr" }, "SQL"), write.root, answer.root]);
  let found: Names | undefined;
  await show(write, "tables", signal, names, (names) => {
    found = names;
  });
  if (signal.aborted || !found) return;
  const { tables: known, functions } = found;
  const controls: { run: () => void } = { run: () => undefined };
  const made = editor(given ?? FIRST, known, functions, () => controls.run());
  signal.addEventListener("abort", () => made.destroy());
  let running = new AbortController();
  signal.addEventListener("abort", () => running.abort());
  controls.run = () => {
    running.abort();
    running = new AbortController();
    const sql = made.text().trim();
    if (!sql) return;
    note({ q: sql });
    const begun = performance.now();
    const inner = running.signal;
    answer.aside("");
    void show(answer, "rows", inner, () => rows(sql, inner), (found) => {
      const cut = found.isCut ? ` (cut at the limit of ${count(found.rowLimit)})` : "";
      answer.aside(`${counted(found.length, "row")}${cut} in ${seconds((performance.now() - begun) / 1000)}`);
      append(answer.body, [found.length > 0 ? views(found, signal) : empty("No row.", "The statement is right, and nothing matches it.")]);
    });
  };
  append(write.body, [examples(known, made, () => controls.run()), made.root, buttons(made, write.body, () => controls.run()), reference(known)]);
  if (given !== null) controls.run();
  else fill(answer.body, empty("Nothing asked yet.", "Run the statement with the button, or with Ctrl+Enter."));
  made.focus();
}

function examples(known: TableDoc[], made: Editor, run: () => void): HTMLElement {
  const withExample = known.filter((table) => table.example);
  const options = [["", "choose one"], ...withExample.map((table) => [table.name, `${table.name}: ${table.doc.split("?")[0] ?? ""}?`])] as [string, string][];
  return h(
    "div",
    { class: "bar" },
    choice("Example", options, "", (name) => {
      const example = withExample.find((table) => table.name === name)?.example;
      if (!example) return;
      made.replace(example);
      run();
    }),
  );
}

function buttons(made: Editor, into: HTMLElement, run: () => void): HTMLElement {
  const shared = h("span", {}, "Copy link");
  const share = () => {
    note({ q: made.text().trim() });
    void copy(location.href, shared);
  };
  const exported = (format: Format, label: string) => {
    const act = button(`Export ${label}`, () => {
      act.disabled = true;
      file(made.text(), format)
        .then((blob) => save(blob, `whyslow.${format}`))
        .catch((error: unknown) => into.appendChild(failed(error)))
        .finally(() => (act.disabled = false));
    });
    return act;
  };
  return h(
    "div",
    { class: "bar" },
    button("Run", run, { class: "primary", title: "Ctrl+Enter" }),
    h("button", { type: "button", on: { click: share } }, shared),
    exported("csv", "CSV"),
    exported("parquet", "Parquet"),
  );
}

function views(found: Awaited<ReturnType<typeof rows>>, signal: AbortSignal): HTMLElement {
  const place = h("div");
  const shown = h("div", { class: "switch", role: "group", "aria-label": "Show as" });
  const draw = (as: string) => {
    note({ as: as === "chart" ? as : undefined });
    fill(shown, ...[["table", "Table"], ["chart", "Chart"]].map(([name, label]) => button(label ?? "", () => draw(name ?? ""), { "aria-pressed": String(name === as) })));
    fill(place, as === "chart" ? plot(found, current().params, signal) : grid(found));
  };
  draw(current().params.get("as") === "chart" ? "chart" : "table");
  return h("div", {}, shown, place);
}

function reference(known: TableDoc[]): HTMLElement {
  const one = (table: TableDoc) =>
    h(
      "details",
      {},
      h("summary", {}, h("code", {}, table.name), ` ${table.doc}`),
      h("dl", { class: "details" }, ...table.columns.flatMap((column) => [h("dt", {}, column.name), h("dd", {}, `${[column.type, column.unit].filter(Boolean).join(", ")} ${column.doc}`)])),
    );
  return h("details", { class: "sql" }, h("summary", {}, "Tables and columns"), ...known.map(one));
}
