"""Steps of a profile as stretches of a log between which iterations are missing from the profile.

The steps agree with the log at one shift, then at a greater one: as many iterations are missing as
it grew. Of all ways to go through the most voted shifts in rising order, the one with most equal
compositions is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trueput.attribution.gpu.profile.marks import Bools
from trueput.attribution.records import Ints

MOST_SHIFTS = 16
CHANGE_COSTS = 3
"""A further stretch must bring so many equal compositions more."""


def in_pieces(mine: Ints, theirs: Ints, shifts: Sequence[int]) -> Ints:
    """Return the position in `theirs` of each of `mine`, -1 where none agrees.

    `shifts`: those that come into question, position in `theirs` less position in `mine`.
    """
    size = mine.size
    best: Ints = np.zeros(size + 1, np.int64)
    which: list[Ints] = []
    begins: list[Ints] = []
    ordered = sorted(set(shifts))
    place = np.arange(size + 1)
    for number, shift in enumerate(ordered):
        reached = np.concatenate(([0], np.cumsum(_agree(mine, theirs, shift))))
        gain = best - reached - (CHANGE_COSTS if number else 0)
        gain[0] = 0
        most = np.maximum.accumulate(gain)
        begins.append(np.maximum.accumulate(np.where(gain == most, place, 0)))
        here = reached + most
        before = which[-1] if which else np.full(size + 1, number)
        which.append(np.where(here > best, number, before))
        best = np.maximum(best, here)
    found: Ints = np.full(size, -1, np.int64)
    until, level = size, len(ordered) - 1
    while until > 0 and level >= 0:
        level = int(which[level][until])
        begin = int(begins[level][until])
        at = np.arange(begin, until)
        same = at[_agree(mine, theirs, ordered[level])[begin:until]]
        found[same] = same + ordered[level]
        until, level = begin, level - 1
    return found


def _agree(mine: Ints, theirs: Ints, shift: int) -> Bools:
    """Return for each of `mine` whether the one at this shift is equal."""
    at = np.arange(mine.size) + shift
    inside = (at >= 0) & (at < theirs.size)
    found: Bools = np.zeros(mine.size, np.bool_)
    found[inside] = mine[inside] == theirs[at[inside]]
    return found
