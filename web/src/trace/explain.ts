// Explanations of the requests of a trace, as the server gives them (`GET /v1/explain/TRACE_ID`): what is said, what
// speaks for and against it, and the statement that shows the rows behind each fact.

import { ask } from "../api";
import { choice, h } from "../dom";
import { address } from "../route";
import { counted, seconds } from "../words";

export interface Fact {
  text: string;
  source: string;
  strength: string;
  sql?: string | null;
}

export interface Hypothesis {
  cause: string;
  standing: "supported" | "contradicted" | "undecided";
  for: Fact[];
  against: Fact[];
}

export interface Explained {
  trace_id: string;
  /** Engine requests in the trace; the longest of them are explained. */
  requests: number;
  explanations: Explanation[];
}

export interface Explanation {
  trace_id: string;
  span_id: string | null;
  request_id: string | null;
  model: string | null;
  outcome: string | null;
  verdict: string;
  slow_phase: string | null;
  cohort_requests: number;
  cohort_sql: string | null;
  phases: { phase: string; seconds: number | null; usual_s: number | null; start_unix_nano: number | null }[];
  course: { link: string | null; clock_ahead_ns: number | null } | null;
  hypotheses: Hypothesis[];
  open: string[];
}

/** What a verdict says, in a sentence. */
const VERDICTS: Record<string, string> = {
  usual: "No phase took longer than is usual for requests like it.",
  client: "The client itself, or the way from it, took the time.",
  gateway: "The gateway held the request before it called on.",
  retrieval: "The search for documents took the time.",
  service: "Another service before the engine took the time.",
  xid: "A GPU reported an error, and the engine stood still.",
  ecc: "Memory of a GPU had errors that could not be corrected.",
  queueing: "More requests came than the engine takes at once: it waited in the queue.",
  kv_cache: "The KV cache had no room.",
  prefix_cache: "Less of its prompt than usual was in the prefix cache.",
  input_length: "Its own prompt is longer than those of requests like it.",
  long_prefill: "Long prompts of other requests took the engine's steps.",
  thermal_throttle: "A GPU was slowed by heat.",
  power_throttle: "A GPU was slowed by an external power brake.",
  nvlink: "The link between the GPUs made errors.",
  delivery: "The answer was taken slowly after the engine was done.",
  unknown: "The facts carry no cause.",
};

const STANDINGS = { supported: "supported", contradicted: "ruled out", undecided: "cannot be decided" } as const;

export async function load(traceId: string, signal: AbortSignal): Promise<Explained> {
  const answer = await ask(`v1/explain/${encodeURIComponent(traceId)}`, { signal });
  return (await answer.json()) as Explained;
}

/** The explanation of one request, and a choice of the others. */
export function draw(explained: Explained, wanted: string | null, choose: (spanId: string) => void): HTMLElement {
  const { explanations, requests } = explained;
  const shown = explanations.find(({ span_id }) => span_id === wanted) ?? explanations[0];
  if (!shown) return h("p", { class: "note" }, "No engine request is in this trace, so there is nothing to explain.");
  const options = explanations.map((one) => [one.span_id ?? "", `${one.request_id ?? one.span_id ?? "unnamed"}: ${one.verdict}`] as const);
  const more = requests > explanations.length ? `the ${explanations.length} longest of ${requests} requests` : counted(requests, "request");
  return h(
    "div",
    {},
    explanations.length > 1 && h("div", { class: "bar" }, choice(`Request (${more})`, options, shown.span_id ?? "", choose)),
    drawOne(shown),
  );
}

function drawOne(explanation: Explanation): HTMLElement {
  const { verdict, slow_phase: phase, hypotheses, open } = explanation;
  const order = ["supported", "undecided", "contradicted"];
  const sorted = [...hypotheses].sort((a, b) => order.indexOf(a.standing) - order.indexOf(b.standing) || Number(b.cause === verdict) - Number(a.cause === verdict));
  return h(
    "div",
    { class: "explanation" },
    h("p", { class: "verdict", id: "verdict" }, h("strong", {}, sentence(explanation)), " ", h("code", {}, verdict)),
    h(
      "p",
      {},
      phase ? `The phase that is too long: ${phase}. ` : "",
      `Compared with ${counted(explanation.cohort_requests, "request")} like it within an hour`,
      explanation.cohort_sql && " (",
      explanation.cohort_sql && h("a", { href: address("sql", "", { q: explanation.cohort_sql }) }, "what is usual"),
      explanation.cohort_sql ? ")." : ".",
    ),
    phases(explanation),
    ...sorted.map((hypothesis) => drawHypothesis(hypothesis, hypothesis.cause === verdict)),
    open.length > 0 && h("h3", {}, "What cannot be concluded"),
    open.length > 0 && h("ul", {}, ...open.map((text) => h("li", {}, text))),
  );
}

/** Without others like it, nothing can be said of what is usual. */
function sentence({ verdict, cohort_requests: n }: Explanation): string {
  if (verdict === "usual" && n === 0) return "No other request like it is known: whether it was slow cannot be said.";
  return VERDICTS[verdict] ?? verdict;
}

function phases({ phases }: Explanation): HTMLElement | null {
  if (phases.length === 0) return null;
  const head = ["Phase", "Took", "Usual", "Times usual"].map((name) => h("th", { scope: "col" }, name));
  const lines = phases.map(({ phase, seconds: took, usual_s: usual }) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, phase),
      h("td", { class: "num" }, seconds(took)),
      h("td", { class: "num" }, seconds(usual)),
      h("td", { class: "num" }, took !== null && usual ? `${(took / usual).toFixed(1)}` : "-"),
    ),
  );
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...lines)));
}

function drawHypothesis({ cause, standing, for: pro, against }: Hypothesis, isVerdict: boolean): HTMLElement {
  const facts = [...pro.map((fact) => drawFact("for", fact)), ...against.map((fact) => drawFact("against", fact))];
  return h(
    "details",
    { class: `hypothesis ${standing}`, open: isVerdict },
    h("summary", {}, h("span", { class: `badge ${standing}` }, STANDINGS[standing]), ` ${cause.replaceAll("_", " ")}`),
    facts.length > 0 ? h("ul", {}, ...facts) : h("p", { class: "note" }, "No fact is stored that would tell."),
  );
}

function drawFact(side: "for" | "against", fact: Fact): HTMLElement {
  const { sql } = fact;
  const how = { observed: "measured on this request", co_temporal: "measured at the same time on what it used", derived: "computed" }[fact.strength] ?? fact.strength;
  return h(
    "li",
    {},
    h("span", { class: `side ${side}` }, side),
    ` ${fact.text} `,
    h("span", { class: "note" }, `(${how}; ${sql ? "" : fact.source}`),
    sql && h("a", { href: address("sql", "", { q: sql }), title: sql }, `rows of ${fact.source}`),
    h("span", { class: "note" }, ")"),
  );
}
