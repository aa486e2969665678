// From chart to trace to GPU: what an engineer does with the demo's traffic.

import { strict as assert } from "node:assert";
import { readFileSync } from "node:fs";

import { pictures, settled, tab } from "./browser.mjs";
import { contrast } from "./contrast.mjs";

export async function story(browser, origin, say) {
  // One statement fails in the middle of its answer.
  const { page, faults, asked, context } = await tab(browser, origin, { expected: ["ERR_INCOMPLETE_CHUNKED_ENCODING"] });
  const goto = async (hash) => {
    await page.goto(`${origin}/${hash}`);
    await settled(page);
  };

  await goto("");
  const told = await page.locator(".panel .aside").first().textContent();
  say(`overview: ${told}`);
  assert.match(told, /^\d+ requests, \d+ kept/);
  await pictures(page, "overview", { fullPage: true });
  await contrast(page, say, "overview");
  await promises(page, goto, say);

  await selectBurst(page);
  const apart = await page.locator(".apart tbody tr").first().innerText();
  say(`burst selected: ${apart.replaceAll("\t", " | ")}`);
  await pictures(page, "region", { fullPage: true });
  const region = page.url();
  await page.reload();
  await settled(page);
  assert.equal(page.url(), region);
  assert.equal(await page.locator(".apart tbody tr").first().innerText(), apart, "the region is in the address");

  const slowest = page.locator(".requests tbody tr a").first();
  await slowest.click();
  await page.waitForURL(/#\/trace\//);
  await settled(page);
  const verdict = await page.locator("#verdict").innerText();
  say(`verdict: ${verdict.replaceAll("\n", " ")}`);
  assert.ok(verdict.length > 10);
  const lane = page.locator(".lane-row [role=img]", { has: page.locator("canvas") }).first();
  const said = await lane.getAttribute("aria-label");
  say(`GPU lane: ${said}`);
  assert.match(said, /GPU-5c1a7b42.* clock: .* usual under load .*slowed: .*heat/, "the injected slowdown is in the lane");
  await pictures(page, "trace", { fullPage: true });
  await contrast(page, say, "trace");
  await keyboard(page, say);
  await exports(page, say);
  await factRows(page, say);
  await copied(page, context, origin, say);
  await sqlView(page, goto, say);
  await otherStates(page, goto, origin);

  assert.deepEqual(faults, [], "nothing that a page must not do");
  say(`${asked.length} requests, all to ${origin}; no refusal of the policy, no error`);
  await context.close();
}

/** The lines of the configuration, one that was typed in their place, and none. */
async function promises(page, goto, say) {
  const judged = page.locator(".judged");
  await judged.getByText(/all: \d.* requests took longer than 5 s; 5.0 % may/).waitFor();
  say(`promised: ${await judged.innerText()}`);
  const field = page.getByLabel("SLO line, s");
  await field.fill("2.5");
  await field.press("Enter");
  await page.waitForURL(/slo=2.5/);
  await judged.getByText(/SLO: .* took longer than 2.5 s\.$/).waitFor();
  await goto("#/overview?slo=0");
  assert.equal(await judged.innerText(), "");
  await goto("#/overview?metric=engine_ttft_s");
  await judged.getByText(/took longer than 1 s; 5.0 % may/).waitFor();
  await goto("#/overview?metric=queue_s");
  assert.equal(await judged.innerText(), "", "nothing is promised of it");
  await goto("");
}

/** Drags over the requests of the burst: those that waited long, from a second up. */
async function selectBurst(page) {
  const { rows } = await page.evaluate(async () => {
    const sql = "SELECT min(start_time), max(start_time), min(start_time) FILTER (WHERE queue_s > 2), max(start_time) FILTER (WHERE queue_s > 2) FROM requests";
    const answer = await fetch("v1/sql", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ sql }) });
    return answer.json();
  });
  const [first, last, from, to] = rows[0].map((text) => Date.parse(text));
  const box = await page.locator(".heat .u-over").boundingBox();
  // The chart has a second more on each side.
  const x = (ms) => box.x + (box.width * (ms - first + 1000)) / (last - first + 2000);
  await page.mouse.move(x(from - 500), box.y + 2);
  await page.mouse.down();
  await page.mouse.move(x(from + 500), box.y + box.height * 0.2, { steps: 4 });
  await page.mouse.move(x(Math.min(to, from + 10_000) + 500), box.y + box.height * 0.35, { steps: 4 });
  await page.mouse.up();
  await page.waitForURL(/region=/);
  await settled(page);
}

/** The rows are moved through, closed and zoomed without a mouse. */
async function keyboard(page, say) {
  const tree = page.getByRole("tree");
  await tree.focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowDown");
  await page.waitForURL(/span=/);
  const rows = () => page.locator(".span-label:visible").count();
  const before = await rows();
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowLeft");
  assert.ok((await rows()) < before, "the arrow closes the row");
  await page.keyboard.press("ArrowRight");
  assert.equal(await rows(), before);
  await page.keyboard.press("+");
  await page.waitForURL(/from=/);
  await page.keyboard.press("0");
  const label = await page.locator(".span-label[aria-selected=true]").innerText();
  say(`keyboard: selected \`${label.replaceAll("\n", " ")}\`, its details below`);
  await settled(page);
  assert.ok((await page.locator("dl.details dt").count()) > 5);
}

