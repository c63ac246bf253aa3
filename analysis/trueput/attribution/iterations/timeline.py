"""When each iteration ended: bounds from the printed seconds, an estimate from client receipts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trueput.attribution.records import Floats, Ints, Steps

SECOND_NS = 10**9
PRINT_DELAY_NS = 300_000_000
"""A busy front end prints an iteration's line this late at most (153 ms was seen)."""


PAUSE_SIGMA_NS = 1e6
SPAN_SIGMA_NS = 0.5e6
RECEIPT_SIGMA_NS = 2e6
IDLE_SIGMA_NS = 5e9
HUBER_SIGMAS = 3.0
ROUNDS = 12
LEAST_SPAN_STEPS = 20
BLOCK_STEPS = 100
CHUNK_KNOTS = 4096
CHUNK_OVERLAP = 1024


@dataclass(frozen=True)
class Window:
    """Earliest and latest instant of each iteration's end, UTC ns."""

    end_low_ns: Ints
    end_high_ns: Ints
    overlapping: bool
    """Iterations overlap (async scheduling, pipelines): durations sum to more than the time."""


def printed_window(steps: Steps, *, ahead: bool = False) -> Window:
    """The instants that whole printed seconds and durations leave open.

    `ahead`: the engine schedules ahead of outputs, so that iterations overlap even where pauses in
    the load make up for it.
    """
    logged, elapsed = steps.logged_at_ns, steps.elapsed_ns
    low, high = logged - PRINT_DELAY_NS, logged + SECOND_NS
    if len(logged) == 0:
        return Window(low, high, overlapping=False)
    narrow = _narrowed(low, high, elapsed)
    # a stretch that lasted longer than its printed seconds, though pauses made up for it elsewhere
    overlapping = ahead or bool((narrow[0] > narrow[1]).any())
    low, high = _narrowed(low, high, np.zeros_like(elapsed)) if overlapping else narrow
    return Window(low, np.maximum(high, low), overlapping)


def _narrowed(low: Ints, high: Ints, elapsed: Ints) -> tuple[Ints, Ints]:
    """The bounds of each iteration's end, all earlier ones having taken `elapsed` one by one.

    In the time left after these each bound is monotone: a running extreme.
    """
    spent = np.cumsum(elapsed)
    return (
        np.maximum.accumulate(low - spent) + spent,
        np.minimum.accumulate((high - spent)[::-1])[::-1] + spent,
    )


def own_least(steps: Steps) -> Floats:
    """The share of each iteration's duration that was its own at least, of two in flight.

    It began while the one before was running, which takes no longer than its own duration. Nothing
    is known of one that follows a lost line.
    """
    own = np.zeros(len(steps.elapsed_ns))
    spare = np.maximum(np.diff(steps.elapsed_ns), 0)
    known = (np.diff(steps.step_ix) == 1) & (spare > 0)
    own[1:][known] = spare[known] / steps.elapsed_ns[1:][known]
    return own


@dataclass(frozen=True)
class Sightings:
    """What ties iterations to instants; index arrays point at iterations."""

    receipts: Sequence[tuple[Ints, Ints]]
    """Per stream: iterations that made its tokens, and when its client had them, UTC ns."""
    span_from: Ints
    span_to: Ints
    span_ns: Ints
    """From one iteration's end to another's, by the engine's own clock."""
    idle_before: NDArray[np.bool_]
    """For every iteration: nothing was running before it, so that time may have passed."""
    knots: Ints
    """Iterations whose instants are wanted most, ascending, distinct."""


def nothing_seen(steps: Steps) -> Sightings:
    """No receipts, no spans, and nothing known of idling."""
    none = np.zeros(0, dtype=np.int64)
    return Sightings([], none, none, none, np.ones(len(steps.step_ix), dtype=bool), none)


def dated_ends(steps: Steps, window: Window, seen: Sightings) -> Ints:
    """Best estimate of each iteration's end, UTC ns.

    A first estimate comes from client receipts, or from the middle of the printed window. Spans of
    the engine's clock and the usual time between iterations then correct what late deliveries
    spoil. Only differences of these instants are exact to milliseconds: a constant delay of
    delivery stays in.
    """
    first = _received_ends(steps, window, seen.receipts)
    if len(first) == 0 or window.overlapping:
        return first
    spent = np.cumsum(steps.elapsed_ns)
    between = _usual_pause(first - spent, spent, seen)
    if between is None:
        return first
    knots = np.unique(np.concatenate([seen.knots, [0, len(first) - 1]])).astype(np.int64)
    slack = np.empty(len(knots))
    for begin in range(0, len(knots), CHUNK_KNOTS - CHUNK_OVERLAP):
        chunk = slice(begin, min(begin + CHUNK_KNOTS, len(knots)))
        solved = _solve(knots[chunk], first, spent, window, seen, between)
        keep = CHUNK_OVERLAP // 2 if begin else 0
        slack[begin + keep : chunk.stop] = solved[keep:]
    slack = np.maximum.accumulate(slack)
    pause = np.interp(np.arange(len(first)), knots, slack)
    return np.asarray(np.rint(pause), dtype=np.int64) + int(first[0] - spent[0]) + spent


