"""Where a series of nights changed its level: jumps, and creeps that no single night shows.

The search is that of the library ruptures (PELT, least squares, on logs for positive figures).
What is ours is how it is judged: the noise comes from the differences between neighbouring nights,
so that a jump does not count as noise; a level lasts two nights at least, so that the newest night
cannot begin one; a single odd night is taken out before, and told as such; and steps in one
direction that a straight line explains better are one creep.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from trueput.errors import UsageError

#: Nights that a level lasts at least.
MIN_NIGHTS = 2
MIN_SERIES = 6
#: A change must buy this many times log(nights) of the noise variance.
_PENALTY, _PENALTY_OF_FEW = 4.0, 6.0
#: Least noise: half a percent of the figure, or half a point of a share.
_LEAST_SD = 0.005
_MAD_TO_SD = 1.4826
#: Below this many nights the median of the differences alone would be too small too often.
_FEW_NIGHTS = 20
#: A night this many sds from the median of the (up to) five around it is odd.
_ODD = 5.0
#: Corners that are tried for a creep, at most.
_CORNERS = 40
INSTALL = "pip install 'trueput[history]'"


class Kind(StrEnum):
    """How a level changed: from one night to the next, little by little, or for one night."""

    JUMP = "jump"
    CREEP = "creep"
    ODD = "odd night"


@dataclass(frozen=True)
class Shift:
    """One change: from the level before to the level after, between two positions of the series.

    A jump happened at `last`, the first night of the new level (`first` is the night before it); a
    creep went on from `first` to `last`; an odd night is both, and `before` is what its neighbours
    show. `change` is relative (0.1 is 10 % more), or the difference
    where the figures are shares.
    """

    kind: Kind
    first: int
    last: int
    before: float
    after: float
    change: float


def shifts(values: Sequence[float], *, shares: bool = False) -> tuple[Shift, ...]:
    """Return the changes in a series of nights, oldest first; positions count from 0.

    `values` are in the order of time; positive unless `shares`. Raises UsageError without ruptures.
    """
    ruptures = _library()
    if len(values) < MIN_SERIES:
        return ()
    import numpy as np

    series = [float(v) if shares else math.log(v) for v in values]
    sd = _noise_sd(series)
    series, odd = _without_odd_nights(series, sd)
    algorithm = ruptures.Pelt(model="l2", min_size=MIN_NIGHTS, jump=1)
    weight = _PENALTY_OF_FEW if len(series) < _FEW_NIGHTS else _PENALTY
    penalty = weight * math.log(len(series)) * sd * sd
    ends = algorithm.fit(np.array(series).reshape(-1, 1)).predict(pen=penalty)
    edges = [0, *ends]
    levels = [statistics.fmean(series[a:b]) for a, b in pairwise(edges)]
    found = [
        Shift(Kind.ODD, at, at, *_shown(series[at], value, shares)) for at, value in odd.items()
    ]
    place = 1
    while place < len(levels):
        end = place + 1
        rising = levels[place] > levels[place - 1]
        while end < len(levels) and (levels[end] > levels[end - 1]) == rising:
            end += 1
        found += _group(series, edges, levels, place, end, shares)
        place = end
    return tuple(sorted(found, key=lambda shift: (shift.last, shift.first)))


def _group(
    series: Sequence[float],
    edges: Sequence[int],
    levels: Sequence[float],
    first: int,
    end: int,
    shares: bool,
) -> list[Shift]:
    """Return the changes from level `first - 1` to level `end - 1`: one creep, or each jump."""
    creep = _creep(series, edges, levels, first, end)
    if creep is not None:
        start, stop, before, after = creep
        return [Shift(Kind.CREEP, start, stop, *_shown(before, after, shares))]
    return [
        Shift(
            Kind.JUMP, edges[at] - 1, edges[at], *_shown(levels[at - 1], levels[at], shares)
        )
        for at in range(first, end)
    ]  # fmt: skip


def _creep(
    series: Sequence[float], edges: Sequence[int], levels: Sequence[float], first: int, end: int
) -> tuple[int, int, float, float] | None:
    """Return the ramp that explains the nights better than steps do; None where steps do.

    Level, ramp, level: its two corners are searched over the nights of all the levels, and it costs
    four figures (two levels, two corners); each step costs two (a level, a night), and one more.
    """
    low, high = edges[first - 1], edges[end]
    part = series[low:high]
    steps = sum(
        _squares(series[edges[at] : edges[at + 1]], levels[at]) for at in range(first - 1, end)
    )
    best: tuple[float, int, int, float, float] | None = None
    stride = max(1, len(part) // _CORNERS)
    for start in range(0, len(part) - MIN_NIGHTS, stride):
        for stop in range(start + MIN_NIGHTS, len(part), stride):
            ramp = _ramp(part, start, stop)
            if best is None or ramp[0] < best[0]:
                best = ramp[0], start, stop, ramp[1], ramp[2]
    if best is None:
        return None
    least = len(part) * _LEAST_SD * _LEAST_SD / 4
    count = len(part)
    figures_of_steps = 2 * (end - first) + 1
    cost_of_steps = count * math.log((steps + least) / count) + figures_of_steps * math.log(count)
    if count * math.log((best[0] + least) / count) + 4 * math.log(count) >= cost_of_steps:
        return None
    return low + best[1], low + best[2], best[3], best[4]


def _ramp(part: Sequence[float], start: int, stop: int) -> tuple[float, float, float]:
    """Fit level, straight ramp from `start` to `stop`, level; return squares and both levels."""
    weights = [min(1.0, max(0.0, (at - start) / (stop - start))) for at in range(len(part))]
    count, total = len(part), math.fsum(weights)
    squares = math.fsum(w * w for w in weights)
    sum_y, sum_wy = math.fsum(part), math.fsum(w * y for w, y in zip(weights, part, strict=True))
    spread = count * squares - total * total
    rise = (count * sum_wy - total * sum_y) / spread if spread else 0.0
    level = (sum_y - rise * total) / count
    left = math.fsum((y - level - rise * w) ** 2 for w, y in zip(weights, part, strict=True))
    return left, level, level + rise


def _squares(part: Sequence[float], level: float) -> float:
    return math.fsum((value - level) ** 2 for value in part)


def _shown(before: float, after: float, shares: bool) -> tuple[float, float, float]:
    if shares:
        return before, after, after - before
    return math.exp(before), math.exp(after), math.exp(after - before) - 1


def _noise_sd(series: Sequence[float]) -> float:
    """Return the sd of a night, from differences between neighbours: robust against jumps."""
    steps = [b - a for a, b in pairwise(series)]
    middle = statistics.median(steps)
    spread = _MAD_TO_SD * statistics.median([abs(step - middle) for step in steps])
    if len(series) < _FEW_NIGHTS:
        kept = sorted(abs(step) for step in steps)[:-1]  # the largest may be the jump
        spread = max(spread, math.sqrt(statistics.fmean([step * step for step in kept])))
    return max(spread / math.sqrt(2), _LEAST_SD)


def _without_odd_nights(series: Sequence[float], sd: float) -> tuple[list[float], dict[int, float]]:
    """Return the series with each odd night at the median around it, and the odd values."""
    kept, odd = list(series), {}
    for at, value in enumerate(series):
        reach = min(2, at, len(series) - 1 - at) or 2  # at an end: the three nights there
        middle = statistics.median(series[max(0, at - reach) : at + reach + 1])
        if abs(value - middle) > _ODD * sd:
            kept[at], odd[at] = middle, value
    return kept, odd


def _library() -> Any:
    try:
        import ruptures  # type: ignore[import-untyped]  # it has no types
    except ImportError as error:
        raise UsageError(
            "change points need the library ruptures, which is not installed", f"`{INSTALL}`"
        ) from error
    return ruptures
