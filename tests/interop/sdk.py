"""The Python SDK as a service uses it: spans with every kind of value, sent by its OTLP exporters.

What must be stored is computed from the SDK's own finished spans (`stored_spans.py`).
"""

import logging
import time

import grpc
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression as HttpCompression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanKind

import stored_spans
from checks import eventually, expect

N_TRACES = 60

# Name of a run, and how its exporter is made.
EXPORTERS = {
    "grpc": lambda server: GrpcExporter(endpoint=server.grpc, insecure=True),
    "grpc-gzip": lambda server: GrpcExporter(
        endpoint=server.grpc, insecure=True, compression=grpc.Compression.Gzip
    ),
    "http": lambda server: HttpExporter(endpoint=f"http://{server.http}/v1/traces"),
    "http-gzip": lambda server: HttpExporter(
        endpoint=f"http://{server.http}/v1/traces", compression=HttpCompression.Gzip
    ),
    "http-deflate": lambda server: HttpExporter(
        endpoint=f"http://{server.http}/v1/traces", compression=HttpCompression.Deflate
    ),
}

# Beyond ASCII, with what JSON escapes, and with a zero byte.
TEXT = 'Gr\u00f6\u00dfe \u691c\u7d22 \U0001f50e "quoted" \\ \n\t\x00 end'

# One of every kind of value that the SDK takes.
VALUES = {
    "v.text": TEXT,
    "v.text.empty": "",
    "v.none": None,
    "v.bool": True,
    "v.int.least": -(2**63),
    "v.int.greatest": 2**63 - 1,
    "v.double": -0.1,
    "v.bytes": b"\x00\xff\x80",
    "v.texts": ["a", "", TEXT.replace("\x00", "")],
    "v.texts.none": ["a", None, "b"],
    "v.ints": [1, -2, 3],
    "v.doubles": [0.5, -0.25],
    "v.bools": [True, False],
    "v.empty": [],
    "v.map": {"outer": {"inner": [1, None, "\u00e9"]}, "text": "x"},
    "v.\u30ad\u30fc": "key beyond ASCII",
}

RESOURCE = {"r.text": TEXT, "r.list": ["x", "y"]}
ROOT = {**VALUES, "http.request.method": "POST", "http.response.status_code": 500}
EVENT = {"keys": ["a", "b"], "none": None, "text": TEXT}


class Complaints(logging.Handler):
    """Keeps what the SDK and its exporters log: it is how they report a failed export."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts = []

    def emit(self, record):
        self.texts.append(f"{record.name}: {record.getMessage()}")

    def __enter__(self):
        logging.getLogger("opentelemetry").addHandler(self)
        return self

    def __exit__(self, *_):
        logging.getLogger("opentelemetry").removeHandler(self)


def check(server, sent, exporter):
    """All spans of a run are stored with all of their values."""
    service = f"sdk-{exporter}"
    finished = InMemorySpanExporter()
    with Complaints() as complaints:
        provider = _provider(service)
        provider.add_span_processor(SimpleSpanProcessor(finished))
        provider.add_span_processor(BatchSpanProcessor(EXPORTERS[exporter](server)))
        _record_traces(provider)
        expect("force_flush", provider.force_flush(), True)
        provider.shutdown()
        expect("complaints of the SDK", complaints.texts, [])
    spans = finished.get_finished_spans()
    sent.update(spans=len(spans))
    return stored_spans.compare(server, service, spans)


def check_trickle(senders, n_commits):
    """Single spans to each server, until each has made this many more commits per table.

    So the tables get a Delta checkpoint, and servers that share them commit at the same time.
    """
    service = "sdk-trickle"
    commits = {server: server.metrics()["lake_commits_total"] for server, _ in senders}
    with Complaints() as complaints:
        providers = [_provider(service) for _ in senders]
        for (server, _), provider in zip(senders, providers, strict=True):
            # Each span is an export.
            provider.add_span_processor(SimpleSpanProcessor(EXPORTERS["grpc"](server)))

        def probe():
            for (_, sent), provider in zip(senders, providers, strict=True):
                provider.get_tracer("interop").start_span("drop", attributes=VALUES).end()
                sent.update(spans=1)
            # Into `spans` and `traces`: a span like this is no request.
            return all(
                server.metrics()["lake_commits_total"] - begin >= 2 * n_commits
                for server, begin in commits.items()
            )

        eventually(f"less than {n_commits} commits per table", probe)
        for provider in providers:
            provider.shutdown()
        expect("complaints of the SDK", complaints.texts, [])
    return f"at least {n_commits} per table, servers {len(senders)}"


def _provider(service):
    return TracerProvider(resource=Resource.create({"service.name": service, **RESOURCE}))


def _record_traces(provider):
    """Traces of four spans: a root, a search, a model call that fails, and the engine's request."""
    tracer = provider.get_tracer("interop", "1.2.3", attributes={"scope.attribute": "x"})
    engine = provider.get_tracer("vllm.llm_engine")
    previous = None
    for trace_idx in range(N_TRACES):
        name = f"POST /chat \u2013 {TEXT} {trace_idx}"
        links = [Link(previous, {"link.idx": trace_idx})] if previous else []
        with tracer.start_as_current_span(name, kind=SpanKind.SERVER, attributes=ROOT) as root:
            previous = root.get_span_context()
            with tracer.start_as_current_span("search", kind=SpanKind.CLIENT, links=links) as span:
                span.add_event("cache.miss", EVENT)
                span.add_event("bare")
            _fail(tracer)
            _report_request(engine, trace_idx)


def _report_request(engine, trace_idx):
    """The engine makes its span when the request is over."""
    now = time.time_ns()
    request = engine.start_span(
        "llm_request",
        kind=SpanKind.SERVER,
        start_time=now - stored_spans.ENGINE_S * 1_000_000_000,
        attributes=stored_spans.engine_attributes(trace_idx),
    )
    request.end(now)


def _fail(tracer):
    """A span that an exception leaves: the SDK adds the event `exception` and the status ERROR."""
    try:
        with tracer.start_as_current_span("generate"):
            raise ValueError(f"no answer: {TEXT}")
    except ValueError:
        pass
