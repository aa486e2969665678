// Servers that the page is looked at with: the demo, and one with a token and what tests send to it.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = new URL("../..", import.meta.url).pathname;

/** Starts the binary; `ready` finds in its output what the caller needs to know. Stopped by `stop`. */
async function start(args, ready, patienceS) {
  const child = spawn(process.env.WHYSLOW_BIN, args, { cwd: ROOT, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  const take = (chunk) => (output += chunk);
  child.stdout.on("data", take);
  child.stderr.on("data", take);
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const stop = async () => {
    child.kill("SIGINT");
    await ended;
  };
  const found = await eventually(`\`whyslow ${args[0]}\` to be ready`, patienceS, async () => {
    if (child.exitCode !== null) throw new Error(`\`whyslow ${args.join(" ")}\` has ended:\n${output.slice(-4000)}`);
    return ready(output);
  });
  return { found, stop };
}

/** Waits until `look` gives something. */
export async function eventually(what, patienceS, look) {
  const until = Date.now() + patienceS * 1000;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > until) throw new Error(`waited ${patienceS} s in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** `whyslow demo --stay`: captured traffic with a burst and an injected slowdown of a GPU. */
export async function demo() {
  const { found, stop } = await start(["demo", "--stay"], (output) => /whyslow sql --server (http:\S+)[\s\S]*Running until/.exec(output)?.[1], 600);
  // Calls that no engine request has answered become rows some time after the others.
  await eventually("the rows of all calls", 240, async () => /^lake_calls_waiting 0$/m.test(await (await fetch(`${found}/metrics`)).text()));
  return { origin: found, stop };
}

/** Ports that nobody has at the moment. */
async function freePorts(n) {
  const servers = await Promise.all(
    Array.from({ length: n }, () => new Promise((resolve) => {
      const server = createServer().listen(0, "127.0.0.1", () => resolve(server));
    })),
  );
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

/** `whyslow serve` in a folder of its own, whose SQL wants a token. */
export async function guarded(token) {
  const folder = mkdtempSync(join(tmpdir(), "whyslow-page-"));
  const [otlp, query] = await freePorts(2);
  const config = join(folder, "whyslow.yaml");
  writeFileSync(config, `
receivers:
  otlp: {protocols: {http: {endpoint: '127.0.0.1:${otlp}'}}}
processors:
  tail_sampling:
    decision_wait: 2s
    num_traces: 2000000
    policies:
      - {name: kept, type: string_attribute, string_attribute: {key: kept, values: ['yes']}}
exporters:
  lake: {path: '${join(folder, "tables")}', commit_interval: 1s}
extensions:
  bearertokenauth: {token: '${token}'}
  write_ahead_log: {directory: '${join(folder, "log")}'}
  query: {endpoint: '127.0.0.1:${query}', auth: {authenticator: bearertokenauth}, postgres: {enabled: false}, flight_sql: {enabled: false}}

service:
  extensions: [bearertokenauth, write_ahead_log, query]
  pipelines:
    traces: {receivers: [otlp], processors: [tail_sampling], exporters: [lake]}
`);
  const origin = `http://127.0.0.1:${query}`;
  const { stop } = await start(["serve", "-c", config], async () => (await fetch(`${origin}/readyz`).catch(() => null))?.ok, 60);
  const sql = async (statement) => {
    const answer = await fetch(`${origin}/v1/sql`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
      body: JSON.stringify({ sql: statement }),
    });
    const text = await answer.text();
    let body;
    try {
      body = JSON.parse(text);
    } catch {
      throw new Error(`${statement}: ${answer.status}, not JSON: ${text.slice(0, 500)}`);
    }
    if (body.error) throw new Error(`${statement}: ${body.error.message}`);
    return body.rows;
  };
  const send = async (body) => {
    const answer = await fetch(`http://127.0.0.1:${otlp}/v1/traces`, { method: "POST", headers: { "Content-Type": "application/x-protobuf" }, body });
    return { status: answer.status, text: await answer.text() };
  };
  return { origin, sql, send, stop: async () => (await stop(), rmSync(folder, { recursive: true, force: true })) };
}

