"""What senders were told, and whether the tables agree."""

import json
import sys
from collections import Counter
from pathlib import Path

from checks import eventually, expect
from load import SPANS_PER_TRACE
from processes import Process

LOAD = Path(__file__).with_name("load.py")


class Load(Process):
    """A running load generator."""

    def __init__(self, folder, name, address, seconds, rate=None, senders=8, traces=1):
        self.out = folder.path / f"{name}.jsonl"
        self._seconds = seconds
        self.n_traces = traces
        command = [sys.executable, LOAD, address, self.out]
        command += ["--senders", senders, "--traces", traces, "--seconds", seconds]
        if rate is not None:
            command += ["--rate", rate]
        super().__init__(folder, name, command)

    def finish(self):
        """Waits for its end, and gives what it noted."""
        expect("exit status of the load generator", self.await_end(self._seconds + 120), 0)
        return self.exports()

    def exports(self):
        """What it has noted so far."""
        if not self.out.exists():
            return []
        lines = self.out.read_text(encoding="ascii").split("\n")[:-1]
        return [json.loads(line) for line in lines]


def answers(exports):
    """How many exports were answered how, as text."""
    names = Counter()
    for export in exports:
        name = str(export["status"]) if export["status"] else "no answer"
        if export["retry_after"]:
            name += f" with Retry-After {export['retry_after']}"
        names[name] += 1
    return ", ".join(f"{n} x {name}" for name, n in sorted(names.items()))


def check_answers(exports, allowed):
    """Every answer is one of these; a refusal says when to come back."""
    statuses = {export["status"] for export in exports}
    expect("answers", sorted(statuses - set(allowed)), [])
    silent = [e for e in exports if e["status"] in (429, 503) and not e["retry_after"]]
    expect("refusals without Retry-After", len(silent), 0)
    return answers(exports)


def accepted(exports, begin=0.0, end=float("inf")):
    """Exports that were acknowledged in this time of their generator."""
    return [e for e in exports if e["status"] == 200 and begin <= e["at"] < end]


def check_tables(server, exports):
    """Acknowledged spans are stored exactly once, refused ones not at all, and nothing else is."""
    # In parts, so that a statement of millions of traces stays within its limit of memory.
    statements = [
        f"""
        SELECT trace_id, count(*) AS n, count(DISTINCT span_id) AS n_ids
        FROM spans WHERE service_name = 'load' AND trace_id LIKE '{digit}%' GROUP BY trace_id"""
        for digit in "0123456789abcdef"
    ]

    def probe():
        rows = {row["trace_id"]: row for part in statements for row in server.sql(part)}
        acknowledged = {i for export in accepted(exports) for i in export["ids"]}
        return rows if acknowledged <= rows.keys() else None

    rows = eventually("acknowledged traces are missing in `spans`", probe, 120)
    whole = {"n": SPANS_PER_TRACE, "n_ids": SPANS_PER_TRACE}
    n_acknowledged = n_in_doubt = n_in_doubt_stored = 0
    for export in exports:
        for trace_id in export["ids"]:
            row = rows.pop(trace_id, None)
            found = {key: row[key] for key in whole} if row else None
            if export["status"] == 200:
                n_acknowledged += 1
                expect(f"spans of the acknowledged trace {trace_id}", found, whole)
            elif export["status"] in (0, 503):
                # 503 says that the log has failed, which leaves open what it holds.
                n_in_doubt += 1
                n_in_doubt_stored += found is not None
                expect(f"spans of the trace in doubt {trace_id}", found in (None, whole), True)
            else:
                expect(f"spans of the refused trace {trace_id}", found, None)
    expect("stored traces that nobody sent", len(rows), 0)
    traces = server.sql(
        "SELECT count(*) AS n, count(DISTINCT trace_id) AS n_ids, sum(span_count) AS n_spans "
        "FROM traces WHERE root_service_name = 'load'"
    )[0]
    n_stored = n_acknowledged + n_in_doubt_stored
    expected = {"n": n_stored, "n_ids": n_stored, "n_spans": n_stored * SPANS_PER_TRACE or None}
    expect("rows of `traces`", traces, expected)
    return (
        f"{n_acknowledged} acknowledged traces stored once with {n_acknowledged * SPANS_PER_TRACE} "
        f"spans, {n_in_doubt_stored} of {n_in_doubt} in doubt whole, no refused one, no other"
    )
