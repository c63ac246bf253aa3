"""What the rules look at: effects of one candidate against the baseline, computed once.

A figure that any run of a side lacks is absent for that side: a mean over the runs that happen to
have it would hide the run that lost it.
"""

from __future__ import annotations

import math
import statistics as middle
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from trueput.gate.figures import Request, Row, RunFigures, number
from trueput.gate.policy import Policy
from trueput.gate.resampling import median_log_sd, sum_log_sd
from trueput.gate.rungs import Rung, basis_of, per_device, span_ns
from trueput.gate.statistics import (
    Effect,
    Noise,
    Sample,
    Scale,
    ratio_effect,
    share_effect,
)


@dataclass(frozen=True)
class Evidence:
    """One candidate against the baseline; every effect is ``None`` where it cannot be formed."""

    baseline: tuple[RunFigures, ...]
    candidate: tuple[RunFigures, ...]
    policy: Policy
    rungs: tuple[Rung, ...]

    @property
    def noise(self) -> Noise:
        """The variation to reckon with."""
        return self.policy.noise

    @property
    def per_device(self) -> bool:
        """True where the number of devices differs, so that rates are taken per device."""
        return per_device(self.baseline, self.candidate)

    @cached_property
    def goodput(self) -> Effect | None:
        """Good requests per window-second; attainment in points where a run had none good."""
        effect = self.ratio(self._goodput_sample)
        if effect is None and self._a_zero("goodput_rps"):
            return self.attainment
        return effect

    @cached_property
    def attainment(self) -> Effect | None:
        """Good requests of the planned ones; in points where a run had (or may have) none good."""
        if self._a_zero("slo_attainment_ratio"):
            return self.share(
                lambda run: _bounded(run, "slo_attainment_ratio", run.count("planned"))
            )
        return self.ratio(self._attainment_sample)

    @cached_property
    def lost(self) -> Effect | None:
        """Planned requests that did not end as asked, as a share of the planned ones."""
        return self.share(lost_share)

    @cached_property
    def recomputed(self) -> Effect | None:
        """Recomputed tokens as a share of the scheduled ones."""
        return self.share(_recomputed_share)

    @cached_property
    def output_tokens(self) -> Effect | None:
        """Output tokens per window-second, of whatever request."""
        return self.ratio(self._token_sample)

    @cached_property
    def ttft(self) -> Effect | None:
        """Median time to first token of the requests that ended as asked."""
        return self.ratio(lambda run: self._median(run, lambda request: request.ttft_ns))

    @cached_property
    def e2e(self) -> Effect | None:
        """Median end-to-end time of the requests that ended as asked."""
        return self.ratio(lambda run: self._median(run, lambda request: request.e2e_ns))

    def ratio(self, read: Callable[[RunFigures], Sample | None]) -> Effect | None:
        """Compare a positive figure of every run by its mean log ratio."""
        sides = self._read(read)
        return None if sides is None else ratio_effect(*sides, self.noise)

    def share(self, read: Callable[[RunFigures], Sample | None]) -> Effect | None:
        """Compare a share of every run by its difference in points."""
        sides = self._read(read)
        return None if sides is None else share_effect(*sides, self.noise)

    def one_sided(self, read: Callable[[RunFigures], object]) -> bool:
        """Tell whether a figure exists somewhere, but not in every run."""
        found = [read(run) is not None for run in (*self.baseline, *self.candidate)]
        return any(found) and not all(found)

    def basis(self, read: Callable[[RunFigures], Row | None]) -> str:
        """Return what the figures rest on, over all runs."""
        return basis_of([read(run) for run in (*self.baseline, *self.candidate)])

    @property
    def single(self) -> bool:
        """True where one side has one run, so that variation inside a run is needed."""
        return min(len(self.baseline), len(self.candidate)) < 2

    def _read(
        self, read: Callable[[RunFigures], Sample | None]
    ) -> tuple[list[Sample], list[Sample]] | None:
        sides: list[list[Sample]] = []
        for runs in (self.baseline, self.candidate):
            samples = [sample for run in runs if (sample := read(run)) is not None]
            if not samples or len(samples) < len(runs):
                return None
            sides.append(samples)
        return sides[0], sides[1]

    def _a_zero(self, column: str) -> bool:
        samples = [_bounded(run, column) for run in (*self.baseline, *self.candidate)]
        return all(samples) and any(sample is not None and sample.low <= 0 for sample in samples)

    def _goodput_sample(self, run: RunFigures) -> Sample | None:
        sample = _bounded(run, "goodput_rps")
        if sample is None:
            return None
        over = float(run.devices or 1) if self.per_device else 1.0
        within = self._within(run, lambda request: float(request.outcome == "good"))
        return Sample(sample.low / over, sample.high / over, sample.value / over, within)

    def _attainment_sample(self, run: RunFigures) -> Sample | None:
        sample = _bounded(run, "slo_attainment_ratio")
        sent = [request for request in run.requests if request.sent_ns is not None]
        window = span_ns(run)
        if sample is None or not self.single or not sent or window is None:
            return sample
        good = [float(request.outcome == "good") for request in sent]
        offsets = [request.sent_ns or 0 for request in sent]
        return replace(sample, within_sd=sum_log_sd(offsets, good, window, [1.0] * len(good)))

    def _token_sample(self, run: RunFigures) -> Sample | None:
        value = number(run.goodput, "output_tokens_per_s")
        if value is None:
            return None
        over = float(run.devices or 1) if self.per_device else 1.0
        within = self._within(run, lambda request: float(request.output_tokens or 0))
        return Sample.exact(value / over, within)

    def _within(self, run: RunFigures, amount: Callable[[Request], float]) -> float | None:
        ended = [request for request in run.requests if request.end_ns is not None]
        window = span_ns(run)
        if not self.single or not ended or window is None:
            return None
        offsets = [request.end_ns or 0 for request in ended]
        return sum_log_sd(offsets, [amount(request) for request in ended], window)

    def _median(self, run: RunFigures, read: Callable[[Request], int | None]) -> Sample | None:
        survivors = [
            (request.sent_ns or 0, float(value))
            for request in run.requests
            if request.survived and (value := read(request)) is not None
        ]
        if not survivors:
            return None
        median = middle.median([latency for _, latency in survivors])
        window = span_ns(run)
        if not self.single or window is None:
            return Sample.exact(median)
        offsets, latencies = zip(*survivors, strict=True)
        return Sample.exact(median, median_log_sd(offsets, latencies, window))


