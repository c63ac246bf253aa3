"""Requests outside the window: nobody judges them, so that their number and losses are told.

A window is the user's choice. But where one side lost more of what it left out, the window hides
a loss: that holds back a pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trueput.gate.figures import RunFigures, text
from trueput.gate.loads import Difference, Gap
from trueput.gate.policy import Note
from trueput.gate.samples import FEWEST_GOOD, lost_share

ASPECT = "outside_window"
#: Points from which on a difference is listed.
_LISTED_POINTS = 0.01
#: Points by which a candidate must lose more outside the window to hold back a pass.
_LOST_POINTS = 0.05
#: Normal quantile of a one-sided 99 %: chance between two runs is no hidden loss.
_BY_CHANCE = 2.326


@dataclass(frozen=True)
class Outside:
    """Planned requests that were sent outside the window, and how many did not end as asked."""

    requests: int
    lost: int
    planned: int

    @property
    def share(self) -> float:
        """Lost requests of those outside; 0 where none lies outside."""
        return self.lost / self.requests if self.requests else 0.0

    def text(self) -> str:
        """Return the counts for a reader."""
        return f"{self.requests} of {self.planned} requests, {self.lost} of them lost"


def outside(run: RunFigures) -> Outside | None:
    """Return what lies outside a run's window; ``None`` where the window is all, or not known.

    A request that was never sent lies outside, unless its planned instant is known to lie inside.
    """
    import numpy as np

    planned, inside = run.count("planned"), lost_share(run)
    rule = text(run.goodput, "window_rule")
    if rule in (None, "all") or planned is None or not len(run.requests):
        return None
    if inside is None and planned:
        return None
    lost = int(np.count_nonzero(~run.requests.survived))
    lost_inside = 0 if inside is None else round(inside.value * planned)
    beyond = max(len(run.requests) - planned, 0)
    return Outside(beyond, min(max(lost - lost_inside, 0), beyond), len(run.requests))


def outside_gap(b: RunFigures, c: RunFigures) -> Gap | None:
    """Compare the losses outside the window; more of them on the candidate's side hold back."""
    before, after = outside(b), outside(c)
    if before is None or after is None:
        return None
    moved = after.share - before.share
    if abs(moved) < _LISTED_POINTS:
        return None
    if not before.requests or not after.requests:
        size = "all requests of one side lie inside the window"
    else:
        size = f"{100 * moved:+.1f} points lost of those outside the window"
    held = after.requests > 0 and moved > max(_LOST_POINTS, _chance(before, after))
    return abs(moved), Difference(ASPECT, before.text(), after.text(), size, False, holds_back=held)


def _chance(one: Outside, other: Outside) -> float:
    """Return the difference of shares that two like runs exceed once in a hundred."""
    count = one.requests + other.requests
    pooled = (one.lost + other.lost) / count
    if not one.requests:
        return 0.0
    return _BY_CHANCE * math.sqrt(pooled * (1 - pooled) * (1 / one.requests + 1 / other.requests))


def outside_notes(sides: Sequence[tuple[str, Sequence[RunFigures]]]) -> tuple[Note, ...]:
    """Say of each side how many requests lie outside its window; nothing where none does."""
    counts = []
    for config, runs in dict(sides).items():
        found = [one for run in runs if (one := outside(run)) is not None]
        whole = Outside(*(sum(getattr(o, name) for o in found) for name in _COUNTS))
        counts.append((config, whole))
    if not any(whole.requests for _, whole in counts):
        return ()
    return tuple(
        Note("notice", f"{config}: {whole.text()}, lie outside the window", "runs")
        for config, whole in counts
    )


_COUNTS = ("requests", "lost", "planned")


def few_notes(runs: Sequence[RunFigures]) -> tuple[Note, ...]:
    """Say of each run of which the window holds a handful of its many requests that it does."""
    return tuple(
        Note("warning", f"{run.run_id}: {_few(run, inside)}", "runs")
        for run in runs
        if run.window is not None
        and (inside := run.count("planned")) is not None
        and 0 < inside < min(FEWEST_GOOD, len(run.requests))
    )


def beyond_notes(runs: Sequence[RunFigures]) -> tuple[Note, ...]:
    """Say of each run whose window reaches beyond its load that its rates are over that time."""
    return tuple(
        Note("warning", f"{run.run_id}: {run.beyond}", "runs")
        for run in runs
        if run.beyond is not None
    )


def _few(run: RunFigures, inside: int) -> str:
    rule = text(run.goodput, "window_rule")
    return (
        f"the window `{rule}` holds {inside} of its {len(run.requests)} requests, too few to tell "
        "its rates and shares from chance"
    )
