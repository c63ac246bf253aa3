"""When each iteration ended: bounds from the printed seconds, an estimate from client receipts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trueput.attribution.records import Ints, Steps

SECOND_NS = 10**9
PRINT_DELAY_NS = 300_000_000
"""A busy front end prints an iteration's line this late at most (153 ms was seen)."""


@dataclass(frozen=True)
class Window:
    """Earliest and latest instant of each iteration's end, UTC ns."""

    end_low_ns: Ints
    end_high_ns: Ints
    overlapping: bool
    """Iterations overlap (async scheduling, pipelines): durations sum to more than the time."""


def printed_window(steps: Steps) -> Window:
    """The instants that whole printed seconds and durations leave open."""
    logged, elapsed = steps.logged_at_ns, steps.elapsed_ns
    low, high = logged - PRINT_DELAY_NS, logged + SECOND_NS
    if len(logged) == 0:
        return Window(low, high, overlapping=False)
    wall = int(logged[-1] - logged[0]) + SECOND_NS
    overlapping = int(elapsed[1:].sum()) > wall + PRINT_DELAY_NS
    before = np.zeros_like(elapsed) if overlapping else elapsed
    # in the time left after all earlier durations each bound is monotone: a running extreme
    spent = np.cumsum(before)
    low = np.maximum.accumulate(low - spent) + spent
    high = np.minimum.accumulate((high - spent)[::-1])[::-1] + spent
    return Window(low, np.maximum(high, low), overlapping)


def received_ends(steps: Steps, window: Window, receipts: Sequence[tuple[Ints, Ints]]) -> Ints:
    """Best estimate of each iteration's end, UTC ns, from (iterations, client receipts) pairs.

    A token cannot arrive before its iteration ended, and delivery only ever adds delay: the
    earliest receipt over the streams is the closest, and what came after bounds it from above.
    Without receipts the middle of the printed window, monotone, is what is left.
    """
    n = len(steps.elapsed_ns)
    high = np.full(n, np.iinfo(np.int64).max // 4, dtype=np.int64)
    for index, at in receipts:
        if len(index):
            np.minimum.at(high, index, at)
    spent = np.cumsum(np.zeros(n, np.int64) if window.overlapping else steps.elapsed_ns)
    seen = high < np.iinfo(np.int64).max // 4
    if not seen.any():
        middle = (window.end_low_ns + window.end_high_ns) // 2
        return np.maximum.accumulate(middle - spent) + spent
    # an iteration nobody received from still ended before the next one began
    high = np.minimum(high, window.end_high_ns + PRINT_DELAY_NS)
    return np.minimum.accumulate((high - spent)[::-1])[::-1] + spent
