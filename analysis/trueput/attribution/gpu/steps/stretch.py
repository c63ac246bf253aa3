"""The steps of a profile as one stretch of an engine's log.

Compositions tell where it lies, the rare ones first. A short profile may agree with many stretches:
many equal steps that only decode. Then time tells: when lines were printed, and how long each
iteration took. Where several stretches are left, none is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from trueput.attribution.gpu.profile.marks import Bools
from trueput.attribution.gpu.time.clock import SECOND_NS, SEVERAL, SLACK_NS
from trueput.attribution.records import Ints

LEAST_AGREEING: Final = 3
AGREEING_SHARE: Final = 0.9
NEARLY: Final = 0.98
"""Of the steps that agree at the best shift: others come into question as well."""
MOST_PLACES, MOST_PAIRS, MOST_VOTED = 50, 1_000_000, 200
LEAST_PAUSES: Final = 16
"""From one step to the next, so many must be known to tell stretches apart by them."""
MUCH_NEARER: Final = 0.5
"""Where steps follow each other like the iterations of one stretch, they scatter about its times by
less than this share of what they do about those of any other."""


@dataclass(frozen=True)
class Log:
    """One life of an engine: the positions of its iterations and a code for each composition."""

    at: Ints
    codes: Ints
    printed_ns: Ints | None = None
    """The second that each line prints, in UTC."""
    elapsed_ns: Ints | None = None


@dataclass(frozen=True)
class _Stretch:
    """A place in a log, and how many steps agree with it."""

    log: Log
    shift: int
    """Position in the log of the first step."""
    agree: int

    def pairs(self, size: int) -> tuple[Ints, Ints]:
        """Return the steps that lie in the log, and their positions in it."""
        at = np.arange(max(0, -self.shift), min(size, self.log.codes.size - self.shift))
        return at, at + self.shift


def one_stretch(mine: Ints, start_ns: Ints, logs: Sequence[Log], *, is_dated: bool) -> Ints:
    """Return the position in all iterations of each step, -1 where none agrees; SEVERAL for all
    steps where several stretches come into question.

    `mine` are codes of compositions as in `logs`. `start_ns`: when steps began, in UTC where the
    profile `is_dated`.
    """
    out: Ints = np.full(mine.size, -1, np.int64)
    some = [s for log in logs for s in _stretches(mine, start_ns, log, is_dated=is_dated)]
    if not some:
        return out
    most = max(s.agree for s in some)
    near = [s for s in some if s.agree >= NEARLY * most]
    timely = [s for s in near if _is_timely(s, start_ns)] if is_dated else []
    best = _the_one(timely or near, start_ns)
    if best is None:
        if timely or not is_dated:  # else they may be a part of the iterations only
            out[:] = SEVERAL
        return out
    at, place = best.pairs(mine.size)
    same = mine[at] == best.log.codes[place]
    out[at[same]] = best.log.at[place[same]]
    return out


def _the_one(near: Sequence[_Stretch], start_ns: Ints) -> _Stretch | None:
    """Return the stretch with which most steps agree; of several, the one whose times they have."""
    most = max(s.agree for s in near)
    best = [s for s in near if s.agree == most]
    if len(best) == 1:
        return best[0]
    if len(best) >= MOST_VOTED:  # there may be more of them
        return None
    scatter = [_scatter(s, start_ns) for s in best]
    first, second = sorted(scatter)[:2]
    return best[scatter.index(first)] if first < MUCH_NEARER * second else None


def _scatter(stretch: _Stretch, start_ns: Ints) -> float:
    """Return by how much the time from one step to the next differs from what iterations took.

    The median (ns) about what it differs by as a rule; infinite where it cannot be told.
    """
    elapsed = stretch.log.elapsed_ns
    at, place = stretch.pairs(start_ns.size)
    if elapsed is None or at.size <= LEAST_PAUSES:
        return np.inf
    differs = np.diff(start_ns[at]) - elapsed[place[:-1]]
    return float(np.median(np.abs(differs - np.median(differs))))


def _stretches(mine: Ints, start_ns: Ints, log: Log, *, is_dated: bool) -> Iterator[_Stretch]:
    """Yield the stretches of a log with which enough steps agree."""
    least = max(LEAST_AGREEING, AGREEING_SHARE * min(mine.size, log.codes.size))
    shifts = set(voted(mine, log.codes))
    if is_dated and log.printed_ns is not None:
        shifts.update(np.flatnonzero(_while_printed(log, int(start_ns[0]))).tolist())
    for shift in sorted(shifts):
        agree = _agreeing(mine, log.codes, shift)
        if agree >= least:
            yield _Stretch(log, shift, agree)


def _agreeing(mine: Ints, theirs: Ints, shift: int) -> int:
    first, last = max(0, -shift), min(mine.size, theirs.size - shift)
    return (
        int((mine[first:last] == theirs[first + shift : last + shift]).sum()) if last > first else 0
    )


def _while_printed(log: Log, start_ns: int) -> Bools:
    """Return which iterations may have begun at an instant, by the second that was printed when
    they had ended."""
    printed, elapsed = log.printed_ns, log.elapsed_ns
    assert printed is not None  # asked of no other log
    begun = printed if elapsed is None else printed - elapsed
    found: Bools = (begun <= start_ns + SLACK_NS) & (printed + SECOND_NS + SLACK_NS >= start_ns)
    return found


def _is_timely(stretch: _Stretch, start_ns: Ints) -> bool:
    """Return whether nearly all steps may have run when the log printed their iterations."""
    log = stretch.log
    if log.printed_ns is None:
        return False
    at, place = stretch.pairs(start_ns.size)
    printed = log.printed_ns[place]
    begun = printed if log.elapsed_ns is None else printed - log.elapsed_ns[place]
    timely = (begun <= start_ns[at] + SLACK_NS) & (printed + SECOND_NS + SLACK_NS >= start_ns[at])
    return bool(timely.sum() >= AGREEING_SHARE * at.size)


def voted(mine: Ints, theirs: Ints) -> list[int]:
    """The shifts for which equal compositions vote, most votes first.

    A composition that occurs often says little, and its votes count as much less: else those of
    many equal steps outvote the few that tell where a profile lies in a long log. So do changes
    from one composition to the next: of steps that only decode there may be nothing else.
    """
    found = [np.zeros(0, np.int64)]
    weights = [np.zeros(0, np.float64)]
    for here, there in (*_equal(mine, theirs), *_equal(_changes(mine), _changes(theirs))):
        shifts = (there[None, :] - here[:, None]).ravel()
        found.append(shifts)
        weights.append(np.full(shifts.size, 1 / there.size))
    shifts, which = np.unique(np.concatenate(found), return_inverse=True)
    votes = np.bincount(which, np.concatenate(weights), minlength=shifts.size)
    order = np.lexsort((shifts, -np.round(votes, 9)))
    listed: list[int] = shifts[order[:MOST_VOTED]].tolist()
    return listed


def _equal(mine: Ints, theirs: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield where codes are in both, those that are rarest in `theirs` first; 0 is none.

    Of a code's places in `mine` some, spread over all, and of both no more than can be paired.
    """
    order = np.argsort(theirs, kind="stable")
    values, begins, counts = np.unique(theirs[order], return_index=True, return_counts=True)
    ours = np.argsort(mine, kind="stable")
    own, firsts, sizes = np.unique(mine[ours], return_index=True, return_counts=True)
    common = np.flatnonzero(np.isin(values, own) & (values != 0))
    common = common[np.argsort(counts[common], kind="stable")]
    left = MOST_PAIRS
    for at, place in zip(
        common.tolist(), np.searchsorted(own, values[common]).tolist(), strict=True
    ):
        spread = np.linspace(0, sizes[place] - 1, min(int(sizes[place]), MOST_PLACES)).astype(int)
        left -= spread.size * int(counts[at])
        if left < 0:
            return
        yield ours[firsts[place] + spread], order[begins[at] : begins[at] + counts[at]]


def _changes(codes: Ints) -> Ints:
    """A code for each step whose composition is not that of the one before, with both; else 0."""
    out: Ints = np.zeros(codes.size, np.int64)
    other = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    out[other] = (codes[other - 1] * 1_000_003 + codes[other]) | 1
    return out
