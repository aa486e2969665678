"""Puts measured numbers into a page, between `<!-- numbers: NAME -->` and `<!-- end -->`.

Usage: sizing.py FOLDER PAGE; FOLDER has `results/results.json` of `benches/service` and `results/scale.json`. A number that was not
measured is left out and said to be missing.
"""

import json
import re
import statistics
import sys
from pathlib import Path

import bars
import model
import page
import results
import scenarios

MISSING = "not measured"
DAY_S = 86_400
# Of a core: above that, latency and what a restart has to catch up grow.
CORE_SHARE = 0.6
# The log keeps more than what is undecided: releases that are not committed, and whole segments.
LOG_FACTOR = 2
COMMIT_S = 30


class Numbers:
    """What the runs have measured, by what a reader needs of it; `None` is not measured."""

    def __init__(self, service, scale):
        self.service, self.scale = service, scale or {}
        self.runs = service["runs"] if service else []

    def of_service(self, scenario, value):
        """The median over runs of a value of Whyslow's row with tables."""
        rows = (bars.row_of(run, scenario, scenarios.TABLES) for run in self.runs)
        values = [value(row) for row in rows if row]
        values = [value for value in values if value is not None]
        return statistics.median(values) if values else None

    def spans_per_core_s(self, scenario="maximum"):
        """Spans that a second of a core accepts, decides and stores."""
        return self.of_service(scenario, lambda row: 1e6 / results.cpu_us(row))

    def base_bytes(self):
        """Resident memory before any load."""
        return self.of_service("30 s undecided", lambda row: row.get("resident_bytes_before"))

    def undecided(self, spans_per_trace):
        """The row with the most undecided traces of this size."""
        rows = (row for row in self.scale.get("undecided", ()) if row["spans_per_trace"] == spans_per_trace)
        return max(rows, key=lambda row: row["traces"], default=None)

    def heap(self):
        """Heap bytes `(per trace, per span)`, from traces of two sizes."""
        small, large = self.undecided(3), self.undecided(300)
        if not small or not large:
            return None
        of_small, of_large = (row["heap_bytes"] / row["traces"] for row in (small, large))
        per_span = (of_large - of_small) / (large["spans_per_trace"] - small["spans_per_trace"])
        return of_small - small["spans_per_trace"] * per_span, per_span

    def resident_factor(self):
        """Resident memory at its peak by heap, of the most undecided traces."""
        row = self.undecided(3)
        return row and row["peak_bytes"] / row["heap_bytes"]

    def row_bytes(self, name):
        """Bytes of a row of a table, in the largest lake."""
        lakes = self.scale.get("stored")
        told = lakes and lakes[-1]["tables"].get(name)
        return told["bytes"] / told["rows"] if told and told["rows"] else None


def said(value, text="{:,.0f}"):
    """A number for a table."""
    return MISSING if value is None else text.format(value)


def cores(numbers):
    """Spans per second of a core by load."""
    loads = (
        ("3 spans a trace, 690 B a span, 5 % kept and stored", "maximum"),
        ("20 spans a trace", "20 spans a trace"),
        ("300 spans a trace", "300 spans a trace"),
        ("6 KB a span", "6 KB a span"),
        ("1 % kept", "1 % kept"),
        ("100 % kept", "100 % kept"),
    )
    rows = ((what, said(numbers.spans_per_core_s(scenario))) for what, scenario in loads)
    return page.table(("load", "spans/s of a core"), rows)


def shards(numbers):
    """What several gateways take."""
    scale = numbers.scale
    if "shards" not in scale or "threads" not in scale:
        return [f"{MISSING.capitalize()}."]
    rows = [
        (f"{n}", f"{rate:,.0f}", f"{rate / n:,.0f}")
        for n, rate in model.rates(scale["shards"], scale["threads"], "whole")
    ]
    if not rows:
        return [f"{MISSING.capitalize()}: one processor only."]
    return page.table(("cores, a gateway each", "spans/s of the intakes, simulated", "of each"), rows)


def memory(numbers):
    """Bytes in memory."""
    heap = numbers.heap()
    base = numbers.base_bytes()
    rows = (
        ("heap of an undecided trace, `T`", said(heap and heap[0], "{:,.0f} B")),
        ("heap of an undecided span, `S`", said(heap and heap[1], "{:,.0f} B")),
        ("resident memory at its peak, by heap, `F`", said(numbers.resident_factor(), "{:.1f}")),
        ("resident memory without load, `B`", said(base and base / 2**20, "{:,.0f} MiB")),
    )
    return page.table(("what", "measured"), rows)