def _usual_pause(slack: Ints, spent: Ints, seen: Sightings) -> float | None:
    """ns between iterations while the engine is busy; None where nothing shows it."""
    idle = np.cumsum(seen.idle_before)
    a, b = seen.span_from, seen.span_to
    busy = (b - a >= LEAST_SPAN_STEPS) & (idle[b] == idle[a])
    if busy.any():
        pauses = (seen.span_ns - (spent[b] - spent[a]))[busy] / (b - a)[busy]
        return max(0.0, float(np.median(pauses)))
    if not seen.receipts:
        return None
    a = np.arange(0, len(slack) - BLOCK_STEPS, BLOCK_STEPS)
    b = a + BLOCK_STEPS
    a, b = a[idle[b] == idle[a]], b[idle[b] == idle[a]]
    if len(a) == 0:
        return None
    # late deliveries at a block's end raise its slope: the lower quartile is the cleaner
    return float(np.quantile((slack[b] - slack[a]) / BLOCK_STEPS, 0.25))


def _solve(
    knots: Ints, first: Ints, spent: Ints, window: Window, seen: Sightings, between: float
) -> Floats:
    """ns of time between iterations up to each knot, counted from the first iteration's end.

    Weighted least squares: increments as usual, spans as measured, receipts from above only.
    """
    from scipy.sparse import coo_matrix  # scipy is slow to load
    from scipy.sparse.linalg import spsolve

    n, zero = len(knots), int(first[0] - spent[0])
    seen_at = (first[knots] - spent[knots] - zero).astype(np.float64)
    if n == 1:
        return seen_at
    low = (window.end_low_ns[knots] - spent[knots] - zero).astype(np.float64)
    high = (window.end_high_ns[knots] - spent[knots] - zero).astype(np.float64)
    count = np.diff(knots)
    idle = np.cumsum(seen.idle_before)
    same = idle[knots[1:]] == idle[knots[:-1]]
    inside = np.isin(seen.span_from, knots) & np.isin(seen.span_to, knots)
    span_a = np.searchsorted(knots, seen.span_from[inside])
    span_b = np.searchsorted(knots, seen.span_to[inside])
    gained = spent[knots[span_b]] - spent[knots[span_a]]
    span_value = (seen.span_ns[inside] - gained).astype(np.float64)
    left = np.concatenate([np.arange(n - 1), span_a])
    right = np.concatenate([np.arange(1, n), span_b])
    value = np.concatenate([np.where(same, between * count, 0.0), span_value])
    sigma = np.concatenate(
        [np.where(same, PAUSE_SIGMA_NS * np.sqrt(count), IDLE_SIGMA_NS), _full(span_a)]
    )
    estimate = seen_at.copy()
    for _ in range(ROUNDS):
        misfit = np.abs(estimate[right] - estimate[left] - value) / sigma
        weight = 1 / sigma**2 / np.maximum(1.0, misfit / HUBER_SIGMAS)
        # no receipt comes early; how late it may be, nobody knows
        late = np.maximum(seen_at - estimate, 0.0) / RECEIPT_SIGMA_NS
        own = 1 / RECEIPT_SIGMA_NS**2 / (1 + late) ** 2 if seen.receipts else np.zeros(n)
        outside = (estimate < low) | (estimate > high)
        wall = np.where(outside, 1 / RECEIPT_SIGMA_NS**2, 1 / IDLE_SIGMA_NS**2)
        goal = np.where(outside, np.clip(estimate, low, high), seen_at)
        index = np.arange(n)
        matrix = coo_matrix(
            (
                np.concatenate([own + wall, weight, weight, -weight, -weight]),
                (
                    np.concatenate([index, left, right, left, right]),
                    np.concatenate([index, left, right, right, left]),
                ),
            ),
            shape=(n, n),
        ).tocsc()
        pull = own * seen_at + wall * goal
        np.add.at(pull, right, weight * value)
        np.add.at(pull, left, -weight * value)
        estimate = np.asarray(spsolve(matrix, pull), dtype=np.float64)
    return estimate


def _full(like: Ints) -> Floats:
    return np.full(len(like), SPAN_SIGMA_NS)


def _received_ends(steps: Steps, window: Window, receipts: Sequence[tuple[Ints, Ints]]) -> Ints:
    """Latest instant each iteration can have ended, from (iterations, client receipts) pairs.

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
