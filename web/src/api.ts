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
  const bytes = new Uint8Array(await answer.arrayBuffer());
  return new Rows(tableFromIPC(bytes), rowLimit);
}

/** An answer as a file. */
export async function file(sql: string, format: Format): Promise<Blob> {
  return (await post(sql, format, undefined)).blob();
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

let known: Promise<TableDoc[]> | undefined;

/** Tables and views with their columns; asked for once. */
export function tables(): Promise<TableDoc[]> {
  known ??= ask("v1/tables")
    .then((answer) => answer.json() as Promise<{ tables: TableDoc[]; views: TableDoc[] }>)
    .then(({ tables, views }) => [...views, ...tables])
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
