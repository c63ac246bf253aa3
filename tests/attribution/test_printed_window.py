"""Between which instants iterations ended: whole printed seconds, durations that may overlap."""

from __future__ import annotations

import numpy as np
import pytest

from trueput.attribution.iterations.timeline import PRINT_DELAY_NS, printed_window
from trueput.attribution.records import Ints, Steps

MS = 1_000_000
S = 1000 * MS


def printed(ends: Ints, elapsed: Ints) -> Steps:
    """Iterations that ended at these instants, as their lines say."""
    nothing: Ints = np.zeros(ends.size, np.int64)
    return Steps(
        "000", 0, np.arange(ends.size), ends // S * S, elapsed, nothing, nothing, nothing, nothing,
        np.full(ends.size, np.nan),
    )  # fmt: skip


def times(busy: int, pause_ns: int) -> Ints:
    """Ends of iterations: some 100 ms apart, a pause, and as many again."""
    first = 7 * S + 50 * MS + 100 * MS * np.arange(1, busy + 1)
    return np.concatenate([first, first + first[-1] - first[0] + pause_ns])


def test_iterations_one_after_another_are_dated_to_less_than_their_second() -> None:
    ends = times(30, 20 * S)
    window = printed_window(printed(ends, np.full(ends.size, 98 * MS)))
    assert not window.overlapping
    assert (window.end_low_ns <= ends).all()
    assert (ends <= window.end_high_ns).all()
    assert (window.end_high_ns - window.end_low_ns)[:20].max() < 0.7 * S


@pytest.mark.parametrize("pause_ns", [100 * MS, 20 * S])
def test_iterations_that_overlap_are_seen_whatever_the_pauses_between_them(pause_ns: int) -> None:
    """Each was launched while the one before ran; a pause may be longer than all overlaps."""
    ends = times(30, pause_ns)
    elapsed = np.full(ends.size, 198 * MS)
    assert (int(elapsed.sum()) < ends[-1] - ends[0]) == (pause_ns > S)
    window = printed_window(printed(ends, elapsed))
    assert window.overlapping
    assert (window.end_low_ns <= ends).all()
    assert (ends <= window.end_high_ns).all()


def test_a_line_that_is_printed_late_is_not_an_overlap() -> None:
    ends = times(30, 20 * S)
    steps = printed(ends, np.full(ends.size, 98 * MS))
    late = steps.logged_at_ns.copy()
    late[8] = (ends[8] + PRINT_DELAY_NS - MS) // S * S
    assert late[8] > steps.logged_at_ns[8]
    window = printed_window(
        Steps("000", 0, steps.step_ix, late, *(getattr(steps, n) for n in (
            "elapsed_ns", "context_requests", "context_tokens", "generation_requests",
            "generation_tokens", "kv_used_ratio")))
    )  # fmt: skip
    assert not window.overlapping
    assert (window.end_low_ns <= ends).all()
