"""How many planned requests each class of the objective holds, and where the sides differ in it.

A class that nobody is in shows nothing, and one whose share moved makes an objective that is not
the same on both sides. Which class a request is of was asked: a known difference blocks as one of
the lengths does. Where a label or a length is not known, the request may be of the class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trueput.gate.figures import RunFigures
from trueput.gate.loads import DISTANCE_LIMIT, Difference, Gap, chance_text
from trueput.gate.requests import ClassCount

ASPECT = "slo_classes"
#: Change of a class's share, as a factor, from which on it is listed.
_MUCH = 2.0
#: Change of a class's share from which on nothing passes: as many requests may decide goodput.
_LEAST_POINTS = 0.05
#: Normal quantile that chance exceeds once in a hundred, in either direction.
_BY_CHANCE = 2.576


@dataclass(frozen=True)
class ClassTally:
    """One class of the objective with its counts in each run of either side, in their order."""

    name: str
    baseline: tuple[ClassCount, ...]
    candidate: tuple[ClassCount, ...]


@dataclass(frozen=True)
class _Moved:
    """What is to be said of one class in two runs; ``size`` is the difference of its shares."""

    size: float
    words: str
    blocks: bool = False
    holds_back: bool = False


def tallies(
    baseline: Sequence[RunFigures], candidate: Sequence[RunFigures]
) -> tuple[ClassTally, ...]:
    """Return the counts of every class of the objective; none where it has no classes."""
    names = dict.fromkeys(name for run in (*baseline, *candidate) for name in run.classes)
    return tuple(
        ClassTally(
            name,
            tuple(run.classes[name] for run in baseline if name in run.classes),
            tuple(run.classes[name] for run in candidate if name in run.classes),
        )
        for name in names
    )


def counts_text(counts: Sequence[ClassCount]) -> str:
    """Return the counts of some runs: `40, 41 of 200`, or each run's own total."""
    totals = {count.planned for count in counts}
    if len(totals) != 1:
        return ", ".join(_count_text(count) for count in counts) or "unknown"
    known = ", ".join(str(count.requests) for count in counts)
    unknown = ", ".join(str(count.unknown) for count in counts)
    more = f" ({unknown} not known)" if any(count.unknown for count in counts) else ""
    return f"{known} of {totals.pop()}{more}"


def classes_gap(b: RunFigures, c: RunFigures) -> Gap | None:
    """Compare the share of every class of the objective in two runs."""
    shared = [name for name in b.classes if name in c.classes]
    moved = {n: m for n in shared if (m := _moved(b.classes[n], c.classes[n])) is not None}
    if not moved:
        return None
    before, after = (
        "; ".join(f"{name}: {_count_text(run.classes[name])}" for name in moved) for run in (b, c)
    )
    return max(m.size for m in moved.values()), Difference(
        ASPECT,
        before,
        after,
        "; ".join(f"{name}: {m.words}" for name, m in moved.items()),
        any(m.blocks for m in moved.values()),
        any(m.holds_back for m in moved.values()),
    )


def _moved(b: ClassCount, c: ClassCount) -> _Moved | None:
    if not b.planned or not c.planned:
        return None
    known = " known to be" if b.unknown or c.unknown else ""
    if not b.requests and not c.requests:
        return _Moved(
            1.0,
            f"no request of either side is{known} in it: nothing is shown for it",
            holds_back=True,
        )
    before, after = b.requests / b.planned, c.requests / c.planned
    size, surely, chance = abs(after - before), _surely(b, c), _chance(b, c)
    words = f"{100 * (after - before):+.1f} points of the requests"
    if size <= chance:
        words += f", {chance_text(chance, f'{100 * chance:.1f}')}"
    if not b.requests or not c.requests:
        side = "candidate" if b.requests else "baseline"
        words = f"no request of the {side} is{known} in it, {words}"
        return _Moved(size, words, surely > chance, holds_back=surely <= chance)
    if size > DISTANCE_LIMIT:
        blocks = surely > max(DISTANCE_LIMIT, chance)
        return _Moved(size, words, blocks, holds_back=not blocks)
    if size >= _LEAST_POINTS:
        return _Moved(size, words, holds_back=True)
    if max(before, after) >= _MUCH * min(before, after):
        return _Moved(size, f"{words}, {after / before:.2f} times the share")
    return None


def _surely(b: ClassCount, c: ClassCount) -> float:
    """Return by how much the shares differ whatever the unknown requests are."""
    (low_b, high_b), (low_c, high_c) = (
        (n.requests / n.planned, (n.requests + n.unknown) / n.planned) for n in (b, c)
    )
    return max(low_c - high_b, low_b - high_c, 0.0)


def _chance(b: ClassCount, c: ClassCount) -> float:
    """Return the difference of shares that two samples of one load exceed once in a hundred."""
    pooled = (b.requests + c.requests) / (b.planned + c.planned)
    return _BY_CHANCE * math.sqrt(pooled * (1 - pooled) * (1 / b.planned + 1 / c.planned))


def _count_text(count: ClassCount) -> str:
    return f"{count.requests} of {count.planned}{_open(count)}"


def _open(count: ClassCount) -> str:
    return f" ({count.unknown} not known)" if count.unknown else ""
