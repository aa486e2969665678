// What sets the requests of a region apart: for each value of each attribute, its share of the region's requests less its
// share of the others. Values are ranked by that difference; the count beside it says how much it rests on. What chance
// makes as easily is left out: a difference counts from three standard errors of two shares on, where the limit is raised
// for the number of values looked at.

import { count, percent } from "../words";
import { h } from "../dom";
import type { Rows } from "../rows";

export const METHOD =
  "Share of the region's requests that have a value, less its share of all other requests shown. Left out: differences that " +
  "chance makes as easily (two shares, three standard errors, more for many values) and attributes with one value. GPUs are known of kept requests only.";

export interface Trait {
  attribute: string;
  value: string | null;
  inside: number;
  outside: number;
  nInside: number;
  nOutside: number;
}

export function traitsOf(all: Rows, gpus: Rows | null): Trait[] {
  const totals = new Map<string, { inside: number; outside: number; values: number }>();
  const read = Array.from({ length: all.length }, (_, row) => ({
    attribute: all.text("attribute", row) ?? "",
    value: all.text("value", row),
    inside: all.number("inside", row) ?? 0,
    outside: all.number("outside", row) ?? 0,
  }));
  for (const { attribute, inside, outside } of read) {
    const total = totals.get(attribute) ?? { inside: 0, outside: 0, values: 0 };
    totals.set(attribute, { inside: total.inside + inside, outside: total.outside + outside, values: total.values + 1 });
  }
  const traits: Trait[] = [];
  for (const trait of read) {
    const total = totals.get(trait.attribute);
    if (total && total.values > 1) traits.push({ ...trait, nInside: total.inside, nOutside: total.outside });
  }
  for (let row = 0; gpus && row < gpus.length; row++) {
    traits.push({
      attribute: "gpu_uuid (kept)",
      value: gpus.text("value", row),
      inside: gpus.number("inside", row) ?? 0,
      outside: gpus.number("outside", row) ?? 0,
      nInside: gpus.number("n_inside", row) ?? 0,
      nOutside: gpus.number("n_outside", row) ?? 0,
    });
  }
  return traits;
}

function difference({ inside, outside, nInside, nOutside }: Trait): number {
  return (nInside ? inside / nInside : 0) - (nOutside ? outside / nOutside : 0);
}

/** Standard errors between the shares. */
function distance(trait: Trait): number {
  const { inside, outside, nInside, nOutside } = trait;
  if (nInside === 0 || nOutside === 0) return 0;
  const share = (inside + outside) / (nInside + nOutside);
  const error = Math.sqrt(share * (1 - share) * (1 / nInside + 1 / nOutside));
  return error > 0 ? Math.abs(difference(trait)) / error : 0;
}

/** The strongest first; what is rarer inside comes after what is more frequent. */
export function ranked(traits: Trait[]): Trait[] {
  const limit = 3 + Math.log10(Math.max(traits.length / 10, 1));
  return traits
    .filter((trait) => distance(trait) >= limit)
    .sort((a, b) => difference(b) - difference(a))
    .filter((trait, idx, all) => idx < 12 && (difference(trait) > 0 || all.length < 6));
}

export function table(traits: Trait[], filter: (attribute: string, value: string | null) => string | null): HTMLElement {
  const head = ["Attribute", "Value", "In the region", "Elsewhere", "Difference"].map((name) => h("th", { scope: "col" }, name));
  return h(
    "div",
    { class: "scroll" },
    h("table", { class: "apart" }, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...traits.map((trait) => line(trait, filter)))),
  );
}

function line(trait: Trait, filter: (attribute: string, value: string | null) => string | null): HTMLElement {
  const { attribute, value, inside, outside, nInside, nOutside } = trait;
  const by = difference(trait);
  const address = filter(attribute, value);
  const name = value ?? "(none)";
  const bar = h("span", { class: by > 0 ? "bar more" : "bar less", "aria-hidden": "true" });
  bar.style.width = `${Math.abs(by) * 80}px`;
  return h(
    "tr",
    {},
    h("td", {}, attribute),
    h("td", { class: "mono" }, address ? h("a", { href: address, title: "Show only these" }, name) : name),
    h("td", { class: "num" }, share(inside, nInside)),
    h("td", { class: "num" }, share(outside, nOutside)),
    h("td", {}, bar, ` ${by > 0 ? "+" : ""}${Math.round(by * 100)} points`),
  );
}

function share(n: number, of: number): string {
  return `${count(n)} of ${count(of)} (${of ? percent(n / of) : "-"})`;
}
