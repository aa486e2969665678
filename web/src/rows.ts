// Rows of an Arrow answer by column name. Whole numbers of 64 bits become numbers: those that are larger than a number
// can say exactly (times in nanoseconds) are asked for as differences, or read with `big`.

import { DataType, Vector, type Table } from "apache-arrow";

export class Rows {
  private readonly columns = new Map<string, Vector>();
  /** Texts of columns that were read. */
  private readonly read = new Map<string, (string | null)[]>();

  constructor(
    readonly table: Table,
    readonly rowLimit: number,
  ) {
    for (const field of table.schema.fields) {
      const column = table.getChild(field.name);
      if (column) this.columns.set(field.name, column);
    }
  }

  get length(): number {
    return this.table.numRows;
  }

  get names(): string[] {
    return this.table.schema.fields.map((field) => field.name);
  }

  /** As many rows as one answer may have: there may be more. */
  get isCut(): boolean {
    return this.rowLimit > 0 && this.length >= this.rowLimit;
  }

  raw(name: string, row: number): unknown {
    return this.columns.get(name)?.get(row) ?? null;
  }

  number(name: string, row: number): number | null {
    const value = this.raw(name, row);
    if (value === null) return null;
    return Number(value);
  }

  /** A time column, in milliseconds since 1970. */
  time(name: string, row: number): number | null {
    return this.number(name, row);
  }

  big(name: string, row: number): bigint | null {
    const value = this.raw(name, row);
    return typeof value === "bigint" ? value : value === null ? null : BigInt(Number(value));
  }

  text(name: string, row: number): string | null {
    let texts = this.read.get(name);
    if (texts === undefined) {
      texts = textsOf(this.columns.get(name));
      this.read.set(name, texts);
    }
    return texts[row] ?? null;
  }

  flag(name: string, row: number): boolean {
    return this.raw(name, row) === true;
  }

  texts(name: string, row: number): string[] {
    const value = this.raw(name, row);
    return value === null ? [] : [...(value as Iterable<unknown>)].map(String);
  }

  isTime(name: string): boolean {
    const type = this.columns.get(name)?.type as DataType | undefined;
    return type !== undefined && (DataType.isTimestamp(type) || DataType.isDate(type));
  }

  isNumber(name: string): boolean {
    const type = this.columns.get(name)?.type as DataType | undefined;
    return type !== undefined && (DataType.isInt(type) || DataType.isFloat(type) || DataType.isDecimal(type));
  }

  /** A cell as a person reads it. */
  cell(name: string, row: number): string {
    const value = this.raw(name, row);
    if (value === null) return "";
    if (this.isTime(name)) return isoOf(Number(value));
    if (typeof value === "number" && !Number.isInteger(value)) return String(Number(value.toPrecision(9)));
    if (typeof value === "object") return JSON.stringify(plain(value));
    return String(value);
  }

  /** The numbers of a column, with gaps for absent ones. */
  numbers(name: string): (number | null)[] {
    return Array.from({ length: this.length }, (_, row) => this.number(name, row));
  }
}

/**
 * A column as texts. Those of a column stand one after the other in one buffer: it is made a text as a whole and cut, which
 * takes a tenth of the time that a text for each cell takes. Where a byte is not a character, each is read for itself.
 */
function textsOf(column: Vector | undefined): (string | null)[] {
  const texts: (string | null)[] = [];
  for (const data of column?.data ?? []) {
    const { length, valueOffsets, values } = data;
    const begin = Number(valueOffsets?.[0] ?? 0);
    const end = Number(valueOffsets?.[length] ?? 0);
    const whole = DataType.isUtf8(data.type) ? DECODER.decode((values as Uint8Array).subarray(begin, end)) : null;
    const inner = whole?.length === end - begin ? null : new Vector([data]);
    for (let row = 0; row < length; row++) {
      if (!data.getValid(row)) texts.push(null);
      else if (inner === null && whole !== null) texts.push(whole.slice(Number(valueOffsets[row]) - begin, Number(valueOffsets[row + 1]) - begin));
      else texts.push(String(inner?.get(row)));
    }
  }
  return texts;
}

const DECODER = new TextDecoder();

function isoOf(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString();
}

function plain(value: unknown): unknown {
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (value === null || typeof value !== "object") return value;
  if ("toJSON" in value && typeof value.toJSON === "function") return plain((value.toJSON as () => unknown)());
  if (Symbol.iterator in value) return [...(value as Iterable<unknown>)].map(plain);
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
}
