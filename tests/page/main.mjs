// Everything that is looked at, in order. Names on the command line choose: story, token, large.

import { launch, pictures } from "./browser.mjs";
import { dayView, largeTraceView, sendDay, sendTrace } from "./large.mjs";
import { demo, guarded } from "./servers.mjs";
import { story } from "./story.mjs";
import { token } from "./token.mjs";

const SECRET = "t0ken-of-the-test";

const wanted = process.argv.slice(2);
const is = (name) => wanted.length === 0 || wanted.includes(name);
const say = (text) => console.log(`page: ${text}`);

const browser = await launch();
const servers = [];
try {
  if (is("story")) {
    const server = await demo();
    servers.push(server);
    await story(browser, server.origin, say);
  }
  if (is("token") || is("large")) {
    const server = await guarded(SECRET);
    servers.push(server);
    const traceId = await sendTrace(server, say);
    await sendDay(server, say, 500);
    if (is("token")) await token(browser, server, SECRET, say);
    if (is("large")) {
      await largeTraceView(browser, server, SECRET, traceId, say);
      await sendDay(server, say);
      const { page, context } = await dayView(browser, server, SECRET, say);
      await pictures(page, "day");
      await context.close();
    }
  }
  say("done");
} finally {
  await browser.close();
  for (const server of servers) await server.stop();
}
