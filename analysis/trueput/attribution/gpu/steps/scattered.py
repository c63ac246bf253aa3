"""Steps of a profile as the iterations of a log, of which single ones are missing here and there.

The steps of the profile are a part of the log's iterations, in their order, and each ran when the
log printed it. Both passes, one that takes the first iteration of a step's composition that can be
it and one from behind that takes the last, agree on most steps. These tell when every iteration ran
(the log prints how long each took), and of several equal ones the nearest in time is taken.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from trueput.attribution.records import Ints

SECOND_NS: Final = 1_000_000_000
WITHIN_NS: Final = 500_000_000
"""A line may be printed so long after its step, and clocks of machines be off by as much."""


def scattered(mine: Ints, start_ns: Ints, theirs: Ints, printed_ns: Ints, elapsed_ns: Ints) -> Ints:
    """Return the position in the log of each step, -1 where none is left.

    `mine` and `theirs` are codes of compositions, steps and iterations in order; `start_ns` when
    each step began (its annotation may end long before its work), `printed_ns` the second that each
    line prints (ns, on one clock), `elapsed_ns` how long each iteration took.
    """
    places = _places(theirs)
    printed = np.maximum.accumulate(printed_ns)
    first = np.searchsorted(printed, start_ns - SECOND_NS - WITHIN_NS, "left").tolist()
    longest = int(elapsed_ns.max(initial=0))
    last = (np.searchsorted(printed, start_ns + longest + WITHIN_NS, "right") - 1).tolist()
    codes = mine.tolist()
    low = _earliest(codes, first, last, places)
    high = _latest(codes, first, last, places)
    known = np.flatnonzero((low == high) & (low >= 0))
    if not known.size:
        return low
    begun = start_ns[known]
    each = np.maximum(elapsed_ns + between(low[known], begun, elapsed_ns), 1)
    passed = np.cumsum(each) - each
    began = np.interp(passed, passed[low[known]], begun.astype(np.float64))
    return _nearest(codes, low, high, places, began.tolist(), start_ns.tolist())


def between(place: Ints, start_ns: Ints, elapsed_ns: Ints) -> int:
    """Return how long an engine does other things from one iteration to the next, as a rule; less
    than nothing where iterations overlap."""
    follows = np.flatnonzero(np.diff(place) == 1) + 1
    if not follows.size:
        return 0
    spare = np.diff(start_ns)[follows - 1] - elapsed_ns[place[follows - 1]]
    return int(np.median(spare))


def _places(theirs: Ints) -> Mapping[int, Sequence[int]]:
    """Return the positions of each composition, in order."""
    order = np.argsort(theirs, kind="stable")
    different, begins = np.unique(theirs[order], return_index=True)
    pieces = np.split(order, begins[1:])
    return {
        code: piece.tolist()
        for code, piece in zip(different.tolist(), pieces, strict=bool(theirs.size))
    }


def _earliest(
    codes: list[int], first: list[int], last: list[int], places: Mapping[int, Sequence[int]]
) -> Ints:
    found: Ints = np.full(len(codes), -1, np.int64)
    free = 0
    for step, code in enumerate(codes):
        where = places.get(code, ())
        at = bisect_left(where, max(free, first[step]))
        if at < len(where) and where[at] <= last[step]:
            found[step] = where[at]
            free = where[at] + 1
    return found


def _latest(
    codes: list[int], first: list[int], last: list[int], places: Mapping[int, Sequence[int]]
) -> Ints:
    found: Ints = np.full(len(codes), -1, np.int64)
    free = max((where[-1] for where in places.values()), default=-1)
    for step in range(len(codes) - 1, -1, -1):
        where = places.get(codes[step], ())
        at = bisect_right(where, min(free, last[step])) - 1
        if at >= 0 and where[at] >= first[step]:
            found[step] = where[at]
            free = where[at] - 1
    return found


def _nearest(
    codes: list[int],
    low: Ints,
    high: Ints,
    places: Mapping[int, Sequence[int]],
    began: list[float],
    start: list[int],
) -> Ints:
    """Return for each step, of the iterations between both passes, the one nearest in time."""
    found: Ints = np.full(len(codes), -1, np.int64)
    free = 0
    for step, (least, most) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        if least < 0 or most < least:
            continue
        where = places[codes[step]]
        begin, until = bisect_left(where, max(free, least)), bisect_right(where, most)
        if begin >= until:
            continue
        nearest = min(where[begin:until], key=lambda j: abs(began[j] - start[step]))
        found[step] = nearest
        free = nearest + 1
    return found
