// Light and dark: as the system has it, or as chosen. What is drawn on a canvas asks here for the colours of the style
// sheet, and is told when they change.

const CHOSEN = "whyslow-theme";

export type Theme = "auto" | "light" | "dark";

export function chosen(): Theme {
  const theme = localStorage.getItem(CHOSEN);
  return theme === "light" || theme === "dark" ? theme : "auto";
}

export function choose(theme: Theme): void {
  if (theme === "auto") localStorage.removeItem(CHOSEN);
  else localStorage.setItem(CHOSEN, theme);
  apply();
}

/** Puts the choice in force and tells everybody. */
export function apply(): void {
  const theme = chosen();
  if (theme === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  read.clear();
  document.dispatchEvent(new Event("whyslow-theme"));
}

export function watch(): void {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  apply();
}

export function onTheme(signal: AbortSignal, act: () => void): void {
  document.addEventListener("whyslow-theme", act, { signal });
}

const probe = document.head;

/** Read once per theme: a canvas asks for each bar. */
const read = new Map<string, string>();

/** A colour of the style sheet. */
export function colour(name: string): string {
  let value = read.get(name);
  if (value === undefined) {
    // What a variable stands for in the theme in force is known only of a property that uses it.
    probe.style.color = `var(--${name})`;
    value = getComputedStyle(probe).color;
    read.set(name, value);
  }
  return value;
}

/** Colours that lines and values of attributes get, in this order; each has 3:1 against the background. */
export function seriesColour(idx: number): string {
  return colour(`series-${(idx % 8) + 1}`);
}
