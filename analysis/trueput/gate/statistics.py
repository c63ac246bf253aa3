"""Intervals for the difference between two configurations, with the run as the unit.

Ratios are compared by the mean difference of logs, shares by their difference in points.
Two or more runs on each side: t interval, pooled variance with a floor. One run on a side:
the variation inside the run together with an assumed variation between runs, normal interval.
All bounds are one-sided 95 % in each direction. The distributions are scipy's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache

from trueput.gate.resampling import between_runs

CONFIDENCE = 0.95
ALPHA = 1 - CONFIDENCE
MOST_REPEATS = 100


@dataclass(frozen=True)
class Noise:
    """How much runs differ by chance: sds of a log (about relative sds)."""

    floor_log_sd: float = 0.02
    run_log_sd: float = 0.10


@dataclass(frozen=True)
class Sample:
    """One run's value; ``low`` and ``high`` where it is only bounded.

    ``within_sd`` is the sd of its log inside the run; ``trials`` the number of requests that a
    share is a share of (``None`` for shares of tokens or time).
    """

    low: float
    high: float
    value: float
    within_sd: float | None = None
    trials: int | None = None

    @classmethod
    def exact(
        cls, value: float, within_sd: float | None = None, trials: int | None = None
    ) -> Sample:
        """Return a value that is its own low and high."""
        return cls(value, value, value, within_sd, trials)


class Scale(Enum):
    """What a limit of 5 % means: a twentieth of the baseline, or five points of a share."""

    RATIO = "ratio"
    POINTS = "points"


@dataclass(frozen=True)
class Effect:
    """Candidate against baseline: estimate and bounds, as a ratio or as a difference of shares.

    ``centre``, ``centre_low``, ``centre_high`` and ``se`` are on the scale of the arithmetic (logs
    for ratios). ``run_sd`` is the sd of one run used there, ``degrees`` None for the normal.
    """

    scale: Scale
    baseline: float
    candidate: float
    centre: float
    centre_low: float
    centre_high: float
    se: float
    degrees: int | None
    run_sd: float
    method: str
    assumed_noise: bool = False

    @property
    def estimate(self) -> float:
        """Ratio, or difference of shares."""
        return self._shown(self.centre)

    @property
    def low(self) -> float:
        """One-sided 95 % lower bound of the estimate."""
        return self._shown(self.centre_low - self._reach())

    @property
    def high(self) -> float:
        """One-sided 95 % upper bound of the estimate."""
        return self._shown(self.centre_high + self._reach())

    def rose(self, min_effect: float) -> bool:
        """Tell whether a rise by more than ``min_effect`` is shown."""
        return self.low > self.none + min_effect

    def fell(self, min_effect: float) -> bool:
        """Tell whether a fall by more than ``min_effect`` is shown."""
        return self.high < self.none - min_effect

    def did_not_rise(self, margin: float) -> bool:
        """Tell whether a rise by ``margin`` or more is ruled out."""
        return self.high < self.none + margin

    def did_not_fall(self, min_effect: float) -> bool:
        """Tell whether a fall by ``min_effect`` or more is ruled out."""
        return self.low > self.none - min_effect

    def p_rose(self, min_effect: float) -> float:
        """Return the one-sided p value of "it did not rise by more than ``min_effect``"."""
        gap = self.centre_low - self._arithmetic(self.none + min_effect)
        if self.se == 0:
            return 0.0 if gap > 0 else 1.0
        from scipy import special

        below = -gap / self.se
        if self.degrees is None:
            return float(special.ndtr(below))
        return float(special.stdtr(self.degrees, below))

    def repeats_to_settle(self, limit: float) -> int | None:
        """Return how many runs on each side would tell the estimate from ``limit``.

        An estimate: it takes today's effect and today's variation between runs to stay as they
        are. ``None`` above 100 runs, or where the bounds of the figures themselves straddle it.
        """
        goal = self._arithmetic(limit)
        gap = self.centre_low - goal if self.centre_low > goal else goal - self.centre_high
        if gap <= 0 or math.isnan(gap):
            return None
        for runs in range(2, MOST_REPEATS + 1):
            if _quantile(2 * runs - 2) * self.run_sd * math.sqrt(2 / runs) < gap:
                return runs
        return None

    @property
    def none(self) -> float:
        """The estimate where nothing changed: 1 as a ratio, 0 in points."""
        return 1.0 if self.scale is Scale.RATIO else 0.0

    def _reach(self) -> float:
        return 0.0 if self.se == 0 else _quantile(self.degrees) * self.se

    def _shown(self, number: float) -> float:
        if self.scale is Scale.POINTS:
            return number
        return math.exp(number) if number < 700 else math.inf

    def _arithmetic(self, shown: float) -> float:
        if self.scale is Scale.POINTS:
            return shown
        return math.log(shown) if shown > 0 else -math.inf


def ratio_effect(
    baseline: Sequence[Sample], candidate: Sequence[Sample], noise: Noise
) -> Effect | None:
    """Compare positive values by their mean log ratio; ``None`` where a value is not positive."""
    if not baseline or not candidate:
        return None
    if min(sample.low for sample in (*baseline, *candidate)) <= 0:
        return None
    logs_b, logs_c = _sorted_logs(baseline), _sorted_logs(candidate)
    repeated = len(baseline) > 1 and len(candidate) > 1
    if repeated:
        run_sd = max(math.sqrt(_pooled(logs_b, logs_c)), noise.floor_log_sd)
        se = run_sd * math.sqrt(1 / len(logs_b) + 1 / len(logs_c))
        degrees: int | None = len(logs_b) + len(logs_c) - 2
        method = f"t interval on the mean log ratio, sd of one run {run_sd:.3f}"
        method += between_runs(logs_b, logs_c, math.exp)
    else:
        spread = [_single_variance(baseline, noise), _single_variance(candidate, noise)]
        run_sd = max(math.sqrt(sum(spread) / 2), noise.floor_log_sd)
        se = math.sqrt(spread[0] / len(baseline) + spread[1] / len(candidate))
        degrees, method = None, _single_method((*baseline, *candidate), noise)
    low_b, low_c = _mean_log(baseline, "low"), _mean_log(candidate, "low")
    high_b, high_c = _mean_log(baseline, "high"), _mean_log(candidate, "high")
    mean_b, mean_c = _mean(logs_b), _mean(logs_c)
    return Effect(
        scale=Scale.RATIO,
        baseline=math.exp(mean_b),
        candidate=math.exp(mean_c),
        centre=mean_c - mean_b,
        centre_low=low_c - high_b,
        centre_high=high_c - low_b,
        se=se,
        degrees=degrees,
        run_sd=run_sd,
        method=method,
        assumed_noise=not repeated,
    )


def share_effect(
    baseline: Sequence[Sample], candidate: Sequence[Sample], noise: Noise
) -> Effect | None:
    """Compare shares (0..1) by their difference in points."""
    if not baseline or not candidate:
        return None
    shares_b = sorted(sample.value for sample in baseline)
    shares_c = sorted(sample.value for sample in candidate)
    repeated = len(baseline) > 1 and len(candidate) > 1
    assumed = 0.0 if repeated else noise.run_log_sd
    floor_b = _mean(sorted(_share_variance(sample, noise, assumed) for sample in baseline))
    floor_c = _mean(sorted(_share_variance(sample, noise, assumed) for sample in candidate))
    if repeated:
        pooled = _pooled(shares_b, shares_c)
        spread = [max(pooled, floor_b), max(pooled, floor_c)]
        degrees: int | None = len(shares_b) + len(shares_c) - 2
        method = f"t interval on the difference of shares, sd of one run {_root(spread):.4f}"
        method += between_runs(shares_b, shares_c, lambda share: share)
    else:
        spread = [max(_variance(shares_b), floor_b), max(_variance(shares_c), floor_c)]
        degrees = None
        method = f"difference of shares, assumed run-to-run variation {noise.run_log_sd:g}"
    return Effect(
        scale=Scale.POINTS,
        baseline=_mean(shares_b),
        candidate=_mean(shares_c),
        centre=_mean(shares_c) - _mean(shares_b),
        centre_low=_mean_of(candidate, "low") - _mean_of(baseline, "high"),
        centre_high=_mean_of(candidate, "high") - _mean_of(baseline, "low"),
        se=math.sqrt(spread[0] / len(shares_b) + spread[1] / len(shares_c)),
        degrees=degrees,
        run_sd=_root(spread),
        method=method,
        assumed_noise=not repeated,
    )


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Return Benjamini-Hochberg adjusted p values, in the order given.

    What `scipy.stats.false_discovery_control` gives; loading scipy.stats takes longer than a gate.
    """
    count = len(p_values)
    least = 1.0
    found = [least] * count
    by_size = sorted(range(count), key=lambda at: p_values[at], reverse=True)
    for place, at in enumerate(by_size):
        least = min(least, p_values[at] * count / (count - place))
        found[at] = least
    return found


