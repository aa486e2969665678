// Elements without a framework: the page has three views and few parts that change, so that functions which make
// elements are all it needs. Text is always set as text, never parsed: names in traces are anybody's.

type Child = Node | string | number | null | undefined | false;

interface Props {
  class?: string | undefined;
  title?: string | undefined;
  on?: { [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void };
  [attribute: string]: unknown;
}

/** Makes an element. `on` has listeners; other names are attributes, left out where they are false or absent. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") continue;
    if (value === undefined || value === null || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const [name, listener] of Object.entries(props.on ?? {})) {
    element.addEventListener(name, listener as EventListener);
  }
  append(element, children);
  return element;
}

export function append(parent: Node, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Puts these in the place of what is there. */
export function fill(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  append(parent, children);
}

/** A button with a word on it. */
export function button(label: string, act: () => void, props: Props = {}): HTMLButtonElement {
  return h("button", { type: "button", ...props, on: { click: act, ...props.on } }, label);
}

/** A choice among a few values; `""` stands for all. */
export function choice(
  label: string,
  options: readonly (readonly [value: string, text: string])[],
  value: string,
  choose: (value: string) => void,
): HTMLLabelElement {
  const select = h("select", {}, ...options.map(([value, text]) => h("option", { value }, text)));
  select.value = value;
  select.addEventListener("change", () => choose(select.value));
  return h("label", { class: "field" }, h("span", {}, label), select);
}

/** Calls back when the width of an element changes; ends with `signal`. */
export function onResize(element: Element, signal: AbortSignal, act: (width: number) => void): void {
  let last = -1;
  const observer = new ResizeObserver(() => {
    const width = Math.floor(element.getBoundingClientRect().width);
    if (width > 0 && width !== last) {
      last = width;
      act(width);
    }
  });
  observer.observe(element);
  signal.addEventListener("abort", () => observer.disconnect());
}

/** Copies a text, and says so on the button. */
export async function copy(text: string, said: HTMLElement): Promise<void> {
  const before = said.textContent;
  try {
    await navigator.clipboard.writeText(text);
    said.textContent = "Copied";
  } catch {
    // Without https and away from loopback there is no clipboard.
    said.textContent = "Select and copy by hand";
  }
  setTimeout(() => (said.textContent = before), 1500);
}

/** Gives a file to the person. */
export function save(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
