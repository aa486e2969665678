"""Writes 20,000 traces as export requests: the same bytes in every run.

They have what policies look at and what is read in more than one way: durations at and beside whole
milliseconds, spans that end before they begin, integers and doubles and strings under one key,
booleans written as strings, empty strings, broken tracestates, text beyond ASCII. Every value is
drawn from a hash of where it stands, so that no generator of random numbers is involved.
"""

import hashlib

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

N_TRACES = 20_000
TRACES_PER_EXPORT = 100
# 2026-11-29T14:00:00Z, shortly before the captured traffic; `replay` moves it all to the present.
START_UNIX_NANO = 1_795_960_800 * 1_000_000_000
MS = 1_000_000

SERVICES = ["gateway", "rag", "vllm", "caf\u00e9", "batch"]
# Attributes of each service's resource; `tier` is of another type for each.
RESOURCES = [
    {"service.namespace": "prod", "tier": "gold"},
    {"service.namespace": "prod", "tier": ""},
    {"service.namespace": "staging", "tier": 7},
    {"service.namespace": "", "tier": True},
    {},
]
DURATIONS_NS = [0, 500 * MS, 500 * MS + 1, 500 * MS - 1, 501 * MS, 1_000 * MS, 2_000 * MS]
ROUTES = ["/v1/chat", "/v1/chat/completions", "/alive", "/health", "/v1/embeddings", ""]
HTTP_STATUSES = [200, 200, 200, 200, 200, 200, 201, 400, 404, 429, 499, 500, 503, 599]
TRACE_STATES = [
    "vendor=a",
    "vendor=b,other=1",
    "other=1, vendor=c",
    "vendor=a,vendor=b",
    "vendor=a,,",
    "=broken",
    "VENDOR=a",
    "",
]
FLAGS = [0, 1, 0x100, 0x101, 0x301]


def write(folder):
    """Writes the export requests, in the order of their names; returns how many spans there are."""
    n_spans = 0
    # The second half of each trace comes one export later.
    behind = []
    numbers = range(0, N_TRACES + TRACES_PER_EXPORT, TRACES_PER_EXPORT)
    for export_idx, first in enumerate(numbers):
        spans, ahead = behind, []
        for trace_idx in range(first, min(first + TRACES_PER_EXPORT, N_TRACES)):
            of_trace = list(_trace(trace_idx))
            half = (len(of_trace) + 1) // 2
            spans = spans + of_trace[:half]
            ahead += of_trace[half:]
        behind = ahead
        n_spans += len(spans)
        request = _export(spans).SerializeToString(deterministic=True)
        (folder / f"{export_idx:05}.trace.pb").write_bytes(request)
    return n_spans


def _export(spans):
    """One request: spans below the resource of their service."""
    request = ExportTraceServiceRequest()
    for service_idx, service in enumerate(SERVICES):
        of_service = [span for idx, span in spans if idx == service_idx]
        if of_service:
            resource_spans = request.resource_spans.add()
            attributes = {"service.name": service, **RESOURCES[service_idx]}
            resource_spans.resource.attributes.extend(_attributes(attributes))
            resource_spans.scope_spans.add(spans=of_service)
    return request