/** The three files of a trace. */
async function exports(page, say) {
  for (const [label, check] of [
    ["OTLP JSON", (bytes) => JSON.parse(bytes).resourceSpans.length > 0],
    ["Parquet", (bytes) => bytes.subarray(0, 4).toString() === "PAR1"],
    ["Perfetto", (bytes) => bytes.length > 100],
  ]) {
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: `Export ${label}` }).click()]);
    const bytes = readFileSync(await file.path());
    assert.ok(check(bytes), label);
    say(`export: ${file.suggestedFilename()}, ${bytes.length} bytes`);
  }
}

/** Each fact leads to its rows. */
async function factRows(page, say) {
  const links = page.locator(".hypothesis li a");
  const n = await links.count();
  assert.ok(n > 0, "facts have rows");
  const fact = await page.locator(".hypothesis[open] li").first().innerText();
  await page.locator(".hypothesis[open] li a").first().click();
  await page.waitForURL(/#\/sql/);
  await settled(page);
  const answer = await page.getByRole("region", { name: "Answer" }).locator(".aside").innerText();
  say(`${n} facts with rows; behind \`${fact}\`: ${answer}`);
  assert.match(answer, /^[1-9][\d,]* row/);
  await page.goBack();
  await settled(page);
}

/** "Copy as SQL" gives a statement that runs. */
async function copied(page, context, origin, say) {
  const details = page.getByRole("region", { name: "Where the time went" }).locator("details.sql");
  await details.locator("summary").click();
  const boxes = details.locator(".statement");
  const n = await boxes.count();
  assert.ok(n >= 5, `${n} statements behind the timeline`);
  for (let idx = 0; idx < n; idx++) {
    await boxes.nth(idx).getByRole("button").click();
    const sql = await page.evaluate(() => navigator.clipboard.readText());
    const answer = await context.request.post(`${origin}/v1/sql`, { data: { sql } });
    const body = await answer.json();
    assert.equal(answer.status(), 200, JSON.stringify(body));
    say(`copied SQL runs: ${(await boxes.nth(idx).locator("span").first().innerText()).trim()}, ${body.row_count ?? body.rows.length} rows`);
  }
  await pictures(page, "trace-sql");
}

/** The editor: completion, table, chart, files. */
async function sqlView(page, goto, say) {
  await goto("#/sql");
  const editor = page.locator(".editor .cm-content");
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("SELECT count(*) AS n, ");
  await page.keyboard.type("appr");
  await page.locator(".cm-tooltip-autocomplete").waitFor();
  const offered = await page.locator(".cm-tooltip-autocomplete li").allInnerTexts();
  say(`completion of \`appr\`: ${offered.slice(0, 3).join(", ").replaceAll("\n", " ")}`);
  assert.ok(offered.some((text) => text.includes("approx_percentile_cont")));
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+a");
  await page.keyboard.type("SELECT date_bin(INTERVAL '5 seconds', start_time) AS t, max(e2e_s) AS slowest, approx_median(e2e_s) AS usual FROM requests GROUP BY 1 ORDER BY 1 ");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+Enter");
  await page.locator(".grid").waitFor();
  await settled(page);
  await pictures(page, "sql");
  await page.getByRole("button", { name: "Chart" }).click();
  await page.locator(".plot canvas").waitFor();
  assert.match(page.url(), /as=chart/);
  await page.reload();
  await settled(page);
  await page.locator(".plot canvas").waitFor();
  await pictures(page, "sql-chart");
  await contrast(page, say, "SQL");
  for (const [label, check] of [["CSV", (text) => text.toString().startsWith("t,slowest,usual")], ["Parquet", (bytes) => bytes.subarray(-4).toString() === "PAR1"]]) {
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: `Export ${label}` }).click()]);
    const bytes = readFileSync(await file.path());
    assert.ok(check(bytes), label);
    say(`export: ${file.suggestedFilename()}, ${bytes.length} bytes`);
  }
}

/** What is shown where there is nothing, or something is wrong. */
async function otherStates(page, goto, origin) {
  await goto(`#/trace/${"0".repeat(31)}1`);
  await page.getByText("No such trace.").waitFor();
  await pictures(page, "no-trace");
  await goto("#/overview?from=1000000000000&to=1000000100000");
  await page.getByText("No request started in this time").waitFor();
  await goto("#/trace");
  await page.getByLabel("Trace id").waitFor();
  await goto(`#/sql?q=${encodeURIComponent("SELECT 1000 / (30000 - value) AS a FROM generate_series(1, 40000)")}`);
  await page.getByRole("alert").getByText(/divide by zero/i).waitFor();
  await goto("#/nowhere");
  await page.getByText("there is no view").waitFor();
  assert.ok(page.url().startsWith(origin));
}
