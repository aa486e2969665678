// Texts against what they stand on: WCAG AA asks 4.5:1, and 3:1 of large ones. In light and in dark.

import { strict as assert } from "node:assert";

export async function contrast(page, say, name) {
  for (const theme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: theme });
    const { n, least, poor } = await page.evaluate(measure);
    say(`contrast, ${name}, ${theme}: ${n} texts, least ${least.toFixed(2)}:1`);
    assert.deepEqual(poor, [], `${name}, ${theme}: too little contrast`);
  }
  await page.emulateMedia({ colorScheme: "light" });
}

function measure() {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const read = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return { r, g, b, a: a / 255 };
  };
  const over = (top, below) => ({ r: top.r * top.a + below.r * (1 - top.a), g: top.g * top.a + below.g * (1 - top.a), b: top.b * top.a + below.b * (1 - top.a), a: 1 });
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(read(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), { r: 255, g: 255, b: 255, a: 1 });
  };
  const luminance = ({ r, g, b }) => {
    const part = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const poor = [];
  let n = 0;
  let least = 21;
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const element = text.parentElement;
    if (!text.textContent.trim() || !element || !element.checkVisibility({ visibilityProperty: true })) continue;
    if (element.closest(".sr, .skip, noscript, option, :disabled")) continue;
    const style = getComputedStyle(element);
    const below = ground(element);
    const [a, b] = [luminance(over(read(style.color), below)), luminance(below)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const enough = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    n += 1;
    least = Math.min(least, ratio);
    if (ratio < enough) poor.push(`${text.textContent.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return { n, least, poor };
}
