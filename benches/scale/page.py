"""Writes what was measured: `SCALE.md`, and beside it in `results/` the numbers and the curves.

The page says nothing that is not in `results/scale.json`; `python3 page.py FOLDER` makes it anew from there.
"""

import json
import sys
from pathlib import Path

import model
import plot

NUMBERS = Path("results") / "scale.json"
SPAN_BYTES_MAX, TRACE_BYTES_MAX = 64, 256


def read(folder):
    """What an earlier run has measured; `None` where there was none."""
    path = folder / NUMBERS
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def write(folder, measured):
    """All files."""
    (folder / NUMBERS).parent.mkdir(parents=True, exist_ok=True)
    (folder / NUMBERS).write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    for name, panels in _curves(measured).items():
        path = folder / "results" / f"scale-{name}.svg"
        path.write_text(plot.picture(panels), encoding="utf-8")
    (folder / "SCALE.md").write_text("\n".join(_page(measured)), encoding="utf-8")


def table(head, rows):
    """Lines of Markdown; all columns but the first are numbers."""
    yield "| " + " | ".join(head) + " |"
    yield "|---|" + "---:|" * (len(head) - 1)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _page(measured):
    machine = measured["machine"]
    yield from (
        "# How costs grow",
        "",
        "Written by `benches/scale/run`; `benches/scale/README.md` says how it measures. What follows for a deployment is in "
        "`docs/sizing.md`.",
        "",
        f"{machine['processor']}, {machine['processors']} processors, {machine['memory_gib']} GiB, {machine['system']}; load of "
        f"the machine before: {machine['load_before']:.2f}.",
        "",
    )
    if measured["is_quick"]:
        yield from ("**A quick run: it shows that everything works, its numbers are no results.**", "")
    for name, title, lines in SECTIONS:
        yield from (f"## {title}", "")
        if name in measured:
            yield from lines(measured)
        else:
            why = measured.get("trouble", {}).get(name, "this part was not run")
            yield f"Not measured: {why}."
        yield ""


def _policies(measured):
    yield (
        "Instructions per span, counted by callgrind; they do not depend on what else the machine does. The third to the tenth policy look at "
        "attributes that spans have, or combine others; those beyond have a condition each on a key that no span has."
    )
    yield ""
    rows = (
        (
            f"{row['policies']:.0f}",
            f"{row['fold_instructions_per_span']:,.0f}",
            f"{row['decide_instructions_per_span']:,.0f}",
        )
        for row in measured["policies"]
    )
    yield from table(("policies", "to fold a span", "to decide, per span"), rows)
    yield from ("", "![Instructions per span by number of policies](results/scale-policies.svg)")


def _shards(measured):
    yield (
        "A shard is an intake of its own, with its log and its sampler: today that is a process, behind a first tier that routes by "
        "trace. All shards are on one processor here, so that only the cost of a span can change. *Whole* exports keep their size, as "
        "from a first tier that makes batches for each gateway; *split* ones are cut into as many as there are shards."
    )
    yield ""
    whole, split = (model.costs(measured["shards"], exports) for exports in ("whole", "split"))
    rows = (
        (
            f"{n}",
            f"{whole[n]:,.0f}",
            f"{whole[n] / whole[1]:.2f}",
            f"{split[n]:,.0f}",
            f"{split[n] / split[1]:.2f}",
        )
        for n in sorted(whole)
    )
    head = ("shards", "ns per span, whole", "times one", "ns per span, split", "times one")
    yield from table(head, rows)
    if "threads" not in measured:
        return
    yield from ("", "Each shard on a processor of its own:", "")
    alone = measured["threads"][0]["spans_per_s"]
    rows = (
        (
            f"{row['threads']}",
            f"{row['spans_per_s']:,.0f}",
            f"{row['spans_per_s'] / alone:.2f}",
        )
        for row in measured["threads"]
    )
    yield from table(("processors", "spans/s, measured", "times one"), rows)
    share = model.serial_share(measured["threads"])
    if share is None:
        return
    yield from (
        "",
        f"The serial share by Amdahl's law that explains the last column is {100 * share:.1f} %. **Simulated** from it and from the cost "
        f"of a span above (of {max(whole)} shards where there are more; `benches/scale/model.py` has the model), not measured:",
        "",
    )
    simulated = (
        dict(model.rates(measured["shards"], measured["threads"], exports)) for exports in ("whole", "split")
    )
    whole, split = simulated
    rows = ((f"{n}", f"{whole[n]:,.0f}", f"{split[n]:,.0f}") for n in whole)
    yield from table(("processors", "spans/s, whole exports", "spans/s, split exports"), rows)
    yield (
        f"\nThe share is known from {measured['threads'][-1]['threads']} processors and no more; far beyond them the law is a guess, and one for "
        "a single machine: gateways on machines of their own are not in each other's way. Not in the model: the network, the first tier, "
        "storage, and several gateways that commit to one table."
    )
    yield from ("", "![Cost of a span and simulated rate](results/scale-shards.svg)")