def _bounded(run: RunFigures, column: str, trials: int | None = None) -> Sample | None:
    """Return a goodput column with its bounds; their middle where only they are known."""
    value = number(run.goodput, column)
    low, high = number(run.goodput, f"{column}_low"), number(run.goodput, f"{column}_high")
    if value is None:
        if low is None or high is None:
            return None
        value = math.sqrt(low * high) if low > 0 else (low + high) / 2
    low, high = (value if bound is None else bound for bound in (low, high))
    return Sample(min(low, value), max(high, value), value, trials=trials)


def lost_share(run: RunFigures) -> Sample | None:
    """Return planned requests that did not end as asked, as a share; needs the planned count."""
    planned, complete = run.count("planned"), run.count("complete")
    if complete is None:
        good, late = run.count("good"), run.count("late")
        complete = None if good is None or late is None else good + late
    if not planned or complete is None:
        return None
    return Sample.exact(min(max(1 - complete / planned, 0.0), 1.0), trials=planned)


def _recomputed_share(run: RunFigures) -> Sample | None:
    row = run.recompute
    scheduled = number(row, "scheduled_tokens")
    tokens = number(row, "recomputed_tokens")
    share = number(row, "recomputed_ratio")
    if share is None and tokens is not None and scheduled:
        share = tokens / scheduled
    low, high = number(row, "recomputed_tokens_low"), number(row, "recomputed_tokens_high")
    bounds = None if low is None or high is None or not scheduled else (
        low / scheduled, high / scheduled)  # fmt: skip
    if share is None:
        return None if bounds is None else Sample(*bounds, sum(bounds) / 2)
    if bounds is None or low == high:
        return Sample.exact(share)
    return Sample(min(bounds[0], share), max(bounds[1], share), share)


def goodput_points(effect: Effect) -> bool:
    """Tell whether goodput had to be judged by attainment in points, a run having none good."""
    return effect.scale is Scale.POINTS
