"""Configurations side by side on a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trueput.cli.output import Grid, printable, to_markdown
from trueput.cli.pages.differences import draw_differences
from trueput.cli.pages.layout import heading, say, table
from trueput.gate.render.markdown import prose
from trueput.units import ns_text

if TYPE_CHECKING:
    from rich.console import Console

    from trueput.verbs.compare import Comparison, Line

_NAMES = ("metric", "baseline", "candidate", "ratio", "bounds")


def _value(value: float | None, unit: str) -> str | None:
    if value is None:
        return None
    if value == float("inf"):
        return "inf (failed)"
    if unit == "ns":
        return ns_text(round(value))
    if unit == "count":
        # a mean of counts is shown as what the ratio is of
        return f"{value:,.0f}" if value == round(value) else f"{value:,.{_decimals(value)}f}"
    return f"{value:.4g}"


def _decimals(value: float) -> int:
    """Return how many decimals leave four significant digits, one at least."""
    return max(1, 3 - math.floor(math.log10(abs(value))))


def _bounds(line: Line) -> str | None:
    """Return the bounds of the ratio; after `by` those of the difference, a share's in points."""
    low, high = line.difference_low, line.difference_high
    if line.ratio_low is not None and line.ratio_high is not None:
        return f"{line.ratio_low:.3f} to {line.ratio_high:.3f}"
    if low is None or high is None:
        return None
    if line.unit == "ratio":
        return f"by {100 * low:+.1f} to {100 * high:+.1f} points"
    return f"by {low:+.1f} to {high:+.1f}"


def _row(line: Line) -> list[str | None]:
    unit = "" if line.unit in {"ns", "count"} else f" [{line.unit}]"
    return [
        line.metric + unit,
        _value(line.baseline, line.unit),
        _value(line.candidate, line.unit),
        None if line.ratio is None else f"{line.ratio:.3f}",
        _bounds(line),
    ]


def _shown(found: Comparison) -> list[Line]:
    return [x for x in found.lines if x.baseline is not None or x.candidate is not None]


def draw(console: Console, found: Sequence[Comparison]) -> None:
    """Print each candidate beside the baseline."""
    for one in found:
        heading(console, f"{one.candidate.name}", f"against {one.baseline.name}")
        say(console, one.method, "dim")
        for note in one.notes:
            say(console, f"{note.level}: {note.text}", "dim")
        rows = [_row(line) for line in _shown(one)]
        table(console, _NAMES, rows, ("baseline", "candidate", "ratio"))
        draw_differences(console, one.differences)


def grids(found: Comparison) -> list[Grid]:
    """Return the comparison as grids, for Markdown."""
    title = f"{found.candidate.name} against {found.baseline.name}"
    rows = [_row(line) for line in _shown(found)]
    made = [Grid(_NAMES, rows, title, frozenset({"baseline", "candidate", "ratio"}))]
    if found.differences:
        cells = [
            [d.aspect, d.baseline, d.candidate, d.difference, d.blocks] for d in found.differences
        ]
        columns = ("aspect", "baseline", "candidate", "by", "blocks")
        made.append(Grid(columns, cells, "What differs between the sides"))
    return made


def markdown(found: Comparison) -> str:
    """Return the comparison as Markdown, with its method and its notes."""
    notes = [f"- {note.level}: {prose(printable(note.text))}\n" for note in found.notes]
    tables = [to_markdown(grid) for grid in grids(found)]
    method = f"{prose(found.method)}\n"
    return "\n".join([tables[0], method, *(["".join(notes)] if notes else []), *tables[1:]])
