"""A stream that outlasts `decision_wait`: lost by the Collector, kept whole under `trigger` rules.

Scaled down, because the Collector takes real time: `decision_wait` is 2 s in place of 30 s, and the
stream lasts 10 s in place of minutes. Its spans come each second, the root last, and only the root
is slow. What takes forty minutes is shown in given time by `cargo test`
(`crates/sampler/tests/sampler/streams.rs`).
"""

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SECONDS = 10
DECISION_WAIT = "2s"
# The processor's timer ticks each second, and decides up to one later.
SETTLE_SECONDS = 5
SAMPLING = {
    "decision_wait": DECISION_WAIT,
    "policies": [{"name": "slow", "type": "latency", "latency": {"threshold_ms": SECONDS * 500}}],
}
# What Whyslow has beyond it.
WITH_RULES = {
    "trigger": {"root_grace": "1s", "idle": "5s", "max_wait": "60s"},
    "policies": SAMPLING["policies"],
}

TRACE_ID = bytes(range(1, 17))
N_SPANS = SECONDS + 1
# Any time: `replay` moves it to the present.
START_UNIX_NANO = 1_795_960_800 * 1_000_000_000
SECOND = 1_000_000_000


def write(folder):
    """Writes one export request for each span, in the order of their ends."""
    for number in range(1, N_SPANS + 1):
        request = ExportTraceServiceRequest()
        resource_spans = request.resource_spans.add()
        span = resource_spans.scope_spans.add().spans.add(trace_id=TRACE_ID, name="step")
        span.span_id = number.to_bytes(8)
        span.end_time_unix_nano = START_UNIX_NANO + (number - 1) * SECOND
        if number == N_SPANS:
            span.name, span.start_time_unix_nano = "stream", START_UNIX_NANO
        else:
            span.parent_span_id = N_SPANS.to_bytes(8)
            span.start_time_unix_nano = span.end_time_unix_nano - SECOND // 10
        (folder / f"{number:02}.trace.pb").write_bytes(request.SerializeToString())


def text(kept):
    """The numbers of spans that each kept, by what it is called."""
    what = f"a stream of {SECONDS} s that ends slow, under `decision_wait: {DECISION_WAIT}`"
    width = max(map(len, kept))
    lines = [f"  {name:{width}}  {n:2} of {N_SPANS} spans kept" for name, n in kept.items()]
    return "\n".join([f"{what} (scaled down from minutes and 30 s)", *lines])


def is_as_promised(kept):
    """Lost by the first two, which were given the same file, and whole in the third."""
    return list(kept.values()) == [0, 0, N_SPANS]
