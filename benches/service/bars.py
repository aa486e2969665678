"""Each bar of the design: what it asks for, what was measured, and whether that reaches it.

A bar of which a run has no number says so; it is not left out.
"""

import scenarios

# From here on queues are full and the allocator has what it needs.
STEADY_SECONDS = 20
MEMORY_DRIFT_MAX = 1.1
# Less is no overload by twice the capacity.
OFFERED_MIN = 1.8


def row_of(run, scenario, peer):
    """The row of a step that did not fail."""
    rows = (row for row in run if (row["scenario"], row["peer"]) == (scenario, peer))
    return next((row for row in rows if "trouble" not in row), None)


def table(measured):
    """Lines of Markdown, a column per run."""
    runs = measured["runs"]
    yield "| bar | asked for |" + "".join(f" run {idx + 1} |" for idx in range(len(runs)))
    yield "|---|---|" + "---|" * len(runs)
    for what, asked, of_run in BARS:
        cells = [_cell(of_run(run, measured)) for run in runs]
        yield f"| {what} | {asked} | " + " | ".join(cells) + " |"


def _cell(found):
    if found is None:
        return "not measured"
    text, is_reached = found
    if is_reached is None:
        return f"not measured: {text}"
    return f"{text}: {'reached' if is_reached else '**missed**'}"


def per_cpu_s(row):
    """Accepted spans per second of processor."""
    return row["load"]["accepted_spans"] / row["cpu_s"]


def rate(row):
    """Accepted spans per second."""
    return row["load"]["accepted_spans"] / row["load"]["seconds"]


def _intake(run, measured):
    rates = measured["intake_spans_per_s"][measured["runs"].index(run) :]
    return (f"{rates[0]:,.0f} spans/s", rates[0] >= 2_000_000) if rates else None


def _service(run, _):
    row = row_of(run, "maximum", scenarios.TABLES)
    return row and (f"{per_cpu_s(row):,.0f} spans/s", per_cpu_s(row) >= 1_000_000)


def _beside_collector(run, _):
    row = row_of(run, "maximum", scenarios.TABLES)
    peers = (row_of(run, "maximum", peer) for peer in (scenarios.COLLECTOR, scenarios.SHARDED))
    # The better of both is the peer.
    best = max((per_cpu_s(peer) for peer in peers if peer), default=None)
    if not row or not best:
        return None
    return f"{per_cpu_s(row) / best:.1f} x", per_cpu_s(row) >= 15 * best


def _beside_receiver(run, _):
    row = row_of(run, "maximum", scenarios.TABLES)
    peer = row_of(run, "maximum", scenarios.CEILING)
    if not row or not peer:
        return None
    share = per_cpu_s(row) / per_cpu_s(peer)
    return f"{100 * share:.0f} %", share >= 0.25


def _held_bytes(row):
    return (row["resident_bytes_held"] - row["resident_bytes_before"]) / row["load"]["accepted_spans"]


def _memory(run, _):
    row, peer = (
        row_of(run, "30 s undecided", peer) for peer in (scenarios.TABLES, scenarios.COLLECTOR)
    )
    if not row or not peer:
        return None
    ours, theirs = _held_bytes(row), _held_bytes(peer)
    return f"{ours:.0f} B per span, the Collector {theirs:.0f}", ours <= theirs / 10


def _heap(run, _):
    row = row_of(run, "30 s undecided", scenarios.TABLES)
    if not row or row.get("sampler_heap_bytes") is None:
        return None
    n_spans = row["held_spans"]
    n_traces = n_spans / row["spans_per_trace"]
    heap = row["sampler_heap_bytes"]
    text = f"{heap / n_spans:.0f} B per span with its share of the trace's"
    return text, heap <= 64 * n_spans + 256 * n_traces


def _goodput(run, _):
    row = row_of(run, "overload", scenarios.TABLES)
    maximum = row_of(run, "maximum", scenarios.TABLES)
    if not row or not maximum:
        return None
    capacity = per_cpu_s(maximum)
    # The last second is not whole.
    steady = row["load"]["accepted_by_second"][STEADY_SECONDS:-1]
    if not steady:
        return None
    share = sum(steady) / len(steady) / capacity
    offered = row["load"]["accepted_spans"] + row["load"]["refused_spans"]
    offered = offered / row["load"]["seconds"] / capacity
    if offered < OFFERED_MIN:
        return f"the generator reached {offered:.1f} times the capacity only", None
    return f"{100 * share:.0f} % of {capacity:,.0f} spans/s at {offered:.1f} times the load", share >= 0.95


def _bounded(run, _):
    row = row_of(run, "overload", scenarios.TABLES)
    if not row:
        return None
    seconds = row["load"]["seconds"]
    # In the first third queues fill, and what is remembered of requests and decisions.
    thirds = [
        max((held for at, held in row["resident"] if third <= 3 * at / seconds < third + 1), default=None)
        for third in (1, 2)
    ]
    if None in thirds:
        return None
    before, last = thirds
    limit = scenarios.MEMORY_LIMIT_BYTES
    text = f"peak of the second third {before >> 20} MiB, of the last {last >> 20} MiB, limit {limit >> 20} MiB"
    return text, max(held for _, held in row["resident"]) <= limit and last <= MEMORY_DRIFT_MAX * before


def _asked(question, limit_ms, quantile="p99"):
    """A question of `benches/drilldown`: the time that it takes, and beside it duckdb's over the same files."""

    def of_run(_run, measured):
        drilldown = measured.get("drilldown")
        if not drilldown:
            return None
        ours, theirs = (drilldown[side].get(question) for side in ("ours_ms", "duckdb_ms"))
        text = f"p50 {ours['p50']:.0f} ms, p99 {ours['p99']:.0f} ms"
        if theirs:
            text += f" (duckdb {theirs['p50']:.0f} and {theirs['p99']:.0f} ms)"
        alone = drilldown["ours_ms"].get(f"{question}_alone")
        if alone:
            text += f", one client {alone['p50']:.0f} and {alone['p99']:.0f} ms"
        return text, ours[quantile] <= limit_ms

    return of_run


def _fleet(_run, measured):
    drilldown = measured.get("drilldown")
    if not drilldown:
        return None
    spans = drilldown["tables"]["spans"]
    per_span = spans["bytes"] / spans["rows"]
    return f"{per_span:.1f} B", per_span <= 35


BARS = (
    ("intake, log, index, fold of 5 policies, decide; per core, no network", "2,000,000 spans/s", _intake),
    ("the same through gRPC, 5 % kept and stored, per core", "1,000,000 spans/s", _service),
    ("beside the Collector, the better of with and without `num_shards`", "15 x", _beside_collector),
    ("beside a server that only receives", "25 %", _beside_receiver),
    ("memory while 30 s are undecided", "1/10 of the Collector's", _memory),
    ("heap of undecided traces", "64 B per span and 256 B per trace", _heap),
    ("`spans` on disk, 10 M spans of a simulated fleet, 18 to a trace", "35 B per span", _fleet),
    ("one trace by id among 10 M spans, four clients", "p99 20 ms", _asked("trace", 20)),
    ("top 20 slow of the last hour with GPU evidence, 10 M spans, four clients", "100 ms", _asked("slow", 100, "p50")),
    ("kept to visible in SQL, four clients", "1 s", _asked("visible", 1000)),
    ("goodput at twice what a core takes from socket to table", "95 %", _goodput),
    ("memory meanwhile", "within its limit, and not rising", _bounded),
)
