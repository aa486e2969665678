"""Writes what was measured: `RESULTS.md`, and beside it in `results/` the numbers and the curves under overload.

The page says nothing that is not in `results/results.json`; `python3 results.py FOLDER` makes it anew from there.
"""

import json
import sys
from pathlib import Path

import bars
import curves
import scenarios


# The results of `benches/drilldown`, put there by hand.
DRILLDOWN = "drilldown.json"


def write(folder, measured):
    """All files."""
    below = folder / "results"
    below.mkdir(parents=True, exist_ok=True)
    (below / "results.json").write_text(json.dumps(measured) + "\n", encoding="utf-8")
    drilldown = below / DRILLDOWN
    if drilldown.exists():
        measured = {**measured, "drilldown": json.loads(drilldown.read_text(encoding="utf-8"))}
    curves.write(below, measured)
    (folder / "RESULTS.md").write_text(page(measured), encoding="utf-8")


def read(folder):
    """What was written there."""
    return json.loads((folder / "results" / "results.json").read_text(encoding="utf-8"))


def line(row):
    """A row for the terminal."""
    what = f"{row['scenario']:<20} {row['peer']:<26}"
    if "trouble" in row:
        return f"FAIL {what} {row['trouble']}"
    load = row["load"]
    return (
        f"ok   {what} {load['accepted_spans'] / load['seconds']:>12,.0f} spans/s "
        f"{cpu_us(row):>8.2f} us/span {row['peak_bytes'] / 2**20:>8.0f} MiB peak "
        f"{load['latency_ms'].get('p99', 0):>8.1f} ms p99"
    )


def cpu_us(row):
    """Microseconds of processor per accepted span."""
    return 1e6 * row["cpu_s"] / max(1, row["load"]["accepted_spans"])


def page(measured):
    """The page."""
    machine = measured["machine"]
    parts = [
        "# Results",
        "",
        "Written by `benches/service/run`; `benches/service/README.md` says how it measures and what the words mean.",
        "",
        f"{machine['processor']}, {machine['processors']} processors of which the service has one, "
        f"{machine['memory_gib']} GiB, {machine['system']}; load of the machine before: "
        f"{machine['load_before']:.2f}.",
        "",
    ]
    if measured["is_quick"]:
        parts += ["**A quick run: it shows that everything works, its numbers are no results.**", ""]
    parts += ["## Bars", "", *bars.table(measured), ""]
    parts += [kept_line(run, idx + 1) for idx, run in enumerate(measured["runs"])]
    parts += ["", "## All steps", "", *_steps(measured), ""]
    parts += _profile(measured)
    if any(row["scenario"] == "overload" for run in measured["runs"] for row in run):
        parts += [
            "## Twice the load that it can take",
            "",
            "![Goodput and memory under twice the capacity](results/overload.svg)",
            "",
            "The numbers are in `results/overload.csv`.",
            "",
        ]
    return "\n".join(parts)


def _profile(measured):
    """Where the processor time goes at the maximum."""
    told = {peer: stages for peer, stages in (measured.get("profile") or {}).items() if stages}
    if not told:
        return []
    names = dict.fromkeys(name for stages in told.values() for name in stages)
    lines = ["## Where the time goes", "", "Shares of samples of the stacks at the maximum, in a step of its own.", ""]
    lines.append("| stage |" + "".join(f" {peer} |" for peer in told))
    lines.append("|---|" + "---:|" * len(told))
    for name in names:
        cells = (f"{100 * stages.get(name, 0):.0f} %" for stages in told.values())
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def kept_line(run, number):
    """Whether the programs that send kept traces on have kept the same, where they were sent the same."""
    rows = [row for row in run if row["scenario"] == "fixed rate" and "kept_trace_ids" in row]
    if len(rows) < 2:
        return f"Run {number}: what was kept is not compared."
    sent = {row["load"]["accepted_spans"] for row in rows}
    kept = {(row["kept_spans"], row["kept_trace_ids"]) for row in rows}
    names = ", ".join(row["peer"] for row in rows)
    if len(sent) > 1:
        return f"Run {number}: what was kept cannot be compared, different loads were accepted ({names})."
    same = "the same" if len(kept) == 1 else "**not the same**"
    return f"Run {number}: {names} kept {same} spans at the fixed rate."


def _steps(measured):
    head = (
        "| scenario | program | run | spans/s | us of processor per span | x Collector | x receiver | "
        "p50 ms | p99 ms | p99.9 ms | peak MiB | B written per span | kept spans |"
    )
    yield head
    yield "|---|---|" + "---:|" * 11
    for run_idx, run in enumerate(measured["runs"]):
        for row in run:
            yield _step(row, run_idx + 1, run)


def _step(row, number, run):
    start = f"| {row['scenario']} | {row['peer']} | {number} |"
    if "trouble" in row:
        return f"{start} failed: {row['trouble'].replace('|', '/')} |" + " |" * 9
    load, latency = row["load"], row["load"]["latency_ms"]
    of_peer = [
        ratio(bars.row_of(run, scenario, peer), row)
        for scenario, peer in ((row["scenario"], scenarios.COLLECTOR), ("maximum", scenarios.CEILING))
    ]
    written = row.get("written_bytes")
    cells = [
        f"{load['accepted_spans'] / load['seconds']:,.0f}",
        f"{cpu_us(row):.2f}",
        *of_peer,
        *(f"{latency[at]:.1f}" if at in latency else "" for at in ("p50", "p99", "p99.9")),
        f"{row['peak_bytes'] / 2**20:.0f}",
        "" if written is None else f"{written / max(1, load['accepted_spans']):.0f}",
        f"{row['kept_spans']:,}" if "kept_spans" in row else "",
    ]
    return f"{start} " + " | ".join(cells) + " |"


def ratio(peer, row):
    """How many times the spans per second of processor of another row."""
    if not peer or not row["cpu_s"]:
        return ""
    return f"{cpu_us(peer) / cpu_us(row):.2f}"


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1])
    write(FOLDER, read(FOLDER))
