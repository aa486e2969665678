// The frame of the page: which view is shown, the token, light and dark.

import "uplot/dist/uPlot.min.css";
import "./style/base.css";
import "./style/charts.css";
import "./style/trace.css";
import "./style/sql.css";

import { ask, Problem, setToken, token } from "./api";
import { append, button, choice, fill, h } from "./dom";
import { failed } from "./panel";
import { address, current } from "./route";
import * as theme from "./theme";

type View = (into: HTMLElement, signal: AbortSignal) => void | Promise<void>;

const VIEWS: Record<string, { title: string; load: () => Promise<{ view: View }> }> = {
  overview: { title: "Overview", load: () => import("./overview/index") },
  trace: { title: "Trace", load: () => import("./trace/index") },
  sql: { title: "SQL", load: () => import("./sql/index") },
};

const main = h("main", { id: "view", tabindex: "-1" });
const gate = h("div", { class: "gate" });
const nav = h("nav", { "aria-label": "Views" });
let shown: AbortController | undefined;

/** Views that are open at the time are ended by their signal. */
async function render(): Promise<void> {
  shown?.abort();
  const controller = new AbortController();
  shown = controller;
  const { view } = current();
  const known = VIEWS[view];
  document.title = known ? `${known.title} - Whyslow` : "Whyslow";
  fill(nav, ...Object.entries(VIEWS).map(([name, { title }]) => link(name, title, view)));
  main.replaceChildren();
  main.className = `view-${view}`;
  if (!known) {
    append(main, [failed(new Problem(404, "page", `there is no view \`${view}\``)), h("a", { href: "#/" }, "To the overview")]);
    return;
  }
  try {
    const { view } = await known.load();
    if (!controller.signal.aborted) await view(main, controller.signal);
  } catch (error) {
    if (!controller.signal.aborted) fill(main, failed(error, () => void render()));
  }
}

function link(name: string, title: string, open: string): HTMLElement {
  return h("a", { href: address(name), "aria-current": name === open ? "page" : undefined }, title);
}

/** Asks for a token where the server wants one. */
function askForToken(why: string): void {
  if (gate.hasChildNodes()) return;
  const input = h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true });
  const said = h("p", { class: "note", role: "alert" }, token() ? `The token was refused: ${why}` : why);
  const form = h(
    "form",
    {
      on: {
        submit: (event) => {
          event.preventDefault();
          void enter(input.value.trim(), said);
        },
      },
    },
    h("h2", {}, "This server asks for a token"),
    said,
    h("label", { class: "field", for: "token" }, h("span", {}, "Bearer token"), input),
    h("p", { class: "note" }, "It is one of those that `bearertokenauth` of the server's configuration has. It stays in this tab until the tab is closed."),
    h("button", { type: "submit" }, "Enter"),
  );
  fill(gate, form);
  main.hidden = true;
  input.focus();
}

async function enter(text: string, said: HTMLElement): Promise<void> {
  setToken(text);
  try {
    await ask("v1/tables");
  } catch (error) {
    said.textContent = error instanceof Problem ? `The token was refused: ${error.message}` : String(error);
    if (error instanceof Problem && error.status === 401) return;
  }
  gate.replaceChildren();
  main.hidden = false;
  leave.hidden = false;
  await render();
  main.focus();
}

const leave = button("Forget token", () => {
  setToken("");
  location.reload();
});

function themes(): HTMLElement {
  const options = [["auto", "as the system"], ["light", "light"], ["dark", "dark"]] as const;
  return choice("Colours", options, theme.chosen(), (value) => theme.choose(value as theme.Theme));
}

function start(): void {
  theme.watch();
  leave.hidden = !token();
  const app = document.getElementById("app");
  if (!app) return;
  append(app, [
    h("a", { class: "skip", href: "#view", on: { click: (event) => (event.preventDefault(), main.focus()) } }, "Skip to content"),
    h("header", { class: "top" }, h("a", { class: "brand", href: "#/" }, "Whyslow"), nav, h("span", { class: "spring" }), leave, themes()),
    gate,
    main,
  ]);
  document.addEventListener("whyslow-token", (event) => askForToken((event as CustomEvent<string>).detail));
  addEventListener("hashchange", () => void render());
  void render();
}

start();
