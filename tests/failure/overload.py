"""Twice the load that the server can take, for a minute, with a real SDK among the senders.

Capacity is what is accepted when a little more comes, as evenly as in the overload: measured before and after it, of
which the better counts. How much that is about, senders tell that send as fast as they are answered; they come in
bursts, which storage takes in other pieces, so what they reach is no measure of a steady load. Once it is set by the
line to the object store, which is the same on any machine; once by the processor. There the server has a processor of
its own, so that refusing senders costs the server something and sending does not, and capacity is that of one
processor.
"""

import logging
import os
import threading
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import store
from checks import expect
from ledger import SPANS_PER_TRACE, Load, accepted, answers, check_answers, check_tables
from processes import on, sampled
from seaweed import BUCKET
from service import BYTES_IN_FLIGHT_MAX, check_balance, service

ROUGH_SECONDS = 45
CAPACITY_SECONDS = 85
OVERLOAD_SECONDS = 85
# Until queues are full; what follows is a minute.
WARM_UP_SECONDS = 25
# Until a slow build has stored all that waits.
DRAIN_SECONDS_MAX = 300
TOLERANCE = 0.05
# What is offered while capacity is measured, of what was accepted from bursts.
OFFERED_FOR_CAPACITY = 1.2
# A little more than twice what was measured before, in case that more is measured after.
OFFERED = 2.1
OFFERED_MIN = 1.8
SENDERS = 32
TRACES_PER_EXPORT = 1
# As many spans as an SDK sends at once by default (512): a refusal costs the server about 75 us of its processor, an
# export that is accepted about 4 us per span, so that with small exports refusing takes its share.
TRACES_PER_EXPORT_CPU = 20

# Several commits: what the server needs to know the pace of its storage.
BACKLOG_SPANS_MAX = 60_000
BACKLOG_SPANS_MAX_CPU = 500_000
# Of a size at which the line carries rows rather than the footers of files; otherwise bursts, which make larger
# commits than a steady load, would measure more than any steady load can reach.
COMMIT_BYTES = 4 << 20
COMMIT_BYTES_CPU = 16 << 20
# Slow enough that a slow build on a busy machine waits for the line, not the line for it.
BYTES_PER_S = 50_000
# Bytes in flight, rows in memory (twice `commit_bytes` before no more are taken, the same again while they are
# written, and four releases that wait). The rest is what does not depend on the load: Parquet writers, connections,
# and what the allocator keeps.
MEMORY_REST = 128 << 20
# What the log holds is not in memory, but where in the log it is.
BYTES_PER_WAITING_SPAN = 64
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
                _attack(checks, folder, name, server, TRACES_PER_EXPORT, limits)


def attack_cpu(checks, folder, binary):
    """Everything on one machine and stored in a folder: the processor is the limit."""
    name = "overload-cpu"
    processors = sorted(os.sched_getaffinity(0))
    expect("processors are at least two", len(processors) >= 2, True)
    limits = {
        "intake": {"release_backlog_spans_max": BACKLOG_SPANS_MAX_CPU},
        "lake": {"commit_bytes": COMMIT_BYTES_CPU},
    }
    tables = str(folder.below(f"{name}-tables"))
    with on(processors[:1]), service(folder, name, binary, tables, **limits) as server:
        with on(processors[1:]):
            _attack(checks, folder, name, server, TRACES_PER_EXPORT_CPU, limits)


