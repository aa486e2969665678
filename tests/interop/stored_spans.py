"""What the tables must hold of spans that the Python SDK has finished.

The rules are those of `storage/README.md` and the heads of the crates that it is generated from:
values become text, known keys become columns, absence is NULL.
"""

import base64
import json

from checks import Wrong, eventually, expect, shorten

# Keys with a column of their own, in which alone they are.
PROMOTED = {
    "service.name": "service_name",
    "service.instance.id": "service_instance_id",
    "http.request.method": "http_request_method",
    "http.response.status_code": "http_response_status_code",
    "gen_ai.request.id": "gen_ai_request_id",
    "gen_ai.latency.e2e": "gen_ai_latency_e2e",
    "gen_ai.latency.time_to_first_token": "gen_ai_latency_time_to_first_token",
    "gen_ai.latency.time_in_queue": "gen_ai_latency_time_in_queue",
    "gen_ai.usage.input_tokens": "gen_ai_usage_input_tokens",
    "gen_ai.usage.output_tokens": "gen_ai_usage_output_tokens",
}

# `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE` alone: the sender knows the context, and it is its own.
LOCAL_CONTEXT = 0x100

COLUMNS = [
    "trace_id",
    "span_id",
    "parent_span_id",
    "name",
    "flags",
    "kind",
    "start_time_unix_nano",
    "end_time_unix_nano",
    "duration_ns",
    "status_code",
    "status_message",
    "scope_name",
    "scope_version",
    "exception_type",
    "exception_message",
    *PROMOTED.values(),
    "attributes",
    "resource_attributes",
    "events",
    "links",
]


# How long the engine took for each request.
ENGINE_S = 2


def engine_attributes(trace_idx):
    """What vLLM says of a request, as far as the checks compare it."""
    return {
        "gen_ai.request.id": f"cmpl-{trace_idx}",
        "gen_ai.latency.e2e": float(ENGINE_S),
        "gen_ai.latency.time_to_first_token": 0.5,
        "gen_ai.latency.time_in_queue": 0.25,
        "gen_ai.usage.input_tokens": 1000 + trace_idx,
        "gen_ai.usage.output_tokens": 10,
    }


def compare(server, service, spans):
    """Waits for the rows of a service and compares every column of every one."""
    where = f"service_name = '{service}'"
    server.await_rows("spans", where, len(spans))
    rows = server.sql(f"SELECT {', '.join(COLUMNS)} FROM spans WHERE {where}")
    observed = {row["span_id"]: row for row in rows}
    for event in (event for row in rows for event in row["events"]):
        # The same time twice; the exact one is compared.
        del event["time"]
    expected = {row["span_id"]: row for row in map(_row, spans)}
    expect("span ids", sorted(observed), sorted(expected))
    for span_id, row in expected.items():
        for column, value in row.items():
            if observed[span_id][column] != value:
                raise Wrong(
                    f"{row['name']!r}, column {column}: expected {shorten(value)}, "
                    f"observed {shorten(observed[span_id][column])}"
                )
    trace_ids = {row["trace_id"] for row in expected.values()}
    _compare_traces(server, service, trace_ids)
    _compare_requests(server, where, trace_ids)
    n_traces = len(trace_ids)
    return f"{len(spans)} spans in {n_traces} traces, {n_traces} requests, {len(COLUMNS)} columns"


def _compare_traces(server, service, trace_ids):
    """Each trace has its row, and together they have counted every span."""
    statement = f"SELECT trace_id FROM traces WHERE root_service_name = '{service}'"
    eventually(
        lambda: f"table traces lacks some of {len(trace_ids)} traces of {service}",
        lambda: {row["trace_id"] for row in server.sql(statement)} == trace_ids,
    )


def _compare_requests(server, where, trace_ids):
    """Each engine span is a request; the latencies are those that the engine said."""
    server.await_rows("requests", where, len(trace_ids))
    columns = "trace_id, engine, e2e_s, engine_ttft_s, queue_s, output_tokens"
    for row in server.sql(f"SELECT {columns} FROM requests WHERE {where}"):
        expect("trace of a request is known", row.pop("trace_id") in trace_ids, True)
        said = {"engine": "vllm", "e2e_s": float(ENGINE_S), "engine_ttft_s": 0.5, "queue_s": 0.25}
        expect("request", row, {**said, "output_tokens": 10})


def _row(span):
    """The row of a finished span."""
    context = span.get_span_context()
    scope = span.instrumentation_scope
    exceptions = [event.attributes for event in span.events if event.name == "exception"]
    last_exception = exceptions[-1] if exceptions else {}
    said = {**span.resource.attributes, **span.attributes}
    return {
        "trace_id": _trace_id(context.trace_id),
        "span_id": _span_id(context.span_id),
        "parent_span_id": _span_id(span.parent.span_id) if span.parent else None,
        "name": span.name,
        "flags": LOCAL_CONTEXT,
        "kind": span.kind.name,
        "start_time_unix_nano": span.start_time,
        "end_time_unix_nano": span.end_time,
        "duration_ns": span.end_time - span.start_time,
        "status_code": span.status.status_code.name,
        "status_message": span.status.description,
        "scope_name": scope.name,
        "scope_version": scope.version or None,
        "exception_type": last_exception.get("exception.type"),
        "exception_message": last_exception.get("exception.message"),
        **{column: said.get(key) for key, column in PROMOTED.items()},
        "attributes": _texts(span.attributes),
        "resource_attributes": _texts(span.resource.attributes),
        "events": [
            {
                "time_unix_nano": event.timestamp,
                "name": event.name,
                "attributes": _texts(event.attributes),
                "dropped_attributes_count": 0,
            }
            for event in span.events
        ],
        "links": [
            {
                "trace_id": _trace_id(link.context.trace_id),
                "span_id": _span_id(link.context.span_id),
                "trace_state": None,
                "flags": LOCAL_CONTEXT,
                "attributes": _texts(link.attributes),
                "dropped_attributes_count": 0,
            }
            for link in span.links
        ],
    }


def _texts(attributes):
    return {key: _text(value) for key, value in attributes.items() if key not in PROMOTED}


def _text(value):
    """A value as the stored text: text as it is, lists and maps as JSON, bytes as base64."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _trace_id(number):
    return f"{number:032x}"


def _span_id(number):
    return f"{number:016x}"
