"""The table of results, one row per policy set."""

from dataclasses import dataclass, field

HEADINGS = [
    "policy set",
    "traces",
    "kept by Collector",
    "kept by Whyslow",
    "only Collector",
    "only Whyslow",
    "with compat",
    "what `compat: collector` restores",
]


@dataclass
class Row:
    """What was kept under one policy set, as spans by trace id; `why` they are to differ, if so."""

    name: str
    why: str
    n_traces: int = 0
    collector: dict = field(default_factory=dict)
    whyslow: dict = field(default_factory=dict)
    # Kept by Whyslow with `compat: collector`, if that was run.
    compat: dict | None = None
    trouble: str = ""

    @property
    def is_as_promised(self):
        """Both keep the same spans of the same traces, or do under `compat` and differ as said."""
        if self.trouble:
            return False
        if self.why:
            return self.whyslow != self.collector and self.compat == self.collector
        return self.whyslow == self.collector

    def cells(self):
        if self.trouble:
            return [self.name, *["-"] * 6, self.trouble]
        compat = "" if self.compat is None else difference(self.collector, self.compat)
        return [
            self.name,
            f"{self.n_traces:,}",
            f"{len(self.collector):,}",
            f"{len(self.whyslow):,}",
            f"{len(self.collector.keys() - self.whyslow.keys()):,}",
            f"{len(self.whyslow.keys() - self.collector.keys()):,}",
            compat,
            self.why,
        ]


def difference(collector, whyslow):
    """`0`, or how many traces are kept by one alone or with other spans."""
    ids = collector.keys() | whyslow.keys()
    return f"{sum(collector.get(each) != whyslow.get(each) for each in ids):,}"


def text(rows):
    """The table in Markdown, with aligned columns."""
    lines = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    lines.insert(1, ["-" * width for width in widths])
    is_number = [False, *[True] * 6, False]
    return "\n".join(
        "| "
        + " | ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        )
        + " |"
        for line in lines
    )
