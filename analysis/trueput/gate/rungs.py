"""The ladder of GPU activity: each rung as a rate, compared with itself only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trueput.gate.figures import Row, RunFigures, number, text, whole
from trueput.gate.resampling import sum_log_sd
from trueput.gate.samples import basis_of, idle_room_ns, span_ns, unwatched_ns
from trueput.gate.statistics import ALPHA, Effect, Noise, Sample, ratio_effect

#: Rungs that hold time of the GPU itself, and how to say them.
GPU_TIME = {
    "kernel_union": "GPU time (kernel union)",
    "gpu_op_union": "GPU time (kernels, copies and memsets)",
}
#: A union that may be short by no more of itself is compared, with that much room.
MOST_SHORT = 0.01
#: Rungs that are summed over the engine's iterations.
_OF_ITERATIONS = ("engine_step", "scheduled_tokens")
_LABELS = {**GPU_TIME, "engine_step": "engine step time", "engine_active": "engine active time"}
#: Units that are levels already, so that devices are averaged and no rate is formed.
_LEVELS = ("ns", "ratio")


@dataclass(frozen=True)
class Rung:
    """One rung of GPU activity: its effect as a rate, or why there is none."""

    metric: str
    unit: str
    basis: str
    effect: Effect | None
    missing: str | None = None
    zero_everywhere: bool = False
    p_adjusted: float | None = None

    @property
    def label(self) -> str:
        """The rung in words; only a time rung of the GPU is called GPU time."""
        return _LABELS.get(self.metric, self.metric.replace("_", " "))

    def rose(self, min_effect: float) -> bool:
        """Tell whether the rise is shown, also after the adjustment for many rungs."""
        if self.effect is None or not self.effect.rose(min_effect):
            return False
        return self.p_adjusted is None or self.p_adjusted < ALPHA


def per_device(baseline: Sequence[RunFigures], candidate: Sequence[RunFigures]) -> bool:
    """Tell whether the sides have different, known numbers of devices."""
    counts = [{run.devices for run in side} for side in (baseline, candidate)]
    return None not in counts[0] | counts[1] and counts[0] != counts[1]


def rungs(
    baseline: Sequence[RunFigures], candidate: Sequence[RunFigures], noise: Noise
) -> tuple[Rung, ...]:
    """Return every rung of GPU activity that any run shows, compared where all runs show it."""
    everyone = (*baseline, *candidate)
    metrics = {text(row, "metric") for run in everyone for row in run.gpu_activity}
    if any(run.uncovered is not None for run in everyone):
        metrics |= set(_OF_ITERATIONS)
    single = min(len(baseline), len(candidate)) < 2
    each = per_device(baseline, candidate)
    return tuple(
        _rung(metric, baseline, candidate, noise, single, each)
        for metric in sorted(metric for metric in metrics if metric is not None)
    )


def _rung(
    metric: str,
    baseline: Sequence[RunFigures],
    candidate: Sequence[RunFigures],
    noise: Noise,
    single: bool,
    each: bool,
) -> Rung:
    rows = [row for run in (*baseline, *candidate) for row in _rows(run, metric)]
    unit = next((found for row in rows if (found := text(row, "unit"))), "")
    shown = "ratio" if unit == "ns" else unit if unit in ("ratio", "W", "") else f"{unit}/s"
    sides = [[rung_sample(run, metric, single, each) for run in s] for s in (baseline, candidate)]
    missing = [name for name, side in zip(("baseline", "candidate"), sides, strict=True)
               if None in side]  # fmt: skip
    basis = basis_of(rows)
    if missing:
        reason = f"not observed in every run of the {' and the '.join(missing)}"
        partly = [run for run in (*baseline, *candidate) if _partly(run, metric)]
        if partly:
            reason = f"the engine's record of {partly[0].run_id} does not cover its load"
            reason += f", nor do {len(partly) - 1} more" if partly[1:] else ""
        return Rung(metric, shown, basis, None, reason)
    floors = [
        name
        for name, side in zip(("baseline", "candidate"), (baseline, candidate), strict=True)
        if any(math.isinf(_short_ratio(run, metric)) for run in side)
    ]
    if floors:
        # a profile hid or lost more than a little, or is off the log's clock, or iterations overlap
        # and print time twice: neither a rise nor its absence can be shown
        reason = f"only bounded in a run of the {' and the '.join(floors)}"
        return Rung(metric, shown, basis, None, reason)
    samples = [[sample for sample in side if sample is not None] for side in sides]
    values = [sample.value for side in samples for sample in side]
    if 0 in values:
        return Rung(metric, shown, basis, None, "reads 0 in a run", not any(values))
    return Rung(metric, shown, basis, ratio_effect(samples[0], samples[1], noise))


def _partly(run: RunFigures, metric: str) -> bool:
    """Tell whether a rung is known of a part of the load only."""
    return metric in _OF_ITERATIONS and run.uncovered is not None


def _short_ratio(run: RunFigures, metric: str, otherwise: float = math.inf) -> float:
    """Return by how much of itself a run's time on a rung may be short.

    What a bounded union lacks ran where the ledger does not know the device to be idle, or when no
    profile watched it. `otherwise` where no ledger tells, or where it is too much to judge. A rung
    with a least and a most of its own is not short.
    """
    rows = _rows(run, metric)
    if not any(text(row, "basis") == "bounded" and _between(row) is None for row in rows):
        return 0.0
    told, room = math.fsum(number(row, "value") or 0.0 for row in rows), idle_room_ns(run)
    room = None if room is None else room + unwatched_ns(run)
    known = room is not None and room <= MOST_SHORT * told
    return room / told if room and known else 0.0 if known else otherwise


def _rows(run: RunFigures, metric: str) -> list[Row]:
    return [row for row in run.gpu_activity if text(row, "metric") == metric]


def rung_sample(run: RunFigures, metric: str, single: bool, each: bool) -> Sample | None:
    """Return one run's rate on a rung; ``single`` adds the variation inside the run.

    ``None`` where the run does not show it whole; ``each`` takes it per device.
    """
    if _partly(run, metric):
        return None
    rates = [_rate(row, run) for row in _rows(run, metric)]
    known = sorted(rate for rate in rates if rate is not None)
    if not known or len(known) < len(rates):
        return None
    level = any(text(row, "unit") in _LEVELS for row in _rows(run, metric))
    over = len(known) if level else (run.devices or 1) if each else 1
    series, window = run.series.get(metric), span_ns(run)
    within = None
    if single and series is not None and window is not None:
        within = sum_log_sd(series.offset_ns, series.amount, window)
    rate = math.fsum(known) / over
    low, high = (math.fsum(ends) / over for ends in zip(*_bounds(run, metric), strict=True))
    high = max(high, rate * (1 + _short_ratio(run, metric, 0.0)))
    return Sample(min(low, rate), high, rate, within)


def _bounds(run: RunFigures, metric: str) -> list[tuple[float, float]]:
    """Return what the rate of each row lies between; the rate itself where nothing bounds it."""
    found = []
    for row in _rows(run, metric):
        rate, value, ends = _rate(row, run) or 0.0, number(row, "value"), _between(row)
        scales = [end / value for end in ends] if ends is not None and value else [1.0, 1.0]
        found.append((rate * scales[0], rate * scales[1]))
    return found


def _between(row: Row) -> tuple[float, float] | None:
    """Return the least and the most of a bounded row, where both are known and it has some."""
    low, high = number(row, "value_low"), number(row, "value_high")
    if text(row, "basis") != "bounded" or not low or high is None:
        return None
    return low, high


def _rate(row: Row, run: RunFigures) -> float | None:
    """Return a rung per window-second; time as a share of the window, levels as they are."""
    rate, value, unit = number(row, "rate"), number(row, "value"), text(row, "unit")
    window = whole(row, "window_ns") or run.window_ns
    if unit in ("ratio", "W") and value is not None:
        return value
    if rate is not None or value is None or not window:
        return rate
    return value / window if unit == "ns" else value * 1e9 / window
