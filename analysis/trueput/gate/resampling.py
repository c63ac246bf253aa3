"""Seeded resampling: inside one run (circular block bootstrap), and between many runs.

Blocks are a tenth of the window, so that requests which shared a queue are drawn together.
This says how much one run wobbled, not how much the next run would differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values: TypeAlias = Sequence[int] | Sequence[float] | NDArray[np.float64]

BLOCKS = 10
RESAMPLES = 2000
SEED = 20_240_113
#: Elements that a median bootstrap holds at once; past it, it also draws fewer resamples.
_MEDIAN_BUDGET = 4_000_000
_FEWEST_RESAMPLES = 100
_FEWEST_RUNS = 5
_SHUFFLES = 9999


def sum_log_sd(
    offsets_ns: Values,
    amounts: Values,
    window_ns: int,
    totals: Values | None = None,
) -> float | None:
    """Return the sd of the log of a resampled sum (over ``totals``: of a resampled share).

    ``None`` when nothing positive lies in the window, so that a log does not exist.
    """
    import numpy as np

    order, position = _inside(offsets_ns, window_ns)
    amount = np.asarray(amounts, dtype=float)[order]
    if window_ns <= 0 or not (amount > 0).any():
        return None
    position, amount, weight = _tie_break(position, amount, totals, order)
    starts = np.random.default_rng(SEED).random((RESAMPLES, BLOCKS))
    drawn = _block_sums(position, amount, starts)
    # A resample that drew nothing stands for less than the smallest amount seen.
    drawn = np.maximum(drawn, amount[amount > 0].min() / 2)
    if weight is not None:
        base = _block_sums(position, weight, starts)
        drawn, base = drawn[base > 0], base[base > 0]
        if len(base) < _FEWEST_RESAMPLES:
            return None
        drawn = drawn / base
    return float(np.log(drawn).std(ddof=1))


def median_log_sd(offsets_ns: Values, values: Values, window_ns: int) -> float | None:
    """Return the sd of the log of a resampled median; ``None`` below two positive values."""
    import numpy as np

    order, position = _inside(offsets_ns, window_ns)
    value = np.asarray(values, dtype=float)[order]
    if window_ns <= 0 or len(value) < 2 or (value <= 0).any():
        return None
    by = np.lexsort((value, position))
    position, value = position[by], value[by]
    resamples = max(_FEWEST_RESAMPLES, min(RESAMPLES, _MEDIAN_BUDGET // len(value)))
    starts = np.random.default_rng(SEED).random((resamples, BLOCKS))
    at_once = max(1, _MEDIAN_BUDGET // len(value))
    chunks = (starts[row : row + at_once] for row in range(0, resamples, at_once))
    medians = np.concatenate([_block_medians(position, value, chunk) for chunk in chunks])
    return float(np.log(medians).std(ddof=1)) if len(medians) > 1 else None


def _block_medians(
    position: NDArray[np.float64], value: NDArray[np.float64], starts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the (lower) median of each resample that drew anything."""
    import numpy as np

    count, resamples = len(value), len(starts)
    round_twice = np.concatenate([position, position + 1])
    change = np.zeros((resamples, 2 * count + 1), dtype=np.int32)
    rows = np.repeat(np.arange(resamples), BLOCKS)
    np.add.at(change, (rows, np.searchsorted(round_twice, starts).ravel()), 1)
    np.add.at(change, (rows, np.searchsorted(round_twice, starts + 1 / BLOCKS).ravel()), -1)
    drawn = np.cumsum(change[:, :-1], axis=1)
    times = (drawn[:, :count] + drawn[:, count:])[:, np.argsort(value, kind="stable")]
    reached = np.cumsum(times, axis=1)
    total = reached[:, -1]
    place = (2 * reached >= total[:, None]).argmax(axis=1)
    medians: NDArray[np.float64] = np.sort(value)[place][total > 0]
    return medians


def between_runs(
    baseline: Sequence[float], candidate: Sequence[float], shown: Callable[[float], float]
) -> str:
    """Say what resampling of whole runs finds, from five a side on; it decides nothing."""
    if min(len(baseline), len(candidate)) < _FEWEST_RUNS:
        return ""
    import numpy as np
    from scipy import stats

    def difference(
        one: NDArray[np.float64], other: NDArray[np.float64], axis: int = -1
    ) -> NDArray[np.float64]:
        moved: NDArray[np.float64] = np.asarray(other.mean(axis=axis) - one.mean(axis=axis))
        return moved

    both = (np.array(baseline, dtype=np.float64), np.array(candidate, dtype=np.float64))
    shuffled = stats.permutation_test(
        both, difference, vectorized=True, n_resamples=_SHUFFLES, rng=np.random.default_rng(SEED)
    )
    found = f"; permutation p {float(shuffled.pvalue):.4f}"
    if len({*baseline}) == 1 and len({*candidate}) == 1:
        return found
    drawn = stats.bootstrap(
        both,
        difference,
        vectorized=True,
        n_resamples=_SHUFFLES,
        confidence_level=0.90,
        method="percentile",
        rng=np.random.default_rng(SEED),
    )
    low, high = drawn.confidence_interval
    return f"{found}; bootstrap {shown(float(low)):.3f} to {shown(float(high)):.3f}"


def _inside(offsets_ns: Values, window_ns: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return which offsets lie in the window, and their place in it as a share of it."""
    import numpy as np

    offset = np.asarray(offsets_ns, dtype=float)
    kept = np.flatnonzero((offset >= 0) & (offset <= window_ns))
    # The last instant of a circular window is its first.
    return kept, (offset[kept] / max(window_ns, 1)) % 1.0


def _tie_break(
    position: NDArray[np.float64],
    amount: NDArray[np.float64],
    totals: Values | None,
    order: NDArray[np.intp],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | None]:
    """Sort by place, then by amount, so that the order of rows cannot change a digit."""
    import numpy as np

    weight = None if totals is None else np.asarray(totals, dtype=float)[order]
    keys = (amount, position) if weight is None else (weight, amount, position)
    by = np.lexsort(keys)
    return position[by], amount[by], None if weight is None else weight[by]


def _block_sums(
    position: NDArray[np.float64], amount: NDArray[np.float64], starts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return, for each resample, the sum over its blocks, wrapping round the window's end."""
    import numpy as np

    running = np.concatenate([[0.0], np.cumsum(amount)])
    ends = starts + 1 / BLOCKS
    wrapped = np.where(ends > 1, running[np.searchsorted(position, ends - 1)], 0.0)
    inside = running[np.searchsorted(position, ends)] - running[np.searchsorted(position, starts)]
    sums: NDArray[np.float64] = (inside + wrapped).sum(axis=1)
    return sums
