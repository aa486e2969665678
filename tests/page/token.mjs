// The page where SQL wants a token: it says so, takes one, keeps it in the tab, and forgets it.

import { strict as assert } from "node:assert";

import { pictures, settled, tab } from "./browser.mjs";

export async function token(browser, server, secret, say) {
  const expected = ["401"];
  const { page, faults, context } = await tab(browser, server.origin, { expected });
  await page.goto(server.origin);
  const field = page.getByLabel("Bearer token");
  await field.waitFor();
  await settled(page);
  await pictures(page, "token");
  await field.fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByText("The token was refused").waitFor();
  await field.fill(secret);
  await page.keyboard.press("Enter");
  await field.waitFor({ state: "detached" });
  await settled(page);
  await page.getByText("Slowest requests shown").waitFor();
  say("token: asked for, a wrong one refused, the right one let in");
  await page.reload();
  await settled(page);
  assert.equal(await field.count(), 0, "the tab keeps it");
  const stored = await page.evaluate(() => [JSON.stringify({ ...localStorage }), location.href, document.cookie]);
  assert.ok(!stored.some((text) => text.includes(secret)), "nowhere but in the session's storage");
  await page.getByRole("button", { name: "Forget token" }).click();
  await field.waitFor();
  say("token: kept over a reload, in session storage only, forgotten when asked to");
  assert.deepEqual(faults, []);
  await context.close();
}
