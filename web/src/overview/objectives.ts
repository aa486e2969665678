// The lines that requests are judged by: what the server's configuration promises (`GET /v1/objectives`) of those that are
// shown, or a number that was typed in its place.

import { ask, quoted } from "../api";
import { seconds } from "../words";
import type { State } from "./state";

export interface Objective {
  name: string;
  /** `*` stands for any text; NULL: every request. */
  model: string | null;
  input_band: string[];
  output_band: string[];
  promises: Promised[];
}

interface Promised {
  measure: string;
  position: string | null;
  threshold_s: number | null;
  target: number;
}

/** A time that is promised. */
export interface Line {
  name: string;
  s: number;
  /** Share of the requests that is promised not to take longer. */
  target: number | null;
  /** SQL conditions: of which requests. */
  of: string[];
}

/** Lines drawn at most: the first of the configuration. */
const LINES_MAX = 4;

/** The measure that a metric of the chart is. Others are not promised. */
const MEASURES: Record<string, { measure: string; position: string | null }> = {
  e2e_s: { measure: "e2e", position: null },
  engine_ttft_s: { measure: "ttft", position: "engine" },
  tpot_s: { measure: "tpot", position: null },
};

let known: Promise<Objective[]> | undefined;

/** Asked for once: the configuration is read at the start of the server. Without an answer, nothing is known to be promised. */
export function objectives(): Promise<Objective[]> {
  known ??= ask("v1/objectives")
    .then((answer) => answer.json() as Promise<{ objectives: Objective[] }>)
    .then(({ objectives }) => objectives)
    .catch(() => {
      known = undefined;
      return [];
    });
  return known;
}

/** The lines for what is shown: those of objectives that can be about it, or the one that was typed; 0 is none. */
export function linesOf(state: State, objectives: Objective[]): Line[] {
  if (state.sloS !== null) return state.sloS > 0 ? [{ name: "SLO", s: state.sloS, target: null, of: [] }] : [];
  const wanted = MEASURES[state.metric];
  if (!wanted) return [];
  const lines = objectives.filter((objective) => isAbout(objective, state.filters)).flatMap((objective) => {
    const promised = objective.promises.find(({ measure, position }) => measure === wanted.measure && position === wanted.position);
    return promised?.threshold_s ? [{ name: objective.name, s: promised.threshold_s, target: promised.target, of: conditions(objective) }] : [];
  });
  return lines.slice(0, LINES_MAX);
}

/** Can a request that passes the filters be one of the objective's? */
function isAbout({ model, input_band, output_band }: Objective, filters: Record<string, string>): boolean {
  const isIn = (bands: string[], chosen: string | undefined) => bands.length === 0 || chosen === undefined || bands.includes(chosen);
  const isModel = model === null || filters["model"] === undefined || matches(model, filters["model"]);
  return isModel && isIn(input_band, filters["input_band"]) && isIn(output_band, filters["output_band"]);
}

/** Does the text fit the pattern, in which `*` stands for any text? */
function matches(pattern: string, text: string): boolean {
  const parts = pattern.split("*").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return text !== "(none)" && new RegExp(`^${parts.join(".*")}$`, "s").test(text);
}

/** As `/metrics` judges: requests that ended well, each once. */
function conditions({ model, input_band, output_band }: Objective): string[] {
  const like = model?.replace(/[\\%_]/g, "\\$&").replaceAll("*", "%");
  const isIn = (column: string, bands: string[]) => (bands.length > 0 ? [`${column} IN (${bands.map(quoted).join(", ")})`] : []);
  return ["outcome = 'ok'", "NOT superseded", ...(like === undefined ? [] : [`model LIKE ${quoted(like)}`]), ...isIn("input_band", input_band), ...isIn("output_band", output_band)];
}

/** Name and time, for the chart. */
export function label({ name, s }: Line): string {
  return `${name} ${seconds(s)}`;
}
