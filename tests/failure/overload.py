"""Twice the load that the server can take, for a minute, with a real SDK among the senders.

Capacity is what is accepted of a load that is certainly too much. Once it is set by the line to the object store,
which is the same on any machine; once by the processor, where the load generator takes its part of it.
"""

import logging
import threading
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import store
from checks import expect
from ledger import SPANS_PER_TRACE, Load, accepted, answers, check_answers, check_tables
from seaweed import BUCKET
from service import BYTES_IN_FLIGHT_MAX, check_balance, service

CAPACITY_SECONDS = 75
OVERLOAD_SECONDS = 75
# Until queues are full; what follows is a minute.
WARM_UP_SECONDS = 15
TOLERANCE = 0.05
SENDERS = 32
TRACES_PER_EXPORT = 1

# A few seconds of work for the slow store, in commits small enough for a steady rate.
BACKLOG_SPANS_MAX = 2_000
BACKLOG_SPANS_MAX_CPU = 100_000
COMMIT_BYTES = 1 << 20
COMMIT_BYTES_CPU = 16 << 20
BYTES_PER_S = 250_000
# About twice what such a line takes.
PROBE_RATE = 80
# More than a processor takes; senders that cannot keep up offer less.
PROBE_RATE_CPU = 4_000
# Bytes in flight, rows in memory (twice `commit_bytes` before no more are taken, the same again while they are
# written, and four releases that wait). The rest is what does not depend on the load: Parquet writers, connections,
# and what the allocator keeps.
MEMORY_REST = 128 << 20
MEMORY_DRIFT_MAX = 1.1

SDK_TRACES_PER_SECOND = 5


def attack_slow_store(checks, folder, binary):
    """The line to the object store is slow: storage is the limit."""
    name = "overload-store"
    with store.weed(folder, name) as bucket:
        plan = {"bytes_per_s": BYTES_PER_S}
        with store.proxy(folder, name, bucket, **plan) as (environment, _):
            limits = {
                "intake": {"release_backlog_spans_max": BACKLOG_SPANS_MAX},
                "lake": {"commit_bytes": COMMIT_BYTES},
            }
            tables = f"s3://{BUCKET}/{name}"
            with service(folder, name, binary, tables, environment, **limits) as server:
                _attack(checks, folder, name, server, PROBE_RATE, COMMIT_BYTES)


def attack_cpu(checks, folder, binary):
    """Everything on one machine and stored in a folder: the processor is the limit."""
    name = "overload-cpu"
    # Seconds of work here as well.
    limits = {
        "intake": {"release_backlog_spans_max": BACKLOG_SPANS_MAX_CPU},
        "lake": {"commit_bytes": COMMIT_BYTES_CPU},
    }
    tables = str(folder.below(f"{name}-tables"))
    with service(folder, name, binary, tables, **limits) as server:
        _attack(checks, folder, name, server, PROBE_RATE_CPU, COMMIT_BYTES_CPU)


def _attack(checks, folder, name, server, probe_rate, commit_bytes):
    arguments = {"senders": SENDERS, "traces": TRACES_PER_EXPORT}
    load = Load(
        folder, f"{name}-capacity", server.http, CAPACITY_SECONDS, rate=probe_rate, **arguments
    )
    first = load.finish()
    capacity = len(accepted(first, WARM_UP_SECONDS)) / (CAPACITY_SECONDS - WARM_UP_SECONDS)
    n_spans = TRACES_PER_EXPORT * SPANS_PER_TRACE
    numbers = f"{capacity:.1f} exports/s, {capacity * n_spans:.0f} spans/s; {answers(first)}"
    checks.run(f"{name}: capacity", lambda: numbers)
    server.await_decisions()
    memory_before = server.memory_bytes()
    with sdk(server) as spans, memory(server) as peak:
        load = Load(
            folder,
            f"{name}-load",
            server.http,
            OVERLOAD_SECONDS,
            rate=2 * capacity,
            **arguments,
        )
        second = load.finish()
    checks.run(f"{name}: what senders got", check_answers, second, (200, 429))
    checks.run(f"{name}: goodput", _check_goodput, second, capacity)
    checks.run(f"{name}: memory", _check_memory, memory_before, peak, commit_bytes)
    checks.run(f"{name}: SDK", _check_sdk, server, spans)
    checks.run(f"{name}: conservation", check_balance, server)
    checks.run(f"{name}: tables", check_tables, server, first + second)