TABLES = ("spans", "traces", "requests", "evidence", "gpu_samples", "engine_samples")


def tables(numbers):
    """Bytes per stored row."""
    rows = [(f"`{name}`", said(numbers.row_bytes(name), "{:.1f}")) for name in TABLES]
    return page.table(("table, of a simulated fleet, merged", "B per row"), rows)


def queries(numbers):
    """Latency by stored spans."""
    rows = (
        (
            f"{row['tables']['spans']['rows']:,}",
            *(f"{row['ours_ms'][name][at]:.0f}" for name in ("trace", "slow") for at in ("p50", "p99")),
            f"{row['peak_mib']:,}",
        )
        for row in numbers.scale.get("stored", ())
    )
    head = ("stored spans", "trace by id, median ms", "p99", "top 20, median ms", "p99", "peak MiB")
    return page.table(head, rows)


# The example that the page works out.
TRACES_S, SPANS_PER_TRACE, SPAN_BYTES = 2_000, 20, 690
WAIT_S, KEPT, REQUESTS_PER_TRACE, SPAN_DAYS, ROW_DAYS = 30, 0.05, 1, 7, 30


def example(numbers):
    """The formulas with the example's numbers."""
    spans_s = TRACES_S * SPANS_PER_TRACE
    per_core = numbers.spans_per_core_s("20 spans a trace") or numbers.spans_per_core_s()
    heap, factor, base = numbers.heap(), numbers.resident_factor(), numbers.base_bytes()
    held = heap and WAIT_S * TRACES_S * (heap[0] + SPANS_PER_TRACE * heap[1])
    resident = held and factor and base and base + factor * held
    log = LOG_FACTOR * spans_s * SPAN_BYTES * (WAIT_S + COMMIT_S)
    per_row = {name: numbers.row_bytes(name) for name in ("spans", "traces", "requests")}
    days = None
    if all(per_row.values()):
        days = {
            "spans": spans_s * KEPT * DAY_S * per_row["spans"] * SPAN_DAYS,
            "traces": TRACES_S * DAY_S * per_row["traces"] * ROW_DAYS,
            "requests": TRACES_S * REQUESTS_PER_TRACE * DAY_S * per_row["requests"] * ROW_DAYS,
        }
    rows = [
        ("cores", said(per_core and spans_s / (CORE_SHARE * per_core), "{:.2f}")),
        ("heap of undecided traces", said(held and held / 2**20, "{:,.0f} MiB")),
        ("resident memory", said(resident and resident / 2**20, "{:,.0f} MiB")),
        ("disk of the log", said(log / 2**30, "{:.1f} GiB")),
    ]
    rows += [
        (f"disk of `{name}`", said(days and days[name] / 2**30, "{:,.1f} GiB"))
        for name in ("spans", "traces", "requests")
    ]
    return page.table(("for the example", "needed"), rows)


def machine(numbers):
    """Where the numbers are from."""
    told = [measured["machine"] for measured in (numbers.service, numbers.scale) if measured]
    if not told:
        yield f"{MISSING.capitalize()}."
        return
    yield (
        f"Measured on {told[0]['processor']}, {told[0]['processors']} processors, {told[0]['memory_gib']} GiB "
        "([RESULTS.md](../benches/RESULTS.md), [SCALE.md](../benches/SCALE.md))."
    )
    if any(measured["is_quick"] for measured in (numbers.service, numbers.scale) if measured):
        yield ""
        yield "**From a quick run: these numbers are no results.**"


BLOCKS = {
    "machine": machine,
    "cores": cores,
    "shards": shards,
    "memory": memory,
    "tables": tables,
    "queries": queries,
    "example": example,
}


def filled(text, numbers):
    """The page with all its blocks made anew."""

    def block(found):
        name = found.group(1)
        lines = "\n".join(BLOCKS[name](numbers))
        return f"<!-- numbers: {name} -->\n{lines}\n<!-- end -->"

    return re.sub(r"<!-- numbers: (\w+) -->\n.*?<!-- end -->", block, text, flags=re.DOTALL)


def main(folder, path):
    """Writes the page."""
    service = folder / "results" / "results.json"
    service = json.loads(service.read_text(encoding="utf-8")) if service.exists() else None
    numbers = Numbers(service, page.read(folder))
    path.write_text(filled(path.read_text(encoding="utf-8"), numbers), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