def _trace(trace_idx):
    """The spans of a trace, each with the index of its service."""
    trace_id = _digest("trace", trace_idx)[:16]
    n_spans = _n_spans(trace_idx)
    start = START_UNIX_NANO + trace_idx * MS
    for span_idx in range(n_spans):
        here = (trace_idx, span_idx)
        span = Span(trace_id=trace_id, span_id=_digest("span", *here)[:8], name=_name(here))
        if span_idx > 0:
            span.parent_span_id = _digest("span", trace_idx, 0)[:8]
        begins = start + _draw(900, "begin", *here) * MS if span_idx else start
        span.start_time_unix_nano = begins
        span.end_time_unix_nano = begins + _duration_ns(here)
        if _draw(40, "status", *here) == 0:
            span.status.code = 2
        elif _draw(20, "ok", *here) == 0:
            span.status.code = 1
        span.kind = 1 + _draw(5, "kind", *here)
        span.flags = FLAGS[1 + _draw(4, "flags", *here)] if _draw(9, "flagged", *here) == 0 else 0
        if _draw(12, "stateful", *here) == 0:
            span.trace_state = _pick(TRACE_STATES, "state", *here)
        values = _values(here)
        if span_idx == 0 and _is_first_of_its_size(trace_idx):
            values["alone"] = str(n_spans)
        span.attributes.extend(_attributes(values))
        if _draw(15, "event", *here) == 0:
            _add_event(span, here)
        yield _draw(len(SERVICES), "service", *here), span


def _n_spans(trace_idx):
    return 1 + _draw(7, "spans", trace_idx)


def _is_first_of_its_size(trace_idx):
    # Every size is among the first hundred.
    is_early = trace_idx < 100
    size = _n_spans(trace_idx)
    return is_early and all(_n_spans(earlier) != size for earlier in range(trace_idx))


def _name(here):
    return _pick(["llm_request", "HTTP POST", "retrieve", "embed"], "name", *here)


def _duration_ns(here):
    if _draw(3, "round", *here) == 0:
        return _pick(DURATIONS_NS, "duration", *here)
    if _draw(50, "backwards", *here) == 0:
        return -5 * MS
    return _draw(700 * MS, "nanos", *here)


def _values(here):
    """Attributes of a span."""
    values = {"http.route": _pick(ROUTES, "route", *here)}
    if _draw(2, "has status", *here):
        values["http.response.status_code"] = _pick(HTTP_STATUSES, "http status", *here)
    if _draw(3, "has tokens", *here) == 0:
        values["gen_ai.usage.output_tokens"] = _draw(40, "tokens", *here) - 2
    if _draw(3, "has ttft", *here) == 0:
        values["gen_ai.latency.time_to_first_token"] = _draw(3_000, "ttft", *here) / 1_000
    if _draw(8, "has synthetic", *here) == 0:
        values["synthetic"] = _pick([True, False, "true", 1], "synthetic", *here)
    if _draw(6, "has mixed", *here) == 0:
        values["mixed"] = _pick([3, 3.0, "3", "three", True], "mixed", *here)
    if _draw(30, "has city", *here) == 0:
        values["city"] = _pick(["Z\u00fcrich", "Zurich", "\u691c\u7d22"], "city", *here)
    if here[0] % 5_000 == 7 and here[1] == 0:
        values["rare"] = "yes"
    if _draw(60, "has prompt", *here) == 0:
        # Far larger than all the rest of a trace.
        values["prompt"] = "word " * 4_000
    return values


def _add_event(span, here):
    event = span.events.add(name=_pick(["exception", "retry"], "event name", *here))
    event.time_unix_nano = span.start_time_unix_nano
    kinds = ["TimeoutError", "ValueError", ""]
    values = {"exception.type": _pick(kinds, "exception", *here)}
    event.attributes.extend(_attributes(values))


def _attributes(values):
    return [KeyValue(key=key, value=_any_value(value)) for key, value in values.items()]


def _any_value(value):
    # `bool` first: it is an `int` too.
    for python_type, field in (
        (bool, "bool_value"),
        (int, "int_value"),
        (float, "double_value"),
        (str, "string_value"),
    ):
        if isinstance(value, python_type):
            return AnyValue(**{field: value})
    raise TypeError(type(value))


def _pick(choices, *where):
    return choices[_draw(len(choices), *where)]


def _draw(n_choices, *where):
    """A whole number from 0 up to but not including `n_choices`."""
    return int.from_bytes(_digest(*where)[:8]) % n_choices


def _digest(*where):
    return hashlib.blake2b("/".join(map(str, where)).encode(), digest_size=16).digest()
