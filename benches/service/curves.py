"""Goodput and memory under twice the capacity, second by second: a table and a picture of it."""

import plot
import scenarios

# An intake that is full is closed for a second or two, as long as it tells senders to wait, and open as long.
MEAN_SECONDS = 10


def smooth(by_second):
    """Points `(second, mean of the seconds before)`."""
    return [
        (end, sum(by_second[end - MEAN_SECONDS : end]) / MEAN_SECONDS)
        for end in range(MEAN_SECONDS, len(by_second) + 1)
    ]


def write(folder, measured):
    """`overload.csv` and `overload.svg`, if there was an overload."""
    rows = [
        (run_idx + 1, row)
        for run_idx, run in enumerate(measured["runs"])
        for row in run
        if row["scenario"] == "overload" and "trouble" not in row
    ]
    if not rows:
        return
    lines = ["run,program,second,accepted_spans_per_s,resident_bytes"]
    for run, row in rows:
        resident = {int(at): held for at, held in row["resident"]}
        for second, accepted in enumerate(row["load"]["accepted_by_second"]):
            held = resident.get(second, "")
            lines.append(f'{run},"{row["peer"]}",{second},{accepted},{held}')
    (folder / "overload.csv").write_text("\n".join(lines) + "\n", encoding="ascii")
    goodput = [
        (f"{row['peer']}, run {run}", smooth(row["load"]["accepted_by_second"][:-1])) for run, row in rows
    ]
    memory = [
        (f"{row['peer']}, run {run}", [(at, held / 2**20) for at, held in row["resident"]])
        for run, row in rows
    ]
    end = max(at for _, line in memory for at, _ in line)
    limit = scenarios.MEMORY_LIMIT_BYTES / 2**20
    memory.append((f"limit of {scenarios.TABLES}, by its configuration", [(0, limit), (end, limit)]))
    panels = [
        plot.over_seconds(f"accepted spans per second, mean of {MEAN_SECONDS} s", goodput),
        plot.over_seconds("resident memory, MiB (after the load: what is left is decided)", memory),
    ]
    (folder / "overload.svg").write_text(plot.picture(panels), encoding="utf-8")
