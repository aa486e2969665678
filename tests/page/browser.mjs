// A browser that lets nothing leave the machine, and tells what a page did that it must not.

import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";

const PICTURES = new URL("../../docs/images/", import.meta.url).pathname;

export async function launch() {
  // In a container Chromium may not make its own.
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({ executablePath: process.env.CHROMIUM, args });
}

/** A tab on `origin`. `faults` collects what is wrong: requests elsewhere, refusals of the policy, errors. */
export async function tab(browser, origin, { theme = "light", expected = [], width = 1400, height = 900 } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, permissions: ["clipboard-read", "clipboard-write"], acceptDownloads: true });
  const page = await context.newPage();
  const faults = [];
  const asked = [];
  const fault = (text) => expected.some((known) => text.includes(known)) || faults.push(text);
  await context.route("**/*", (route) => {
    const address = route.request().url();
    asked.push(address);
    if (address.startsWith(`${origin}/`) || address.startsWith("blob:") || address.startsWith("data:")) return route.continue();
    faults.push(`asked another server: ${address}`);
    return route.abort();
  });
  page.on("pageerror", (error) => fault(`error: ${error.message}`));
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && fault(`console: ${message.text()}`));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
  });
  return { page, faults, asked, context };
}

/** Waits until every panel has its answer. */
export async function settled(page) {
  await page.waitForFunction(() => document.querySelector("main .panel, main .state, .gate form") && !document.querySelector(".loading"), null, { timeout: 240_000 });
  // The next frame draws what came.
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
}

/** A picture in light and one in dark, kept where the README shows them. */
export async function pictures(page, name, options = {}) {
  mkdirSync(PICTURES, { recursive: true });
  for (const theme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: theme });
    await settled(page);
    const path = `${PICTURES}${name}-${theme}.png`;
    await page.screenshot({ path, animations: "disabled", ...options });
    // A third of the size with a palette; without the program they are just larger.
    spawnSync("pngquant", ["--force", "--strip", "--skip-if-larger", "--quality", "70-95", "--output", path, path]);
  }
  await page.emulateMedia({ colorScheme: "light" });
}
