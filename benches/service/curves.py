"""Goodput and memory under twice the capacity, second by second: a table and a picture of it."""

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 90, 20, 30, 40
COLORS = ("#1b6ca8", "#c0504d", "#4f9d69", "#8064a2")


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
        (f"{row['peer']}, run {run}", list(enumerate(row["load"]["accepted_by_second"][:-1])))
        for run, row in rows
    ]
    memory = [
        (f"{row['peer']}, run {run}", [(at, held / 2**20) for at, held in row["resident"]])
        for run, row in rows
    ]
    panels = [
        _panel(0, "accepted spans per second", goodput),
        _panel(1, "resident memory, MiB (after the load: what is left is decided)", memory),
    ]
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{2 * HEIGHT}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f"{''.join(panels)}</svg>\n"
    )
    (folder / "overload.svg").write_text(picture, encoding="utf-8")


def _panel(place, title, series):
    points = [point for _, line in series for point in line]
    if not points:
        return ""
    x_max = max(1, max(x for x, _ in points))
    y_max = max(1, max(y for _, y in points)) * 1.1
    top = place * HEIGHT + TOP
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(x, y):
        return f"{LEFT + width * x / x_max:.1f},{top + height * (1 - y / y_max):.1f}"

    parts = [f'<text x="{LEFT}" y="{top - 10}" font-weight="bold">{title}</text>']
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = top + height * (1 - share)
        parts.append(
            f'<line x1="{LEFT}" x2="{LEFT + width}" y1="{y}" y2="{y}" stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{y_max * share:,.0f}</text>'
        )
    for second in range(0, int(x_max) + 1, max(1, int(x_max) // 8)):
        x = LEFT + width * second / x_max
        parts.append(
            f'<text x="{x}" y="{top + height + 16}" text-anchor="middle">{second} s</text>'
        )
    for idx, (name, line) in enumerate(series):
        color = COLORS[idx % len(COLORS)]
        path = " ".join(at(x, y) for x, y in line)
        parts.append(f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{path}"/>')
        parts.append(
            f'<text x="{LEFT + width - 4}" y="{top + 14 + 15 * idx}" fill="{color}" '
            f'text-anchor="end">{name}</text>'
        )
    return "".join(parts)
