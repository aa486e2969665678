"""Pictures of what was measured, for the scripts below this folder: panels of lines, one below the other, as SVG."""

import math

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 90, 20, 30, 40
COLORS = ("#1b6ca8", "#c0504d", "#4f9d69", "#8064a2", "#7f7f7f")


def picture(panels):
    """An SVG of panels; each takes its place and gives its parts."""
    parts = [panel(place) for place, panel in enumerate(panels)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{len(parts) * HEIGHT}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f"{''.join(parts)}</svg>\n"
    )


def over_seconds(title, series):
    """A panel over time; a line is a name and points `(second, value)`."""

    def drawn(place):
        x_max = max((x for _, line in series for x, _ in line), default=0)
        x_max = max(1, x_max)
        ticks = [(second, f"{second} s") for second in range(0, int(x_max) + 1, max(1, int(x_max) // 8))]
        return _panel(place, title, series, lambda x: x / x_max, ticks)

    return drawn


def over_sizes(title, series):
    """A panel over sizes that grow by factors: the axis is logarithmic, and each size is a mark on it."""

    def drawn(place):
        sizes = sorted({x for _, line in series for x, _ in line})
        if not sizes:
            return ""
        low, high = math.log(sizes[0]), math.log(sizes[-1])
        span = (high - low) or 1
        ticks = [(size, f"{size:,.0f}") for size in sizes]
        return _panel(place, title, series, lambda x: (math.log(x) - low) / span, ticks, has_marks=True)

    return drawn


def _panel(place, title, series, share_of, ticks, has_marks=False):
    points = [point for _, line in series for point in line]
    if not points:
        return ""
    y_max = (max(y for _, y in points) or 1) * 1.1
    top = place * HEIGHT + TOP
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(x, y):
        return f"{LEFT + width * share_of(x):.1f},{top + height * (1 - y / y_max):.1f}"

    parts = [f'<text x="{LEFT}" y="{top - 10}" font-weight="bold">{title}</text>']
    decimals = 0 if y_max >= 20 else 1 if y_max >= 2 else 2
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = top + height * (1 - share)
        parts.append(
            f'<line x1="{LEFT}" x2="{LEFT + width}" y1="{y}" y2="{y}" stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{y_max * share:,.{decimals}f}</text>'
        )
    for x, text in ticks:
        # The last would not fit in the middle below its mark.
        anchor = "end" if share_of(x) > 0.98 else "middle"
        parts.append(
            f'<text x="{LEFT + width * share_of(x):.1f}" y="{top + height + 16}" '
            f'text-anchor="{anchor}">{text}</text>'
        )
    for idx, (name, line) in enumerate(series):
        color = COLORS[idx % len(COLORS)]
        path = " ".join(at(x, y) for x, y in line)
        parts.append(f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{path}"/>')
        if has_marks:
            for x, y in line:
                x, y = at(x, y).split(",")
                parts.append(f'<circle cx="{x}" cy="{y}" r="3" fill="{color}"/>')
        # What grows leaves the upper left free.
        x, anchor = (LEFT + 8, "start") if has_marks else (LEFT + width - 4, "end")
        parts.append(
            f'<text x="{x}" y="{top + 14 + 15 * idx}" fill="{color}" text-anchor="{anchor}">{name}</text>'
        )
    return "".join(parts)