def _undecided(measured):
    yield (
        f"Bar: {SPAN_BYTES_MAX} B of heap per span and {TRACE_BYTES_MAX} B per trace. Heap is what the sampler counts and limits; resident "
        "memory is the system's count, with what tables have in reserve and the allocator keeps; its peak is while a table grows. Times are "
        "of the last tenth of the spans and of decisions while nearly all traces are there."
    )
    yield ""
    head = (
        "traces",
        "spans per trace",
        "heap B per trace",
        "heap B per span",
        "bar",
        "resident MiB",
        "at its peak",
        "ns to add a span",
        "ns to decide a trace",
        "longest stop ms",
    )
    rows = (
        (
            f"{row['traces']:,}",
            f"{row['spans_per_trace']}",
            f"{row['heap_bytes'] / row['traces']:,.0f}",
            f"{row['heap_bytes'] / row['spans']:,.0f}",
            "reached" if within_bar(row) else "**missed**",
            f"{row['resident_bytes'] / 2**20:,.0f}",
            f"{row['peak_bytes'] / 2**20:,.0f}",
            f"{row['add_ns_per_span']:,.0f}",
            f"{row['decide_ns_per_trace']:,.0f}",
            f"{row['longest_export_ms']:,.1f}",
        )
        for row in measured["undecided"]
    )
    yield from table(head, rows)
    yield from ("", "![Cost of a span by undecided traces](results/scale-undecided.svg)")


def within_bar(row):
    """Is the heap within what the design allows?"""
    return row["heap_bytes"] <= SPAN_BYTES_MAX * row["spans"] + TRACE_BYTES_MAX * row["traces"]


def _stored(measured):
    rows = measured["stored"]
    first = rows[0]
    yield (
        f"By `benches/drilldown`: {first['clients']} clients, {first['runs']} runs of each question after a warm-up, over HTTP. Bars, at ten "
        "million spans: a trace by its id within 20 ms (p99), the top 20 within 100 ms."
    )
    if max(row["tables"]["spans"]["rows"] for row in rows) < 5 * 10**7:
        yield "A hundred million spans were not measured: `benches/scale/run --only stored --spans 100000000` does."
    yield ""
    head = (
        "spans",
        "B per span",
        "files",
        "trace by id, median ms",
        "p99 ms",
        "the first, ms",
        "top 20, median ms",
        "p99 ms",
        "duckdb, trace",
        "duckdb, top 20",
        "peak MiB",
    )
    yield from table(head, (_stored_row(row) for row in rows))
    yield from ("", "![Latency by stored spans](results/scale-stored.svg)")


def _stored_row(row):
    spans, ours, theirs = row["tables"]["spans"], row["ours_ms"], row["duckdb_ms"]
    return (
        f"{spans['rows']:,}",
        f"{spans['bytes'] / spans['rows']:.1f}",
        f"{spans['files']}",
        f"{ours['trace']['p50']:.1f}",
        f"{ours['trace']['p99']:.1f}",
        f"{row['first_trace_ms']:,.0f}",
        f"{ours['slow']['p50']:.1f}",
        f"{ours['slow']['p99']:.1f}",
        f"{theirs['trace']['p50']:.1f}",
        f"{theirs['slow']['p50']:.1f}",
        f"{row['peak_mib']:,}",
    )


SECTIONS = (
    ("policies", "Policies", _policies),
    ("shards", "Shards and processors", _shards),
    ("undecided", "Undecided traces", _undecided),
    ("stored", "Stored spans", _stored),
)


def _curves(measured):
    """Panels by name of their picture."""
    curves = {}
    if "policies" in measured:
        lines = [
            (name, [(row["policies"], row[f"{key}_instructions_per_span"]) for row in measured["policies"]])
            for name, key in (("fold", "fold"), ("decide", "decide"))
        ]
        curves["policies"] = [plot.over_sizes("instructions per span, by policies", lines)]
    if "shards" in measured:
        kinds = ("whole", "split")
        lines = [(kind, sorted(model.costs(measured["shards"], kind).items())) for kind in kinds]
        curves["shards"] = [plot.over_sizes("ns per span on one processor, by shards", lines)]
        if "threads" in measured:
            lines = [
                (f"{kind}, simulated", model.rates(measured["shards"], measured["threads"], kind)) for kind in kinds
            ]
            known = [(row["threads"], row["spans_per_s"]) for row in measured["threads"]]
            lines.append(("whole, measured", known))
            curves["shards"].append(plot.over_sizes("spans/s, by processors", lines))
    if "undecided" in measured:
        rows = measured["undecided"]

        def lines(value):
            sizes = sorted({row["spans_per_trace"] for row in rows})
            return [
                (f"{size} spans a trace", [(row["traces"], value(row)) for row in rows if row["spans_per_trace"] == size])
                for size in sizes
            ]

        curves["undecided"] = [
            plot.over_sizes("ns to add a span, by undecided traces", lines(lambda row: row["add_ns_per_span"])),
            plot.over_sizes(
                "heap B per span, by undecided traces", lines(lambda row: row["heap_bytes"] / row["spans"])
            ),
        ]
    if "stored" in measured:
        rows = measured["stored"]
        names = (("trace", "p50"), ("trace", "p99"), ("slow", "p50"), ("slow", "p99"))
        of = {"trace": "trace by id", "slow": "top 20"}
        lines = [
            (f"{of[name]}, {at}", [(row["tables"]["spans"]["rows"], row["ours_ms"][name][at]) for row in rows])
            for name, at in names
        ]
        curves["stored"] = [plot.over_sizes("ms, by stored spans", lines)]
    return curves


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1])
    write(FOLDER, read(FOLDER))
