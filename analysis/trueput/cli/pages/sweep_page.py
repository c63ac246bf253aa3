"""A sweep on a page: a row a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueput.cli.output import Grid, print_grid, printable, to_markdown
from trueput.cli.pages.layout import heading, percent, say
from trueput.gate.render.markdown import prose
from trueput.report.points import Point

if TYPE_CHECKING:
    from rich.console import Console

    from trueput.verbs.sweep import Ratio, Sweep

_COLUMNS = ("no.", "configuration", "activity", "goodput", "recomputed", "verdict", "quadrant")
_RIGHT = frozenset({"no.", "activity", "goodput", "recomputed"})


def draw(console: Console, found: Sweep) -> None:
    """Print the table, then what its figures are."""
    heading(console, counted(len(found.rows)), f"against {found.baseline}")
    say(console, f"objective {found.slo or 'none, or not the same'}; {_activity(found)}", "dim")
    for note in found.notes:
        say(console, f"{note.level}: {note.text}", "dim")
    made = grid(found)
    print_grid(console, Grid(made.columns, made.rows, "", _RIGHT, ("no.", "recomputed")))
    from trueput.verbs.sweep import WORSE

    worse = [row.config for row in found.rows if row.quadrant == WORSE]
    if worse:
        say(console, f"busier, not better: {len(worse)} of {len(found.rows)} (by the estimates)")


def counted(configurations: int) -> str:
    """Return `1 configuration`, `2 configurations`."""
    return f"{configurations} configuration{'' if configurations == 1 else 's'}"


def markdown(found: Sweep) -> str:
    """Return the table as Markdown, with its notes."""
    notes = [f"- {note.level}: {prose(printable(note.text))}" for note in found.notes]
    return to_markdown(grid(found)) + "".join(f"\n{note}" for note in notes) + "\n" * bool(notes)


def grid(found: Sweep) -> Grid:
    """Return the table for people."""
    rows = [
        [
            number,
            row.config,
            _change(row.activity),
            _change(row.goodput),
            None if row.recomputed is None else percent(row.recomputed),
            row.verdict.replace("_", " "),
            row.quadrant,
        ]
        for number, row in enumerate(found.rows, 1)
    ]
    return Grid(_COLUMNS, rows, f"Against {found.baseline}; {_activity(found)}", _RIGHT)


def plain_grid(found: Sweep) -> Grid:
    """Return one row a configuration with plain figures."""
    names = ("config", "runs", "verdict", "rung", "activity_ratio", "activity_ratio_low",
             "activity_ratio_high", "goodput_ratio", "goodput_ratio_low", "goodput_ratio_high",
             "recomputed_ratio_baseline", "recomputed_ratio", "quadrant", "reason")  # fmt: skip
    rows = [
        [
            row.config, " ".join(row.runs), row.verdict, found.rung, *_figures(row.activity),
            *_figures(row.goodput), _ten(row.recomputed_baseline), _ten(row.recomputed),
            row.quadrant, row.reason,
        ]
        for row in found.rows
    ]  # fmt: skip
    return Grid(names, rows)


def points(found: Sweep) -> list[Point]:
    """Return the configurations as the picture draws them, numbered as in the table."""
    return [
        Point(
            number,
            row.config,
            row.verdict,
            None if row.activity is None else row.activity.change,
            None if row.goodput is None else row.goodput.change,
            row.recomputed,
            *_whiskers(row.activity),
            *_whiskers(row.goodput),
        )
        for number, row in enumerate(found.rows, 1)
    ]


def _whiskers(ratio: Ratio | None) -> tuple[float | None, float | None]:
    if ratio is None or ratio.low is None or ratio.high is None:
        return None, None
    return ratio.low - 1, ratio.high - 1


def _activity(found: Sweep) -> str:
    return f"activity is {found.rung}" if found.rung else "activity is not known on both sides"


def _change(ratio: Ratio | None) -> str | None:
    return None if ratio is None else f"{100 * ratio.change:+.1f} %"


def _figures(ratio: Ratio | None) -> tuple[float | None, ...]:
    return (None,) * 3 if ratio is None else (_ten(ratio.value), _ten(ratio.low), _ten(ratio.high))


def _ten(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.10g}")