def _attack(checks, folder, name, server, n_traces, limits):
    def send(when, seconds, rate=None):
        arguments = {"senders": SENDERS, "traces": n_traces, "rate": rate}
        return Load(folder, f"{name}-{when}", server.http, seconds, **arguments).finish()

    rough = send("rough", ROUGH_SECONDS)
    server.await_decisions(DRAIN_SECONDS_MAX)
    even = OFFERED_FOR_CAPACITY * _rate(rough, ROUGH_SECONDS)
    before = send("before", CAPACITY_SECONDS, rate=even)
    server.await_decisions(DRAIN_SECONDS_MAX)
    memory_before = server.memory_bytes()
    with sdk(server) as spans, sampled(server.memory_bytes) as peak:
        offered = OFFERED * _rate(before, CAPACITY_SECONDS)
        during = send("overload", OVERLOAD_SECONDS, rate=offered)
    server.await_decisions(DRAIN_SECONDS_MAX)
    after = send("after", CAPACITY_SECONDS, rate=even)
    capacities = [_rate(exports, CAPACITY_SECONDS) for exports in (before, after)]
    spans_per_s = max(capacities) * n_traces * SPANS_PER_TRACE
    numbers = (
        f"{capacities[0]:.1f} exports/s before, {capacities[1]:.1f} after; the better is "
        f"{spans_per_s:.0f} spans/s; {answers(before + after)}"
    )
    checks.run(f"{name}: capacity", lambda: numbers)
    checks.run(f"{name}: what senders got", check_answers, during, (200, 429))
    checks.run(f"{name}: goodput", _check_goodput, during, max(capacities))
    commit_bytes = limits["lake"]["commit_bytes"]
    backlog = limits["intake"]["release_backlog_spans_max"]
    checks.run(f"{name}: memory", _check_memory, memory_before, peak, commit_bytes, backlog)
    checks.run(f"{name}: SDK", _check_sdk, server, spans)
    checks.run(f"{name}: conservation", check_balance, server)
    checks.run(f"{name}: tables", check_tables, server, rough + before + during + after)


def _rate(exports, seconds):
    """Accepted exports per second, once queues are full."""
    return len(accepted(exports, WARM_UP_SECONDS, seconds)) / (seconds - WARM_UP_SECONDS)


def _check_goodput(exports, capacity):
    goodput = _rate(exports, OVERLOAD_SECONDS)
    n_offered = len([e for e in exports if WARM_UP_SECONDS <= e["at"] < OVERLOAD_SECONDS])
    offered = n_offered / (OVERLOAD_SECONDS - WARM_UP_SECONDS)
    share = goodput / capacity
    numbers = (
        f"offered {offered:.1f} exports/s ({offered / capacity:.2f} x capacity), "
        f"accepted {goodput:.1f} ({100 * share:.1f} % of capacity)"
    )
    expect(f"twice the capacity was offered ({numbers})", offered > OFFERED_MIN * capacity, True)
    expect(f"goodput stays ({numbers})", share >= 1 - TOLERANCE, True)
    return numbers


def _check_memory(before, peak, commit_bytes, backlog):
    waiting = BYTES_PER_WAITING_SPAN * backlog
    limit = BYTES_IN_FLIGHT_MAX + 8 * commit_bytes + waiting + MEMORY_REST
    grown = max(peak) - before
    half = peak[: len(peak) // 2], peak[len(peak) // 2 :]
    numbers = (
        f"{before >> 20} MiB before, {grown >> 20} MiB more at the peak (limit {limit >> 20}), "
        f"peak of the first half {max(half[0]) >> 20} MiB, of the second {max(half[1]) >> 20} MiB"
    )
    expect(f"memory is bounded ({numbers})", grown <= limit, True)
    expect(f"it does not creep ({numbers})", max(half[1]) <= MEMORY_DRIFT_MAX * max(half[0]), True)
    return numbers


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
    # When it gives up, it says so in other words.
    is_retry = [text.startswith("Transient error") for text in run.complaints]
    retries = [text for text, is_one in zip(run.complaints, is_retry, strict=True) if is_one]
    others = [text for text, is_one in zip(run.complaints, is_retry, strict=True) if not is_one]
    expect("force_flush", run.is_flushed, True)
    expect("complaints of the SDK beside retries", others, [])
    expect("the SDK was refused at least once", len(retries) > 0, True)
    server.await_rows("spans", "service_name = 'sdk'", run.n_spans)
    unique = server.sql(
        "SELECT count(*) AS n FROM (SELECT DISTINCT trace_id, span_id FROM spans "
        "WHERE service_name = 'sdk')"
    )[0]["n"]
    expect("distinct spans of the SDK", unique, run.n_spans)
    return (
        f"refused {len(retries)} times, sent again by itself each time, "
        f"delivered {unique} of {run.n_spans} spans, each once"
    )
