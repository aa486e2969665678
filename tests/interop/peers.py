"""The query APIs of Jaeger and Tempo, read with the official messages of OTLP, strictly.

JSON is parsed by protobuf's own JSON parser, which refuses names and types that the messages do not have, after ids
are turned from OTLP's hex into the base64 that it expects. Protobuf must leave no unknown field behind.
"""

import base64
import json
import time
from urllib.parse import quote, urlencode

from checks import Wrong, expect
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.trace.v1 import trace_pb2

PROTOBUF = {"Accept": "application/protobuf"}

# A trace with more than one span, and one with few enough to compare.
PICK = (
    "SELECT trace_id, count(*) AS n_spans, max(service_name) AS service, max(name) AS name FROM spans"
    " GROUP BY trace_id HAVING count(*) > 1 ORDER BY n_spans DESC, trace_id LIMIT 1"
)


def check_jaeger(server):
    """Version 3 and the legacy paths agree with SQL about names, searches and one trace."""
    trace = server.sql(PICK)[0]
    services = sorted(row["s"] for row in server.sql("SELECT DISTINCT service_name AS s FROM spans"))
    expect("services", server.get("/jaeger/api/v3/services")["services"], services)
    expect("services, legacy", server.get("/jaeger/api/services")["data"], services)
    service = quote(trace["service"], safe="")
    operations = server.get(f"/jaeger/api/v3/operations?service={service}")["operations"]
    names = server.get(f"/jaeger/api/services/{service}/operations")["data"]
    expect("operations", sorted({each["name"] for each in operations}), names)

    path = f"/jaeger/api/v3/traces/{trace['trace_id']}"
    spans = _spans(_of_json(server.get(path)["result"]))
    _check_spans(server, trace, spans)
    legacy = server.get(f"/jaeger/api/traces/{trace['trace_id']}")["data"][0]
    expect("spans, legacy", sorted(each["spanID"] for each in legacy["spans"]), sorted(spans))
    for each in legacy["spans"]:
        span = spans[each["spanID"]]
        expect("start", each["startTime"], span.start_time_unix_nano // 1000)
        expect("process", each["processID"] in legacy["processes"], True)

    now = time.time_ns()
    times = {
        "query.start_time_min": _iso(now - 3600 * 10**9),
        "query.start_time_max": _iso(now),
        "query.service_name": trace["service"],
        "query.num_traces": 5,
    }
    found = _of_json(server.get(f"/jaeger/api/v3/traces?{urlencode(times)}")["result"])
    n_found = len({span.trace_id for span in _spans(found).values()})
    summaries = server.get(f"/jaeger/api/v3/trace-summaries?{urlencode(times)}")["summaries"]
    expect("traces found", n_found, len(summaries))
    return f"{len(services)} services, {len(names)} operations, {len(spans)} spans in both models, {n_found} traces found"


def check_tempo(server):
    """A trace as protobuf and as JSON, a search, keys and values."""
    trace = server.sql(PICK)[0]
    trace_id = trace["trace_id"]
    first = _strict(trace_pb2.TracesData, server.get(f"/tempo/api/traces/{trace_id}", PROTOBUF))
    second = _strict(_response(), server.get(f"/tempo/api/v2/traces/{trace_id}", PROTOBUF))
    expect("both versions", second.trace, first)
    spans = _spans(first)
    _check_spans(server, trace, spans)
    expect("as JSON", _of_json(server.get(f"/tempo/api/v2/traces/{trace_id}")["trace"]), first)

    now = time.time()
    query = {
        "q": f'{{resource.service.name="{trace["service"]}" && name=~".*"}}',
        "limit": 20,
        "spss": 3,
        "start": int(now) - 3600,
        "end": int(now) + 1,
    }
    traces = server.get(f"/tempo/api/search?{urlencode(query)}")["traces"]
    for each in traces:
        if not 1 <= len(each["spanSets"][0]["spans"]) <= 3:
            raise Wrong(f"spans of a result: {each}")
    scopes = server.get("/tempo/api/v2/search/tags?limit=5000")["scopes"]
    keys = {scope["name"]: scope["tags"] for scope in scopes}
    values = server.get("/tempo/api/v2/search/tag/resource.service.name/values")["tagValues"]
    services = server.sql("SELECT DISTINCT service_name AS s FROM spans")
    expect("values", sorted(v["value"] for v in values), sorted(row["s"] for row in services))
    expect("echo", server.get("/tempo/api/echo", raw=True), b"echo")
    n_keys = len(keys["span"]) + len(keys["resource"])
    return f"{len(spans)} spans in protobuf and JSON, {len(traces)} traces found, {n_keys} keys"


def _check_spans(server, trace, spans):
    """A trace as it was decoded has the spans that SQL has."""
    rows = server.sql(
        "SELECT span_id, name, start_time_unix_nano AS start, end_time_unix_nano AS end FROM spans"
        f" WHERE trace_id = '{trace['trace_id']}'"
    )
    expect("span ids", sorted(spans), sorted(row["span_id"] for row in rows))
    for row in rows:
        span = spans[row["span_id"]]
        observed = (span.name, span.start_time_unix_nano, span.end_time_unix_nano)
        expect(f"span {row['span_id']}", observed, (row["name"], row["start"], row["end"]))


def _spans(traces_data):
    """Spans by id."""
    return {
        span.span_id.hex(): span
        for resource_spans in traces_data.resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    }


def _of_json(traces_data):
    """OTLP JSON as its message."""
    text = json.dumps(_with_base64(traces_data))
    return json_format.Parse(text, trace_pb2.TracesData(), ignore_unknown_fields=False)


def _with_base64(value):
    if isinstance(value, list):
        return [_with_base64(item) for item in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {
        key: base64.b64encode(bytes.fromhex(item)).decode() if key in ids else _with_base64(item)
        for key, item in value.items()
    }


def _strict(message, body):
    """A decoded message, all of whose fields are known."""
    decoded = message.FromString(body)
    unknown = UnknownFieldSet(decoded)
    if len(unknown) or decoded.ByteSize() != len(body):
        raise Wrong(f"{len(unknown)} unknown fields, {len(body)} bytes for {decoded.ByteSize()}")
    return decoded


def _response():
    """`tempopb.TraceByIDResponse` as far as it is filled: field 1 is the trace."""
    file = descriptor_pb2.FileDescriptorProto(
        name="response.proto",
        package="interop",
        dependency=["opentelemetry/proto/trace/v1/trace.proto"],
        syntax="proto3",
    )
    message = file.message_type.add(name="TraceByIDResponse")
    message.field.add(
        name="trace",
        number=1,
        label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
        type=descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE,
        type_name=".opentelemetry.proto.trace.v1.TracesData",
    )
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("interop.TraceByIDResponse"))


def _iso(nanos):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(nanos // 10**9)) + "Z"
