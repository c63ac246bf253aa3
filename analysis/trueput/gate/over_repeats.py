"""What a difference says of a side with several repeats: their mean, or whose figure it is.

A figure that came back is the mean over a side's repeats, as the rules judge it. What is told of
two runs at a time (a distance of loads, say) is that of the runs furthest apart, and names them
where the others of their side would show another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from trueput.gate.figures import RunFigures
from trueput.gate.loads import ONE_SIDE, Difference, Gap


@dataclass(frozen=True)
class Mean:
    """The mean of a figure over the repeats of a side that tell it."""

    value: float
    known: int
    runs: int

    def text(self, form: str) -> str:
        """Return the figure in a form, and of how many runs it is where some lack it."""
        shown = form.format(self.value)
        return shown if self.known == self.runs else f"{shown} ({self.known} of {self.runs} runs)"


def mean_difference(
    aspect: str,
    sides: tuple[Sequence[RunFigures], Sequence[RunFigures]],
    read: Callable[[RunFigures], float | None],
    form: str,
    size: Callable[[float, float], str | None],
) -> Difference | None:
    """Compare the means of a figure over the repeats of both sides; it never blocks.

    `size` says how far apart two figures are, and None of what is not to be listed.
    """
    before, after = (_mean(runs, read) for runs in sides)
    told = None if before is None or after is None else size(before.value, after.value)
    if before is None or after is None or told is None:
        return None
    if max(before.known, after.known) > 1:
        told += ", on the mean of the repeats"
    return Difference(aspect, before.text(form), after.text(form), told, False)


def _mean(runs: Sequence[RunFigures], read: Callable[[RunFigures], float | None]) -> Mean | None:
    known = [value for run in runs if (value := read(run)) is not None]
    return Mean(math.fsum(known) / len(known), len(known), len(runs)) if known else None


def furthest_apart(
    baseline: Sequence[RunFigures],
    candidate: Sequence[RunFigures],
    gap: Callable[[RunFigures, RunFigures], Gap | None],
) -> Difference | None:
    """Return the largest difference over all pairs of runs, one from each side.

    What blocks is larger than what holds back, and that than what informs.
    """
    pairs = {
        (i, j): found
        for i, b in enumerate(baseline)
        for j, c in enumerate(candidate)
        if (found := gap(b, c)) is not None
    }
    if not pairs:
        return None
    i, j = max(
        pairs,
        key=lambda at: (
            pairs[at][1].blocks,
            pairs[at][1].holds_back,
            pairs[at][0],
            pairs[at][1].difference,
        ),
    )
    shown = pairs[i, j][1]
    before, after = shown.baseline, shown.candidate
    if not _alike(pairs, [(k, j) for k in range(len(baseline))]):
        before = f"{baseline[i].run_id}: {before}"
    if not _alike(pairs, [(i, k) for k in range(len(candidate))]):
        after = f"{candidate[j].run_id}: {after}"
    size = shown.difference
    if (before, after) != (shown.baseline, shown.candidate) and size != ONE_SIDE:
        size += ", between the runs furthest apart"
    return replace(shown, baseline=before, candidate=after, difference=size)


def _alike(pairs: Mapping[tuple[int, int], Gap], places: Sequence[tuple[int, int]]) -> bool:
    """Tell whether pairs that share a run say the same of it and the other."""
    told = [pairs[at][1] if at in pairs else None for at in places]
    return all(one == told[0] for one in told)