@cache
def _quantile(degrees: int | None) -> float:
    from scipy import special

    if degrees is None:
        return float(special.ndtri(CONFIDENCE))
    return float(special.stdtrit(degrees, CONFIDENCE))


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)


def _variance(numbers: Sequence[float]) -> float:
    if len(numbers) < 2:
        return 0.0
    middle = _mean(numbers)
    return math.fsum((number - middle) ** 2 for number in numbers) / (len(numbers) - 1)


def _pooled(one: Sequence[float], other: Sequence[float]) -> float:
    weighted = (len(one) - 1) * _variance(one) + (len(other) - 1) * _variance(other)
    return weighted / (len(one) + len(other) - 2)


def _root(variances: Sequence[float]) -> float:
    return math.sqrt(_mean(variances))


def _sorted_logs(samples: Sequence[Sample]) -> list[float]:
    return sorted(math.log(sample.value) for sample in samples)


def _mean_of(samples: Sequence[Sample], bound: str) -> float:
    return _mean(sorted(float(getattr(sample, bound)) for sample in samples))


def _mean_log(samples: Sequence[Sample], bound: str) -> float:
    return _mean(sorted(math.log(float(getattr(sample, bound))) for sample in samples))


def _single_variance(samples: Sequence[Sample], noise: Noise) -> float:
    """Variance of one run's log: inside the run, and between runs (assumed, or seen if larger)."""
    within = _mean(sorted((sample.within_sd or 0.0) ** 2 for sample in samples))
    return max(noise.run_log_sd**2, _variance(_sorted_logs(samples))) + within


def _single_method(samples: Sequence[Sample], noise: Noise) -> str:
    assumed = f"assumed run-to-run variation {noise.run_log_sd:g}"
    if any(sample.within_sd is None for sample in samples):
        return f"{assumed} alone, no variation inside the run is known"
    return f"circular block bootstrap inside each run, with {assumed}"


def _share_variance(sample: Sample, noise: Noise, assumed: float) -> float:
    if sample.trials is None:
        own = (noise.floor_log_sd * sample.value) ** 2
    elif sample.trials == 0:
        own = 0.25
    else:
        smoothed = (sample.value * sample.trials + 0.5) / (sample.trials + 1)
        own = smoothed * (1 - smoothed) / sample.trials
    return own + (assumed * sample.value) ** 2
