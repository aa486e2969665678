// A panel: a heading, what it shows, and the statement behind it, which can be read, copied and opened in the editor.
// Its states say what to do: while it waits, where there is nothing, where something is wrong.

import { Problem } from "./api";
import { button, copy, fill, h } from "./dom";
import { address } from "./route";

export interface Panel {
  root: HTMLElement;
  body: HTMLElement;
  /** Says more beside the heading. */
  aside: (text: string) => void;
  /** Shows the statements behind it. */
  behind: (...statements: Statement[]) => void;
}

export interface Statement {
  about: string;
  sql: string;
}

let made = 0;

export function panel(title: string, attributes: { class?: string; note?: string } = {}): Panel {
  const id = `panel-${++made}`;
  const body = h("div", { class: "panel-body" });
  const aside = h("span", { class: "aside", role: "status" });
  const statements = h("div", { class: "statements" });
  const root = h(
    "section",
    { class: `panel ${attributes.class ?? ""}`.trim(), "aria-labelledby": id },
    h("header", {}, h("h2", { id }, title), aside),
    attributes.note && h("p", { class: "note" }, attributes.note),
    body,
    statements,
  );
  return {
    root,
    body,
    aside: (text) => (aside.textContent = text),
    behind: (...shown) => fill(statements, shown.length > 0 && disclosure(shown)),
  };
}

function disclosure(statements: Statement[]): HTMLElement {
  const title = statements.length === 1 ? "SQL behind this" : `SQL behind this (${statements.length} statements)`;
  return h("details", { class: "sql" }, h("summary", {}, title), ...statements.map(statementBox));
}

/** One statement with its buttons. */
export function statementBox({ about, sql }: Statement): HTMLElement {
  const said = h("span", {}, "Copy as SQL");
  const copied = h("button", { type: "button", on: { click: () => void copy(sql, said) } }, said);
  return h(
    "div",
    { class: "statement" },
    h(
      "div",
      { class: "statement-head" },
      h("span", {}, about),
      copied,
      h("a", { href: address("sql", "", { q: sql }) }, "Open in editor"),
    ),
    h("pre", { tabindex: "0" }, h("code", {}, sql)),
  );
}

export function loading(what: string): HTMLElement {
  return h("p", { class: "state loading", role: "status" }, `Asking for ${what} ...`);
}

export function empty(what: string, remedy: string, ...actions: HTMLElement[]): HTMLElement {
  return h("div", { class: "state empty" }, h("p", {}, h("strong", {}, what)), h("p", {}, remedy), ...actions);
}

/** Codes of what is wrong with a statement itself. */
const BY_THE_STATEMENT = new Set(["syntax", "unknown_table", "unknown_column", "unanswerable", "not_read_only", "several_statements", "no_statement"]);

/** What to do about each kind of problem. */
function remedyOf(problem: Problem): string {
  if (problem.code === "broken_off") return "Ask for less time or fewer rows, or raise `extensions::query::timeout`; the server's log says more.";
  if (problem.status === 0) return "Is `whyslow serve` still running, and reachable from here? Then try again.";
  if (problem.status === 401) return "Enter a token that the server knows.";
  if (problem.code === "timed_out") return "Ask for less time, or raise `extensions::query::timeout`.";
  if (problem.code === "out_of_memory") return "Ask for less time, or raise `extensions::query::memory_mib`.";
  if (problem.status === 503 || problem.status === 429) return "Many statements run at the moment. Try again in a second.";
  if (problem.status === 404) return "This server does not have it; a newer one may.";
  if (BY_THE_STATEMENT.has(problem.code)) return "Change the statement: the editor completes the names that there are.";
  if (problem.status >= 500) return "The server's log says more.";
  return "";
}

export function failed(error: unknown, retry?: () => void): HTMLElement {
  const problem = error instanceof Problem ? error : new Problem(-1, "page", String(error));
  const remedy = remedyOf(problem);
  return h(
    "div",
    { class: "state error", role: "alert" },
    h("p", {}, h("strong", {}, problem.status === -1 ? "The page failed" : "No answer"), `: ${problem.message}`),
    remedy && h("p", {}, remedy),
    retry && button("Try again", retry),
  );
}

/** Fills a panel with what a promise brings; a problem is shown in its place, a 401 is left to the page. */
export async function show<T>(
  into: Panel,
  what: string,
  signal: AbortSignal,
  work: () => Promise<T>,
  draw: (value: T) => void,
): Promise<void> {
  fill(into.body, loading(what));
  try {
    const value = await work();
    if (signal.aborted) return;
    into.body.replaceChildren();
    draw(value);
  } catch (error) {
    if (signal.aborted) return;
    into.aside("");
    fill(into.body, failed(error, () => void show(into, what, signal, work, draw)));
    if (error instanceof Problem && error.status === 401) {
      document.dispatchEvent(new CustomEvent("whyslow-token", { detail: error.message }));
    }
  }
}
