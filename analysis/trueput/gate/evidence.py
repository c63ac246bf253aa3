"""What the rules look at: effects of one candidate against the baseline, computed once.

A figure that any run of a side lacks is absent for that side: a mean over the runs that happen to
have it would hide the run that lost it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from trueput.gate import samples
from trueput.gate.answers import answers_effect
from trueput.gate.figures import Row, RunFigures
from trueput.gate.policy import Policy
from trueput.gate.rungs import Rung, per_device
from trueput.gate.samples import basis_of, bounded
from trueput.gate.statistics import (
    Effect,
    Noise,
    Sample,
    Scale,
    ratio_effect,
    share_effect,
)

GOODPUT = "goodput_rps"


@dataclass(frozen=True)
class Evidence:
    """One candidate against the baseline; every effect is ``None`` where it cannot be formed."""

    baseline: tuple[RunFigures, ...]
    candidate: tuple[RunFigures, ...]
    policy: Policy
    rungs: tuple[Rung, ...]
    _means: dict[str, Effect | None] = field(default_factory=dict, compare=False, repr=False)

    @property
    def noise(self) -> Noise:
        """The variation to reckon with."""
        return self.policy.noise

    @property
    def per_device(self) -> bool:
        """True where the number of devices differs, so that rates are taken per device."""
        return per_device(self.baseline, self.candidate)

    def limits(self, metric: str, effect: Effect | None) -> tuple[float, float]:
        """Return the least effect and the margin for a metric, its absolute floor included."""
        if effect is None:
            return self.policy.min_effect, self.policy.margin
        return self.policy.least(metric, effect), self.policy.slack(metric, effect)

    @cached_property
    def goodput(self) -> Effect | None:
        """Good requests per window-second; attainment in points where a run had none good."""
        effect = self.ratio(lambda run: samples.goodput(run, self.per_device, self.single))
        if effect is None and self._a_zero(GOODPUT):
            return self.attainment
        return effect

    @cached_property
    def attainment(self) -> Effect | None:
        """Good requests of the planned ones; in points where a run had (or may have) none good."""
        if self._a_zero("slo_attainment_ratio"):
            return self.attainment_points
        return self.ratio(lambda run: samples.attainment(run, self.single))

    @cached_property
    def attainment_points(self) -> Effect | None:
        """Good requests of the planned ones, in points, with the error of counting them."""
        return self.share(lambda run: bounded(run, "slo_attainment_ratio", run.count("planned")))

    @cached_property
    def few_good(self) -> bool:
        """True where a run has too few good requests for a ratio of goodput to show that it held.

        Unless the candidate has more of them, by more than the error of counting.
        """
        few = any(samples.few_good(run) for run in (*self.baseline, *self.candidate))
        points = self.attainment_points
        return few and not (points is not None and points.low > 0)

    @cached_property
    def lost(self) -> Effect | None:
        """Planned requests that did not end as asked, as a share of the planned ones."""
        return self.share(samples.lost_share)

    @cached_property
    def recomputed(self) -> Effect | None:
        """Recomputed tokens as a share of the scheduled ones."""
        return self.share(samples.recomputed_share)

    @cached_property
    def cache_hits(self) -> Effect | None:
        """Prompt tokens found in the prefix cache, as a share of those looked up."""
        return self.share(samples.hit_share)

    @cached_property
    def output_tokens(self) -> Effect | None:
        """Output tokens per window-second, of whatever request."""
        return self.ratio(lambda run: samples.output_tokens(run, self.per_device, self.single))

    @cached_property
    def answers(self) -> Effect | None:
        """Mean output tokens of the requests that ended as asked."""
        return answers_effect(self.baseline, self.candidate, self.noise)

    @cached_property
    def answers_with_lost(self) -> Effect | None:
        """The same, but that lost requests of the candidate would have got the fewest tokens."""
        return answers_effect(self.baseline, self.candidate, self.noise, lost_as_shortest=True)

    @property
    def answers_told(self) -> bool:
        """True where a run tells how long a complete answer is."""
        return any(
            len(run.sent_inside.known("output_tokens", run.sent_inside.survived))
            for run in (*self.baseline, *self.candidate)
        )

    @cached_property
    def ttft(self) -> Effect | None:
        """Median time to first token of the requests that ended as asked."""
        return self._median("ttft_ns", with_failures=False)

    @cached_property
    def e2e(self) -> Effect | None:
        """Median end-to-end time of the requests that ended as asked."""
        return self._median("e2e_ns", with_failures=False)

    @cached_property
    def completion(self) -> Effect | None:
        """Median end-to-end time of all that was sent; a lost request lasts for ever."""
        return self._median("e2e_ns", with_failures=True)

    def mean(self, metric: str) -> Effect | None:
        """Mean of a latency (`tpot_ns_mean`) over the requests that ended as asked."""
        if metric not in self._means:
            name = metric.removesuffix("_mean")
            self._means[metric] = self.ratio(lambda run: samples.mean(run, name, self.single))
        return self._means[metric]

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
            found = [sample for run in runs if (sample := read(run)) is not None]
            if not found or len(found) < len(runs):
                return None
            sides.append(found)
        return sides[0], sides[1]

    def _a_zero(self, column: str) -> bool:
        found = [bounded(run, column) for run in (*self.baseline, *self.candidate)]
        return all(found) and any(sample is not None and sample.low <= 0 for sample in found)

    def _median(self, name: str, *, with_failures: bool) -> Effect | None:
        return self.ratio(
            lambda run: samples.median(run, name, self.single, with_failures=with_failures)
        )


def goodput_points(effect: Effect) -> bool:
    """Tell whether goodput had to be judged by attainment in points, a run having none good."""
    return effect.scale is Scale.POINTS
