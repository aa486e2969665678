// The server's answers. Data is asked for with the token that the person gave, which stays in this tab's session storage;
// the address of the server is where the page came from, nothing else is ever asked.

import { tableFromIPC } from "apache-arrow";

import { Rows } from "./rows";

const TOKEN = "whyslow-token";

export function token(): string {
  return sessionStorage.getItem(TOKEN) ?? "";
}

export function setToken(text: string): void {
  if (text) sessionStorage.setItem(TOKEN, text);
  else sessionStorage.removeItem(TOKEN);
}

/** Why there is no answer. `status` is 0 where the server was not reached. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** Asks with the token; an answer that is none becomes a `Problem`. */
export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (token()) headers.set("Authorization", `Bearer ${token()}`);
  let answer: Response;
  try {
    answer = await fetch(path, { ...init, headers });
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new Problem(0, "unreachable", "the server does not answer");
  }
  if (answer.ok) return answer;
  throw await problemOf(answer);
}

async function problemOf(answer: Response): Promise<Problem> {
  const text = await answer.text();
  try {
    const { error } = JSON.parse(text) as { error: { code: string; message: string } };
    return new Problem(answer.status, error.code, error.message);
  } catch {
    return new Problem(answer.status, "unknown", text.slice(0, 500) || answer.statusText);
  }
}

export type Format = "json" | "csv" | "arrow" | "parquet";

function post(sql: string, format: Format, limit: number | undefined, signal?: AbortSignal): Promise<Response> {
  return ask("v1/sql", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ sql, format, ...(limit ? { limit } : {}) }),
    ...(signal ? { signal } : {}),
  });
}

/** Rows of a statement. */
export async function rows(sql: string, signal?: AbortSignal, limit?: number): Promise<Rows> {
  const answer = await post(sql, "arrow", limit, signal);
  const rowLimit = Number(answer.headers.get("whyslow-row-limit"));
  const bytes = new Uint8Array(await whole(answer.arrayBuffer(), sql, signal));
  return new Rows(tableFromIPC(bytes), rowLimit);
}

/** An answer as a file. */
export async function file(sql: string, format: Format): Promise<Blob> {
  return whole((await post(sql, format, undefined)).blob(), sql);
}

/** Milliseconds after which a statement is not run again to learn why it has failed. */
const PATIENCE_MS = 5000;

/** A body; one that breaks off becomes a `Problem`. */
async function whole<T>(body: Promise<T>, sql: string, signal?: AbortSignal): Promise<T> {
  const begun = performance.now();
  try {
    return await body;
  } catch (cause) {
    if (signal?.aborted) throw cause;
    const isSoon = performance.now() - begun < PATIENCE_MS;
    throw (isSoon && (await whyBrokenOff(sql, signal))) || new Problem(0, "broken_off", "the answer broke off after it had begun");
  }
}

/** Bytes at the end of an answer in JSON in which its error stands. */
const TAIL_BYTES = 16_384;

/** Only JSON has room for an error after its first rows: the statement is asked again in it, and the end is read. */
async function whyBrokenOff(sql: string, signal?: AbortSignal): Promise<Problem | null> {
  const body = (await post(sql, "json", undefined, signal)).body?.getReader();
  let tail = new Uint8Array();
  for (let part = await body?.read(); body && part && !part.done; part = await body.read()) {
    const joined = new Uint8Array(tail.length + part.value.length);
    joined.set(tail);
    joined.set(part.value, tail.length);
    tail = joined.slice(-TAIL_BYTES);
  }
  // Cut at any byte, its beginning may be half a character; what is looked for is text of ours, which no value has: quotes in
  // values are escaped.
  const found = /"elapsed_ms":\d+,"error":(\{.*\})\}\s*$/s.exec(new TextDecoder().decode(tail));
  if (!found?.[1]) return null;
  const { code, message } = JSON.parse(found[1]) as { code: string; message: string };
  return new Problem(200, code, message);
}

export interface ColumnDoc {
  name: string;
  type?: string;
  unit?: string;
  doc: string;
}

export interface TableDoc {
  name: string;
  doc: string;
  example?: string;
  columns: ColumnDoc[];
}

export interface FunctionDoc {
  name: string;
  kind: "scalar" | "aggregate" | "window" | "table";
  /** Of our own functions. */
  signature?: string;
  doc?: string;
}

/** What a statement can name. */
export interface Names {
  tables: TableDoc[];
  functions: FunctionDoc[];
}

interface Listed {
  tables: TableDoc[];
  views: TableDoc[];
  functions: FunctionDoc[];
  other_functions: FunctionDoc[];
}

let known: Promise<Names> | undefined;

/** Tables and views with their columns, and functions; asked for once. */
export function names(): Promise<Names> {
  known ??= ask("v1/tables")
    .then((answer) => answer.json() as Promise<Listed>)
    .then(({ tables, views, functions, other_functions: others }) => ({ tables: [...views, ...tables], functions: [...functions, ...others] }))
    .catch((problem: unknown) => {
      known = undefined;
      throw problem;
    });
  return known;
}

/** A text as SQL spells it. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