def _check_goodput(exports, capacity):
    seconds = OVERLOAD_SECONDS - WARM_UP_SECONDS
    goodput = len(accepted(exports, WARM_UP_SECONDS, OVERLOAD_SECONDS)) / seconds
    offered = len([e for e in exports if e["at"] >= WARM_UP_SECONDS]) / seconds
    share = goodput / capacity
    numbers = (
        f"offered {offered:.1f} exports/s ({offered / capacity:.2f} x capacity), "
        f"accepted {goodput:.1f} ({100 * share:.1f} % of capacity)"
    )
    expect(f"twice the capacity was offered ({numbers})", offered > 1.8 * capacity, True)
    expect(f"goodput stays ({numbers})", share >= 1 - TOLERANCE, True)
    return numbers


def _check_memory(before, peak, commit_bytes):
    limit = BYTES_IN_FLIGHT_MAX + 8 * commit_bytes + MEMORY_REST
    grown = max(peak) - before
    half = peak[: len(peak) // 2], peak[len(peak) // 2 :]
    numbers = (
        f"{before >> 20} MiB before, {grown >> 20} MiB more at the peak (limit {limit >> 20}), "
        f"peak of the first half {max(half[0]) >> 20} MiB, of the second {max(half[1]) >> 20} MiB"
    )
    expect(f"memory is bounded ({numbers})", grown <= limit, True)
    expect(f"it does not creep ({numbers})", max(half[1]) <= MEMORY_DRIFT_MAX * max(half[0]), True)
    return numbers


@contextmanager
def memory(server):
    """Resident memory, twice a second."""
    samples, over = [], threading.Event()

    def watch():
        while not over.wait(0.5):
            samples.append(server.memory_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield samples
    finally:
        over.set()
        watcher.join()


class Sdk:
    """What the SDK was given and what it says."""

    def __init__(self):
        self.n_spans = 0
        self.complaints = []
        self.is_flushed = None


class _Complaints(logging.Handler):
    def __init__(self, sdk_run):
        super().__init__(logging.WARNING)
        self._run = sdk_run

    def emit(self, record):
        self._run.complaints.append(record.getMessage())


@contextmanager
def sdk(server):
    """The Python SDK records traces meanwhile; its own batches, retries and deadlines."""
    run, over = Sdk(), threading.Event()
    handler = _Complaints(run)
    logging.getLogger("opentelemetry").addHandler(handler)
    logging.getLogger("opentelemetry").propagate = False
    provider = TracerProvider(resource=Resource.create({"service.name": "sdk"}))
    # Its deadline is longer than the overload; the default of 10 s may end within it.
    exporter = OTLPSpanExporter(endpoint=server.grpc, insecure=True, timeout=2 * OVERLOAD_SECONDS)
    # A queue that holds the whole run: what the SDK itself drops is not the server's.
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=65_536))
    tracer = provider.get_tracer("overload")

    def record():
        while not over.wait(1 / SDK_TRACES_PER_SECOND):
            with tracer.start_as_current_span("root"):
                tracer.start_span("child").end()
            run.n_spans += 2

    recorder = threading.Thread(target=record, daemon=True)
    recorder.start()
    try:
        yield run
    finally:
        over.set()
        recorder.join()
        run.is_flushed = provider.force_flush(120_000)
        provider.shutdown()
        logging.getLogger("opentelemetry").removeHandler(handler)


def _check_sdk(server, run):
    retries = [text for text in run.complaints if "etry" in text]
    others = [text for text in run.complaints if "etry" not in text]
    expect("force_flush", run.is_flushed, True)
    expect("complaints of the SDK beside retries", others, [])
    expect("the SDK was refused at least once", len(retries) > 0, True)
    server.await_rows("spans", "service_name = 'sdk'", run.n_spans)
    unique = server.sql(
        "SELECT count(*) AS n FROM (SELECT DISTINCT trace_id, span_id FROM spans "
        "WHERE service_name = 'sdk')"
    )[0]["n"]
    expect("distinct spans of the SDK", unique, run.n_spans)
    return f"refused {len(retries)} times and sent again, all {run.n_spans} spans stored once"
