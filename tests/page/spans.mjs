// Export requests for what the captured traffic has not: a trace of many spans, a day of many requests. Protobuf by hand,
// as a million spans in JSON would take longer to read than to store.

import { randomBytes } from "node:crypto";

/** Fields of OTLP's messages are numbered below 16 here: the key is one byte. */
class Message {
  parts = [];

  bytes(field, bytes) {
    this.parts.push(Buffer.from([(field << 3) | 2]), varint(bytes.length), bytes);
    return this;
  }

  text(field, text) {
    return this.bytes(field, Buffer.from(text));
  }

  message(field, message) {
    return this.bytes(field, message.done());
  }

  varint(field, n) {
    this.parts.push(Buffer.from([field << 3]), varint(n));
    return this;
  }

  fixed64(field, n) {
    const bytes = Buffer.alloc(9);
    bytes[0] = (field << 3) | 1;
    bytes.writeBigUInt64LE(BigInt(n), 1);
    this.parts.push(bytes);
    return this;
  }

  double(field, n) {
    const bytes = Buffer.alloc(9);
    bytes[0] = (field << 3) | 1;
    bytes.writeDoubleLE(n, 1);
    this.parts.push(bytes);
    return this;
  }

  done() {
    return Buffer.concat(this.parts);
  }
}

function varint(n) {
  const bytes = [];
  for (; n > 127; n = Math.floor(n / 128)) bytes.push((n % 128) | 128);
  bytes.push(n);
  return Buffer.from(bytes);
}

/** A key with a text, a whole number or (as `{double}`) another number. */
function attribute(key, value) {
  const any = new Message();
  if (typeof value === "string") any.text(1, value);
  else if (typeof value === "number") any.varint(3, value);
  else any.double(4, value.double);
  return new Message().text(1, key).message(2, any);
}

function span({ traceId, spanId, parentId, name, kind = 1, start, end, attributes = {} }) {
  const message = new Message().bytes(1, traceId).bytes(2, spanId);
  if (parentId) message.bytes(4, parentId);
  message.text(5, name).varint(6, kind).fixed64(7, start).fixed64(8, end);
  for (const [key, value] of Object.entries(attributes)) message.message(9, attribute(key, value));
  return message;
}

/** An export request of one resource and one scope. */
function exported(resource, scope, spans) {
  const told = new Message();
  for (const [key, value] of Object.entries(resource)) told.message(1, attribute(key, value));
  const scoped = new Message().message(1, new Message().text(1, scope));
  for (const one of spans) scoped.message(2, one);
  return new Message().message(1, new Message().message(1, told).message(2, scoped)).done();
}

const MS = 1_000_000n;

/** A trace of `n` spans: steps under steps, as an agent with many tools leaves it. */
export function largeTrace(n, startMs) {
  const traceId = randomBytes(16);
  const ids = Array.from({ length: n }, () => randomBytes(8));
  const at = (ms) => BigInt(Math.round(startMs)) * MS + BigInt(Math.round(ms * 1000)) * 1000n;
  const whole = n * 2;
  const spans = ids.map((spanId, idx) => {
    const parent = idx === 0 ? null : idx < 200 ? 0 : idx % 200;
    const isStep = idx > 0 && idx < 200;
    const begin = idx === 0 ? 0 : isStep ? (idx * whole) / 200 : ((idx % 200) * whole) / 200 + Math.floor(idx / 200);
    const end = idx === 0 ? whole : isStep ? begin + whole / 200 : begin + 0.8;
    return span({
      traceId,
      spanId,
      parentId: parent === null ? null : ids[parent],
      name: idx === 0 ? "agent.run" : isStep ? `step ${idx}` : `tool ${idx % 37}`,
      start: at(begin),
      end: at(end),
      attributes: { kept: "yes" },
    });
  });
  const bodies = [];
  for (let from = 0; from < n; from += 5000) bodies.push(exported({ "service.name": "agent" }, "page", spans.slice(from, from + 5000)));
  return { traceId: traceId.toString("hex"), bodies };
}

/**
 * `n` engine requests over the day before `endMs`, more of them by day than by night, in export requests of `each`. Most take
 * some seconds; for an hour in the afternoon many wait in the queue.
 */
export function* day(n, endMs, each = 10_000) {
  const day = 86_400_000;
  for (let from = 0; from < n; from += each) {
    const random = randomBytes(24 * each);
    const spans = [];
    for (let idx = 0; idx < Math.min(each, n - from); idx++) {
      const [noise, other] = [random.readUInt16LE(24 * idx) / 65536, random.readUInt16LE(24 * idx + 2) / 65536];
      const share = (from + idx) / n;
      const startMs = endMs - day + (share - 0.08 * Math.sin(2 * Math.PI * share)) * day;
      const isSlow = (share > 0.6 && share < 0.65 && other > 0.5) || other > 0.99;
      // The sum of two even numbers is more often near its middle.
      const decode = 0.3 * 10 ** (noise + other / 2);
      const [queue, prefill] = [isSlow ? 2 + 9 * noise : 0.02 * noise, 0.05 + 0.2 * noise * noise];
      const start = BigInt(Math.round(startMs * 1000)) * 1000n;
      spans.push(span({
        traceId: random.subarray(24 * idx, 24 * idx + 16),
        spanId: random.subarray(24 * idx + 16, 24 * idx + 24),
        name: "llm_request",
        kind: 2,
        start,
        end: start + BigInt(Math.round((queue + prefill + decode) * 1e9)),
        attributes: {
          "gen_ai.request.id": `chatcmpl-${from + idx}`,
          "gen_ai.response.model": noise > 0.5 ? "qwen3-32b" : "llama-70b",
          "gen_ai.latency.e2e": { double: queue + prefill + decode },
          "gen_ai.latency.time_to_first_token": { double: queue + prefill },
          "gen_ai.latency.time_in_queue": { double: queue },
          "gen_ai.latency.time_in_model_prefill": { double: prefill },
          "gen_ai.latency.time_in_model_decode": { double: decode },
          "gen_ai.usage.prompt_tokens": 200 + Math.floor(noise * 3000),
          "gen_ai.usage.completion_tokens": 20 + Math.floor(noise * 200),
        },
      }));
    }
    yield exported({ "service.name": "vllm", "k8s.pod.name": `vllm-${Math.floor(from / each) % 4}` }, "vllm.llm_engine", spans);
  }
}
