"""Steps of a profile that lacks stretches of the log."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trueput.attribution.gpu.steps.pieces import CHANGE_COSTS, in_pieces


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(CHANGE_COSTS + 1, 12)), max_size=6))
def test_steps_that_are_all_different_find_their_places(pieces: list[tuple[int, int]]) -> None:
    """`pieces`: how many iterations are lost, and how many follow that are not."""
    kept, at = [], 0
    for lost, there in pieces:
        kept += list(range(at + lost, at + lost + there))
        at += lost + there
    theirs = np.arange(at + 5) + 1_000
    mine = theirs[kept]
    shifts = sorted({k - n for n, k in enumerate(kept)} | {-1, 40})
    assert in_pieces(mine, theirs, shifts).tolist() == kept


@given(
    st.lists(st.integers(0, 2), max_size=12),
    st.lists(st.integers(0, 2), max_size=12),
    st.sets(st.integers(-4, 6), max_size=4),
)
def test_no_way_through_the_shifts_gains_more(
    mine: list[int], theirs: list[int], shifts: set[int]
) -> None:
    def most(at: int, allowed: list[int]) -> int:
        """The best gain from a step on, by trying everything."""
        if at == len(mine):
            return 0
        found = 0
        for number, shift in enumerate(allowed):
            agree = 0
            for until in range(at, len(mine)):
                place = until + shift
                agree += 0 <= place < len(theirs) and mine[until] == theirs[place]
                rest = most(until + 1, allowed[number + 1 :])
                found = max(found, agree + rest - (CHANGE_COSTS if rest else 0))
        return found

    places = in_pieces(np.array(mine, np.int64), np.array(theirs, np.int64), list(shifts))
    matched = np.flatnonzero(places >= 0)
    assert all(theirs[p] == mine[m] for m, p in zip(matched, places[matched], strict=True))
    assert (np.diff(places[matched]) > 0).all()
    changes = int((np.diff(places[matched] - matched) != 0).sum())
    assert matched.size - CHANGE_COSTS * changes == most(0, sorted(shifts))
