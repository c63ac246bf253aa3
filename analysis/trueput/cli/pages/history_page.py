"""The nights of a series on a page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trueput.cli.output import Grid
from trueput.cli.pages.layout import heading, percent, rate, say, table
from trueput.gate.change_points import MIN_SERIES

if TYPE_CHECKING:
    from rich.console import Console

    from trueput.verbs.history import Change, Night, Series

_RIGHT = ("goodput", "attainment", "activity", "recomputed")
_CHANGES = ("metric", "what", "from", "to", "before", "after", "change")


def draw(console: Console, found: Sequence[Series]) -> None:
    """Print each series: its nights, then its changes."""
    for series in found:
        heading(console, series.key, series.meaning)
        say(console, f"objective {series.slo or 'none, or not the same'}; {_rung(series)}", "dim")
        columns, rows = _nights(series)
        table(console, columns, rows, _RIGHT)
        if series.changes:
            heading(console, "Changes", "a new level lasts two nights at least")
            table(console, _CHANGES, [_change(c) for c in series.changes], _CHANGES[4:])
        elif series.changes is not None:
            few = len(series.nights) < MIN_SERIES
            say(console, "too few nights to look for changes" if few else "no change found")


def grids(found: Sequence[Series]) -> list[Grid]:
    """Return each series as grids, for Markdown."""
    made = []
    for series in found:
        columns, rows = _nights(series)
        made.append(Grid(columns, rows, f"{series.key}: {series.meaning}", frozenset(_RIGHT)))
        if series.changes:
            cells = [_change(change) for change in series.changes]
            made.append(Grid(_CHANGES, cells, "Changes", frozenset(_CHANGES[4:])))
    return made


def nights_grid(found: Sequence[Series]) -> Grid:
    """Return one row a night, with plain values and the changes that begin a new level there."""
    columns = ("series", "run_id", "at_ns", "engine_version", "goodput_rps",
               "slo_attainment_ratio", "rung", "activity", "recomputed_ratio", "accepted",
               "changes")  # fmt: skip
    rows = [
        [series.key, n.run_id, n.at_ns, n.engine_version, n.goodput_rps, n.slo_attainment_ratio,
         series.rung, n.activity, n.recomputed_ratio, n.accepted,
         "; ".join(f"{c.metric} {c.kind} {c.change:+.4f}" for c in series.changes or ()
                   if c.last_run == n.run_id)]
        for series in found
        for n in series.nights
    ]  # fmt: skip
    return Grid(columns, rows)


def _rung(series: Series) -> str:
    return f"activity is {series.rung}" if series.rung else "no rung of activity in every run"


def _nights(series: Series) -> tuple[tuple[str, ...], list[list[str | None]]]:
    columns = ("run", "when (UTC)", "version", "goodput", "attainment", "activity", "recomputed",
               "")  # fmt: skip
    marks: dict[str, list[str]] = {}
    for change in series.changes or ():
        marks.setdefault(change.last_run, []).append(f"{change.metric} {_size(change)}")
    return columns, [_night(night, marks.get(night.run_id, [])) for night in series.nights]


def _night(night: Night, marks: Sequence[str]) -> list[str | None]:
    when = None
    if night.at_ns is not None:
        when = datetime.fromtimestamp(night.at_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M")
    words = [*(["accepted"] if night.accepted else []), *marks]
    return [
        night.run_id,
        when,
        night.engine_version,
        None if night.goodput_rps is None else rate(night.goodput_rps),
        None if night.slo_attainment_ratio is None else percent(night.slo_attainment_ratio),
        None if night.activity is None else f"{night.activity:.4g}",
        None if night.recomputed_ratio is None else percent(night.recomputed_ratio),
        ", ".join(words) or None,
    ]


def _change(change: Change) -> list[str]:
    return [
        change.metric,
        change.kind,
        change.first_run,
        change.last_run,
        f"{change.before:.4g}",
        f"{change.after:.4g}",
        _size(change),
    ]


def _size(change: Change) -> str:
    return f"{100 * change.change:+.1f} {'points' if change.points else '%'}"
