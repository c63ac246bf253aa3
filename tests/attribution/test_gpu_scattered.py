"""Single iterations that a profile lacks: which they are, by composition, order and time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trueput.attribution.gpu.steps.scattered import scattered

MS = 1_000_000
SECOND = 1_000 * MS


def test_of_equal_iterations_the_one_with_a_hole_is_missing() -> None:
    """Eight iterations of 10 ms with 5 ms between them; the profile lacks the sixth."""
    begun = 15 * MS * np.arange(8)
    printed = np.zeros(8, np.int64)
    compositions = np.array([7, 1, 1, 1, 1, 1, 1, 9])
    seen = np.array([0, 1, 2, 3, 4, 6, 7])
    took = np.full(8, 10 * MS)
    found = scattered(compositions[seen], begun[seen], compositions, printed, took)
    assert found.tolist() == seen.tolist()


def test_a_step_that_no_iteration_is_stays_without_one() -> None:
    compositions = np.array([1, 2, 3])
    begun = SECOND * np.array([0, 10, 20])
    took = np.full(3, 10 * MS)
    mine, at = np.array([1, 5, 2, 3]), SECOND * np.array([0, 10, 10, 20])
    assert scattered(mine, at, compositions, begun, took).tolist() == [0, -1, 1, 2]
    # the same compositions, ten seconds from where the log has them
    assert scattered(compositions, begun + 10 * SECOND, compositions, begun, took).tolist() == [
        -1, -1, -1,
    ]  # fmt: skip


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 100), st.booleans()), min_size=1),
    st.integers(0, 20),
)
def test_what_is_left_of_a_log_is_found_in_it(
    iterations: list[tuple[int, int, bool]], between: int
) -> None:
    """Whatever is missing: each step is an iteration of its composition, in order, printed then."""
    codes, took, kept = (np.array(column) for column in zip(*iterations, strict=True))
    took = took.astype(np.int64) * MS
    begun = np.concatenate(([0], np.cumsum(took + between * MS)[:-1]))
    printed = (begun + took) // SECOND * SECOND
    which = np.flatnonzero(kept)
    found = scattered(codes[which], begun[which], codes, printed, took)
    assert (found >= 0).all()
    assert (np.diff(found) > 0).all()
    assert (codes[found] == codes[which]).all()
    assert (np.abs(printed[found] - begun[which]) <= 2 * SECOND).all()
