// Every state has an address: `#/view/part?key=value`. It stands behind the `#`, so that statements and ids that are in
// it never reach a server's log.

export interface Route {
  view: string;
  part: string;
  params: URLSearchParams;
}

export function current(): Route {
  const hash = location.hash.replace(/^#\/?/, "");
  const at = hash.indexOf("?");
  const path = at < 0 ? hash : hash.slice(0, at);
  const [view = "", part = ""] = path.split("/");
  return {
    view: view || "overview",
    part: decodeURIComponent(part),
    params: new URLSearchParams(at < 0 ? "" : hash.slice(at + 1)),
  };
}

/** The address of a state. Empty values are left out. */
export function address(view: string, part = "", params: Record<string, string | undefined> = {}): string {
  const kept = Object.entries(params).filter((entry): entry is [string, string] => Boolean(entry[1]));
  const query = new URLSearchParams(kept).toString();
  return `#/${view}${part ? `/${encodeURIComponent(part)}` : ""}${query ? `?${query}` : ""}`;
}

/** Changes the address without a new view: what is shown has changed already. */
export function note(changed: Record<string, string | undefined>): void {
  const { view, part, params } = current();
  const merged = { ...Object.fromEntries(params), ...changed };
  history.replaceState(null, "", address(view, part, merged));
}

/** Goes to a state, which can be left by the back button. */
export function go(to: string): void {
  location.hash = to;
}
