// How long the page takes with much: a trace of twenty thousand spans, a day of a million requests. Printed, and judged
// only where WHYSLOW_PAGE_JUDGE is set: other work on the machine, and an unoptimised build, make times longer.

import { strict as assert } from "node:assert";

import { settled, tab } from "./browser.mjs";
import { eventually } from "./servers.mjs";
import { day, largeTrace } from "./spans.mjs";

const SPANS = Number(process.env.WHYSLOW_PAGE_SPANS ?? 20_000);
const REQUESTS = Number(process.env.WHYSLOW_PAGE_REQUESTS ?? 1_000_000);

async function send(server, body) {
  for (let attempt = 0; ; attempt++) {
    const { status, text } = await server.send(body);
    if (status === 200) return;
    assert.ok((status === 429 || status === 503) && attempt < 600, `${status}: ${text}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** Sends the trace; its id. */
export async function sendTrace(server, say) {
  const { traceId, bodies } = largeTrace(SPANS, Date.now() - 3 * SPANS);
  for (const body of bodies) await send(server, body);
  await eventually("the large trace", 300, async () => (await server.sql(`SELECT count(*) FROM spans WHERE trace_id = '${traceId}'`))[0][0] >= SPANS);
  say(`sent a trace of ${SPANS} spans`);
  return traceId;
}

export async function sendDay(server, say, n = REQUESTS) {
  const begun = Date.now();
  for (const body of day(n, Date.now())) await send(server, body);
  await eventually("the day", 1800, async () => (await server.sql("SELECT count(*) FROM requests"))[0][0] >= n);
  say(`sent a day of ${n} requests in ${((Date.now() - begun) / 1000).toFixed(0)} s`);
}

async function entered(browser, server, secret) {
  const opened = await tab(browser, server.origin, { expected: ["401"] });
  // An empty page has no storage.
  await opened.page.addInitScript((secret) => location.protocol === "http:" && sessionStorage.setItem("whyslow-token", secret), secret);
  return opened;
}

export async function largeTraceView(browser, server, secret, traceId, say) {
  const { page, faults, context } = await entered(browser, server, secret);
  const opens = await opened(page, "whyslow-trace-drawn", `${server.origin}/#/trace/${traceId}`);
  say(`trace of ${SPANS} spans, navigation to painted rows: ${list(opens)}`);
  const shown = await page.locator(".span-label:visible").count();
  assert.ok(shown > 10 && shown < 40, `${shown} rows exist of ${SPANS}`);
  const { frames, slow, longest } = await scrolled(page);
  say(`scrolling: ${frames} frames, median ${longest.median.toFixed(1)} ms, 99th percentile ${longest.p99.toFixed(1)} ms, ${slow} above 25 ms; drawing one takes ${longest.work.toFixed(2)} ms`);
  judge(median(opens.map(({ whole }) => whole)) < 1000, "opens in a second");
  judge(longest.median < 17.5, "scrolls at 60 frames a second");
  assert.deepEqual(faults, []);
  await context.close();
}

/** Opens the address five times in a new document; what each took. The first has no file of the page in its cache. */
async function opened(page, mark, address) {
  const times = [];
  for (let round = 0; round < 5; round++) {
    await page.goto("about:blank");
    times.push(await worked(page, mark, address));
    // What the view asks for afterwards must not run into the next round.
    await settled(page);
  }
  return times;
}

/** With what the page's thread worked for it: other work on the machine makes only the wait longer. */
async function worked(page, mark, address) {
  const client = await page.context().newCDPSession(page);
  await client.send("Performance.enable", { timeDomain: "threadTicks" });
  const ticks = async () => (await client.send("Performance.getMetrics")).metrics.find(({ name }) => name === "ThreadTime").value;
  await page.goto(address, { waitUntil: "commit" });
  const time = await timed(page, mark);
  const cpu = (await ticks()) * 1000;
  await client.detach();
  return { ...time, cpu };
}

/**
 * Milliseconds from the start of the navigation to the frame after the one in which the view has set its mark, so that what
 * it drew is painted; of them, those until the page's scripts asked for data, and those in which an answer was waited for.
 * What is left is the page's own work on the answers.
 */
async function timed(page, mark) {
  return page.evaluate(
    (mark) =>
      new Promise((resolve) => {
        const done = () => {
          const marked = performance.getEntriesByName(mark)[0].startTime;
          const asked = performance.getEntriesByType("resource").filter(({ name, responseEnd }) => name.includes("/v1/") && responseEnd > 0 && responseEnd <= marked);
          const [from, to] = [Math.min(...asked.map(({ startTime }) => startTime)), Math.max(...asked.map(({ responseEnd }) => responseEnd))];
          const whole = performance.now();
          resolve({ whole, scripts: from, server: to - from, own: whole - to });
        };
        const look = () => (performance.getEntriesByName(mark).length > 0 ? requestAnimationFrame(() => requestAnimationFrame(done)) : requestAnimationFrame(look));
        look();
      }),
    mark,
  );
}

/** Scrolls through all rows for three seconds, under the browser's tracing. */
async function scrolled(page) {
  const client = await page.context().newCDPSession(page);
  const events = [];
  client.on("Tracing.dataCollected", ({ value }) => events.push(...value));
  await client.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["devtools.timeline", "disabled-by-default-devtools.timeline.frame"] } });
  await page.evaluate(async () => {
    const tree = document.querySelector("[role=tree]");
    // Everything open that can be closed is; folds are opened by their rows.
    const begun = performance.now();
    await new Promise((resolve) => {
      const step = (now) => {
        const share = (now - begun) / 3000;
        tree.scrollTop = share * (tree.scrollHeight - tree.clientHeight);
        if (share < 1) requestAnimationFrame(step);
        else resolve();
      };
      requestAnimationFrame(step);
    });
  });
  const done = new Promise((resolve) => client.once("Tracing.tracingComplete", resolve));
  await client.send("Tracing.end");
  await done;
  const fires = events.filter(({ name, ph }) => name === "FireAnimationFrame" && ph === "X");
  const starts = [...new Set(fires.map(({ ts }) => ts))].sort((a, b) => a - b);
  const frames = [];
  let last = starts[0];
  for (const ts of starts) {
    // Several callbacks of one frame follow each other at once.
    if (ts - last > 4000) {
      frames.push((ts - last) / 1000);
      last = ts;
    }
  }
  const work = fires.reduce((sum, { dur }) => sum + (dur ?? 0), 0) / 1000 / Math.max(frames.length, 1);
  const sorted = [...frames].sort((a, b) => a - b);
  return { frames: frames.length, slow: frames.filter((ms) => ms > 25).length, longest: { median: median(frames), p99: sorted[Math.floor(sorted.length * 0.99)] ?? 0, work } };
}

