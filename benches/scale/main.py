"""Measures how costs grow, part by part, and writes what was measured.

`run` starts this with everything built; see README.md.

Usage: main.py SCALE INSTRUCTIONS [--quick] [--only PART]... [--spans N]... [--stored FOLDER]... [--out FOLDER]
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import page
from machine import described
from processes import on

DRILLDOWN = Path(__file__).parent.parent / "drilldown" / "run"
# Of shards and processors: until as much is decided as comes.
ROUNDS_BEFORE = 3
# Measurements that are compared take turns, so that what the machine does besides meets all of them.
TURNS = 3

FULL = {
    "rounds": 12,
    "shards": (1, 2, 4, 8),
    "undecided": ((10**4, 3), (10**5, 3), (10**6, 3), (10**7, 3), (10**3, 300), (10**4, 300), (10**5, 300)),
    "spans": (10**6, 10**7),
}
QUICK = {
    "rounds": 5,
    "shards": (1, 2),
    "undecided": ((10**4, 3), (10**5, 3), (10**3, 300)),
    "spans": (10**5,),
}


class Bench:
    """The programs, how much is asked of them, and where the numbers come together."""

    def __init__(self, options, sizes, processors):
        self._options, self._sizes, self._processors = options, sizes, processors

    def shards(self):
        """Nanoseconds per span of one processor with several shards on it."""
        took = {}
        with on(self._processors[:1]):
            for _turn in range(TURNS):
                for n_shards in self._sizes["shards"]:
                    for exports in ("whole", "split"):
                        rounds = self._rounds("shards", n_shards, exports)
                        took.setdefault((n_shards, exports), []).extend(rounds)
        return [
            {"shards": n_shards, "exports": exports, "ns_per_span": statistics.median(times)}
            for (n_shards, exports), times in took.items()
        ]

    def threads(self):
        """Spans per second of several shards, each on a processor of its own."""
        most = len(self._processors)
        counts = sorted({n for n in (1, 2, 4, 8, 16, 32, 64) if n <= most} | {most})
        took = {}
        for _turn in range(TURNS):
            for n_threads in counts:
                with on(self._processors[:n_threads]):
                    took.setdefault(n_threads, []).extend(self._rounds("threads", n_threads))
        return [
            {"threads": n_threads, "spans_per_s": 1e9 / statistics.median(times)}
            for n_threads, times in took.items()
        ]

    def _rounds(self, *what):
        """Nanoseconds per span of each round that counts."""
        lines = self._scale(*what, ROUNDS_BEFORE + self._sizes["rounds"])
        return [1e9 * line["seconds"] / line["spans"] for line in lines[ROUNDS_BEFORE:]]

    def _scale(self, *what):
        command = [self._options.scale, *map(str, what)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def undecided(self):
        """What undecided traces cost."""
        rows = []
        with on(self._processors[:1]):
            for n_traces, spans_per_trace in self._sizes["undecided"]:
                rows += self._scale("undecided", n_traces, spans_per_trace)
        return rows

    def policies(self):
        """Instructions per span and number of policies."""
        command = [self._options.instructions, "--policies"]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        rows = csv.DictReader(done.stdout.splitlines())
        return [{key: float(value) for key, value in row.items()} for row in rows]

    def stored(self):
        """Sizes and latencies of lakes: those of folders that `benches/drilldown/run` has made, or made here."""
        folders = [(None, folder) for folder in self._options.stored or ()]
        if not folders:
            folders = [(n_spans, None) for n_spans in self._options.spans or self._sizes["spans"]]
        rows = []
        for n_spans, folder in folders:
            if folder is None:
                with tempfile.TemporaryDirectory(prefix="whyslow-lake-") as made:
                    rows.append(asked(n_spans, Path(made)))
            else:
                rows.append(asked(n_spans, folder))
        return sorted(rows, key=lambda row: row["tables"]["spans"]["rows"])


def asked(n_spans, folder):
    """The results in a folder of `benches/drilldown`, which is asked if there are none yet."""
    results = folder / "results.json"
    if not results.exists():
        # A lake that is there already has its own size.
        command = [DRILLDOWN, str(n_spans or 0), folder]
        subprocess.run(command, check=True, stdout=sys.stderr)
    return json.loads(results.read_text(encoding="utf-8"))


PARTS = ("policies", "shards", "threads", "undecided", "stored")


def main():
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="run")
    parser.add_argument("scale", type=Path)
    parser.add_argument("instructions", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", choices=PARTS, help="this part; others stay as they were")
    parser.add_argument("--spans", action="append", type=int, help="size of a lake that is made and asked")
    parser.add_argument("--stored", action="append", type=Path, help="folder of benches/drilldown/run")
    parser.add_argument("--out", type=Path, help="folder of SCALE.md")
    options = parser.parse_args()
    out = options.out or (
        Path(tempfile.mkdtemp(prefix="whyslow-scale-")) if options.quick else Path(__file__).parent.parent
    )
    processors = sorted(os.sched_getaffinity(0))
    measured = page.read(out) or {}
    measured.update(machine=described(processors), is_quick=options.quick)
    bench = Bench(options, QUICK if options.quick else FULL, processors)
    n_failed = 0
    for part in options.only or PARTS:
        try:
            measured[part] = getattr(bench, part)()
            measured.get("trouble", {}).pop(part, None)
            print(f"ok   {part}", flush=True)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            n_failed += 1
            measured.setdefault("trouble", {})[part] = str(error)
            print(f"FAIL {part}: {error}", flush=True)
        page.write(out, measured)
    print(f"{out / 'SCALE.md'}; {n_failed} parts failed")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
