"""What several processors would do, from what was measured on those that there are.

The model, in full: shards share no data, so that `N` of them on `N` processors do `N` times the work of one, but for two
losses, both measured. One: with more shards each gets smaller exports or keeps other traces, and a span costs more
(`shards`). Two: they are in each other's way in memory, kernel and disk; what that takes is expressed as the serial share of
Amdahl's law that would have had the same effect (`threads`; Karp and Flatt, 1990).
"""

import statistics

# Of processors that are not measured.
PROCESSORS = (1, 2, 4, 8, 16, 32, 64)


def serial_share(threads):
    """The serial share, 0 to 1; `None` where only one processor was measured."""
    rates = {row["threads"]: row["spans_per_s"] for row in threads}
    shares = []
    for n_threads, rate in rates.items():
        if n_threads > 1:
            speedup = rate / rates[1]
            shares.append((n_threads / speedup - 1) / (n_threads - 1))
    # Below nothing and above all is what a machine does that is not idle.
    return min(1.0, max(0.0, statistics.median(shares))) if shares else None


def costs(shards, exports):
    """Nanoseconds per span by number of shards on one processor."""
    return {row["shards"]: row["ns_per_span"] for row in shards if row["exports"] == exports}


def rates(shards, threads, exports):
    """`(processors, spans per second)`; the cost beyond what was measured is that of the most shards that were."""
    by_shards = costs(shards, exports)
    share = serial_share(threads)
    if share is None or not by_shards:
        return []
    most = by_shards[max(by_shards)]
    return [
        (n, n * 1e9 / by_shards.get(n, most) / (1 + share * (n - 1)))
        for n in PROCESSORS
    ]
