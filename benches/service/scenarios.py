"""What is measured: the load, the policies, and which programs take it.

A scenario is a list of steps; each is one program from its start to its end under one load. All times are seconds. The
service has one processor, so that what it reaches is per core; the load generator and the backend have the others.
"""

from dataclasses import dataclass, field

# Spans of an export: what an SDK sends at once by default is 512.
SPANS_PER_EXPORT = 512
# Bytes of prompt that make a span of 0.6 KB one of 6 KB.
LARGE_PROMPT_BYTES = 5_400

CEILING = "receiver"
TABLES = "whyslow, tables"
GATEWAY = "whyslow, OTLP out"
COLLECTOR = "Collector"
SHARDED = "Collector, num_shards 4"
ROTEL = "Rotel, receives only"

# In place of a scenario: spans per second of processor at the maximum. What is accepted in a few seconds is more, as long as queues take
# what is not done yet.
CAPACITY = "capacity"


# Traces that are undecided at once, at most, and decisions that are remembered: more than any scenario has.
NUM_TRACES = 20_000_000
# Rows that may wait for storage under overload: what a core stores in seconds; the default is minutes of it.
BACKLOG_ROWS = 1_000_000
# What the service may take under overload, by its configuration: a place for each decision; exports in flight; rows in memory, up to
# twice `commit_bytes` before no more are taken, the same again while they are sorted and encoded, and releases on their way; for each row
# that waits in the log where it is; files that are merged, read and written; and connections, writers and what the allocator keeps.
MEMORY_LIMIT_BYTES = (
    31 * NUM_TRACES + (512 << 20) + 8 * (64 << 20) + 64 * BACKLOG_ROWS + 4 * (64 << 20) + (256 << 20)
)


@dataclass(frozen=True)
class Shape:
    """What the traffic is like."""

    spans_per_trace: int = 3
    prompt_bytes: int = 0

    @property
    def traces(self):
        """Traces in an export."""
        return max(1, SPANS_PER_EXPORT // self.spans_per_trace)


@dataclass(frozen=True)
class Step:
    """One program under one load."""

    scenario: str
    peer: str
    seconds: float
    shape: Shape = field(default_factory=Shape)
    kept_percent: float = 5
    decision_wait_s: int = 2
    # Spans per second, or a multiple of what a step before has reached: (factor, scenario, peer).
    rate: float | tuple | None = None
    # With queues that fill in a part of the load, so that what is measured is not how large they are.
    is_backlog_small: bool = False
    # Read what is held while all is undecided.
    is_held: bool = False


def maximum(seconds):
    """As fast as it is answered."""
    peers = (CEILING, ROTEL, TABLES, GATEWAY, COLLECTOR, SHARDED)
    return [Step("maximum", peer, seconds) for peer in peers]


def fixed(seconds):
    """At half of what the Collector can take, the same for all; and at half of its own maximum."""
    same = [
        Step("fixed rate", peer, seconds, rate=(0.5, "maximum", COLLECTOR))
        for peer in (TABLES, GATEWAY, COLLECTOR, SHARDED)
    ]
    own = [Step("half of its maximum", TABLES, seconds, rate=(0.5, "maximum", TABLES))]
    return same + own


def overload(seconds, seconds_of_collector):
    """Twice what a core takes from socket to table."""
    lengths = ((TABLES, seconds), (COLLECTOR, seconds_of_collector))
    return [
        Step("overload", peer, length, rate=(2.0, CAPACITY, peer), is_backlog_small=True) for peer, length in lengths
    ]


def waits(seconds, seconds_long):
    """Everything is undecided: no trace is decided before the load ends."""
    peers = (TABLES, COLLECTOR)
    steps = [
        Step("30 s undecided", peer, seconds, rate=(0.5, "maximum", COLLECTOR), decision_wait_s=30, is_held=True)
        for peer in peers
    ]
    if seconds_long:
        steps += [
            Step(
                "300 s undecided",
                peer,
                seconds_long,
                rate=(0.25, "maximum", COLLECTOR),
                decision_wait_s=300,
                is_held=True,
            )
            for peer in peers
        ]
    return steps


def shapes(seconds):
    """Other traces, spans and shares, as fast as they are answered."""
    different = [
        ("20 spans a trace", {"shape": Shape(20)}),
        ("300 spans a trace", {"shape": Shape(300)}),
        ("6 KB a span", {"shape": Shape(3, LARGE_PROMPT_BYTES)}),
        ("1 % kept", {"kept_percent": 1}),
        ("100 % kept", {"kept_percent": 100}),
    ]
    return [
        Step(name, peer, seconds, **what)
        for name, what in different
        for peer in (TABLES, COLLECTOR)
    ]


def full():
    """All of it, once: about 25 minutes, most of them waits for what comes last to be stored."""
    return maximum(10) + fixed(10) + overload(180, 60) + waits(25, 60) + shapes(6)


def again():
    """What the bars are made of, which is measured twice: about a quarter of an hour."""
    return maximum(10) + fixed(10) + overload(180, 60) + waits(25, 0)


def quick():
    """Enough to see that everything works: its numbers say little."""
    return (
        [Step("maximum", peer, 3) for peer in (CEILING, ROTEL, TABLES, GATEWAY, COLLECTOR)]
        + [Step("fixed rate", peer, 3, rate=(0.5, "maximum", COLLECTOR)) for peer in (TABLES, COLLECTOR)]
        + [Step("overload", TABLES, 8, rate=(2.0, CAPACITY, TABLES), is_backlog_small=True)]
        + [Step("30 s undecided", TABLES, 5, rate=(0.5, "maximum", COLLECTOR), decision_wait_s=30, is_held=True)]
        + [Step("100 % kept", TABLES, 3, kept_percent=100)]
    )
