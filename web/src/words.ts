// Numbers and times as people read them. Times are UTC throughout, as in the tables.

const COUNT = new Intl.NumberFormat("en-US");

export function count(n: number): string {
  return COUNT.format(n);
}

export function counted(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** A time span in seconds. */
export function seconds(s: number | null): string {
  if (s === null || !Number.isFinite(s)) return "-";
  const size = Math.abs(s);
  if (size === 0) return "0 s";
  if (size < 0.001) return `${trim(s * 1e6)} us`;
  if (size < 1) return `${trim(s * 1e3)} ms`;
  if (size < 120) return `${trim(s)} s`;
  if (size < 7200) return `${trim(s / 60)} min`;
  return `${trim(s / 3600)} h`;
}

function trim(n: number): string {
  const digits = Math.abs(n) >= 100 ? 0 : Math.abs(n) >= 10 ? 1 : 2;
  return String(Number(n.toFixed(digits)));
}

/** A plain number, short. */
export function number(n: number | null, unit = ""): string {
  if (n === null || !Number.isFinite(n)) return "-";
  const text = Math.abs(n) >= 1000 ? count(Math.round(n)) : trim(n);
  return unit ? `${text} ${unit}` : text;
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
}

/** Date and time of milliseconds since 1970. */
export function moment(ms: number, digits: 0 | 3 = 0): string {
  const iso = new Date(ms).toISOString();
  return `${iso.slice(0, 10)} ${iso.slice(11, digits ? 23 : 19)}`;
}

export function clock(ms: number, digits: 0 | 3 = 0): string {
  return new Date(ms).toISOString().slice(11, digits ? 23 : 19);
}

/** Times on an axis whose ticks are `step` milliseconds apart: days where there are no others, seconds where they matter. */
export function timeTicks(ticks: number[], step: number): string[] {
  const day = 86_400_000;
  return ticks.map((ms) => {
    if (step >= day || ms % day === 0) return moment(ms).slice(0, 10);
    return clock(ms, step < 1000 ? 3 : 0).slice(0, step >= 60_000 ? 5 : 12);
  });
}

/** A text of the form of `moment`, or ISO 8601, as milliseconds. */
export function readMoment(text: string): number | null {
  const spelled = text.trim().replace(" ", "T");
  const ms = Date.parse(/Z|[+-]\d\d:?\d\d$/.test(spelled) ? spelled : `${spelled}Z`);
  return Number.isNaN(ms) ? null : ms;
}

export function shortId(id: string): string {
  return id.length > 12 ? id.slice(0, 8) : id;
}

/** A GPU as people tell them apart: the beginning of its UUID. Other names stay whole. */
export function shortGpu(name: string): string {
  return /^(GPU|MIG)-/.test(name) ? name.slice(0, 12) : name;
}