export async function dayView(browser, server, secret, say) {
  const { page, faults, context } = await entered(browser, server, secret);
  const bounds = await server.sql("SELECT min(start_time), max(start_time), count(*) FROM requests WHERE position = 'engine'");
  const [from, to] = [Date.parse(bounds[0][0]), Date.parse(bounds[0][1]) + 1];
  const draws = await opened(page, "whyslow-overview-drawn", `${server.origin}/#/overview?from=${from}&to=${to}`);
  const told = await page.locator(".panel .aside").first().textContent();
  say(`day: ${told}`);
  say(`day of ${bounds[0][2]} requests, navigation to painted heat map: ${list(draws)}`);
  judge(median(draws.map(({ whole }) => whole)) < 1000, "draws in a second");
  assert.deepEqual(faults, []);
  return { page, context };
}

function judge(is, what) {
  if (process.env.WHYSLOW_PAGE_JUDGE) assert.ok(is, what);
}

function list(times) {
  const said = (of) => times.map((time) => of(time).toFixed(0)).join(", ");
  return (
    `${said(({ whole }) => whole)} ms; of them until data is asked for ${said(({ scripts }) => scripts)} ms, the server's answers ` +
    `${said(({ server }) => server)} ms, drawing ${said(({ own }) => own)} ms; work of the page's thread ${said(({ cpu }) => cpu)} ms`
  );
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}
