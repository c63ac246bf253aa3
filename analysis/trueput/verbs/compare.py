"""compare: configurations side by side, with differences, intervals and comparability."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from trueput.errors import UsageError
from trueput.gate import samples
from trueput.gate.comparability import compare_sides
from trueput.gate.figures import RunFigures, number
from trueput.gate.loads import Difference
from trueput.gate.measurements import distinct, reused, same_runs
from trueput.gate.outside_window import beyond_notes
from trueput.gate.percentiles import percentile, too_few
from trueput.gate.policy import Note
from trueput.gate.render.amounts import MEANS_TEXT
from trueput.gate.rungs import rung_sample
from trueput.gate.statistics import Effect, Noise, Sample, Scale, ratio_effect, share_effect
from trueput.verbs.base_side import base_side
from trueput.verbs.figures import figures
from trueput.verbs.opening import Configuration, Reading, configuration

ARITHMETIC, GEOMETRIC = "arithmetic", "geometric"
"""What a figure of several runs is the mean by."""


@dataclass(frozen=True)
class Metric:
    """One line of a comparison: its name, unit, how to read it, and whether it has bounds.

    `sampled` gives the figure as the gate judges it, with its own bounds and, of one run on a side,
    with the variation inside the run. A percentile of too few requests is shown without bounds, and
    so is what a load plans: no chance is in it. `by_difference`: compared by its difference, as the
    gate does with what may be none.
    """

    name: str
    unit: str
    read: Callable[[RunFigures], float | None]
    judged: Callable[[Sequence[RunFigures]], bool] = lambda _: True
    sampled: Callable[[RunFigures, bool], Sample | None] = lambda _run, _single: None
    by_difference: bool = False


@dataclass(frozen=True)
class Line:
    """One metric of one candidate against the baseline; bounds are one-sided 95 % each.

    Over repeats a figure is their geometric mean where the ratio has bounds, else the arithmetic
    one; `mean` says which. The ratio is that of the two figures. `difference_low` and
    `difference_high` bound candidate - baseline, in the metric's unit, of what is so compared.
    """

    metric: str
    unit: str
    baseline: float | None
    candidate: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    mean: str = ARITHMETIC
    difference_low: float | None = None
    difference_high: float | None = None


@dataclass(frozen=True)
class Comparison:
    """One candidate configuration beside the baseline.

    Runs of one measurement on a side count once; `notes` say which, and which are on both sides.
    """

    baseline: Configuration
    candidate: Configuration
    lines: tuple[Line, ...]
    differences: tuple[Difference, ...]
    method: str
    notes: tuple[Note, ...] = ()


def _goodput(column: str) -> Callable[[RunFigures], float | None]:
    return lambda run: number(run.goodput, column)


def _latency(metric: str, name: str, share: float, *, with_failures: bool = False) -> Metric:
    return Metric(
        metric,
        "ns",
        lambda run: percentile(run, name, share, with_failures),
        lambda runs: not too_few(runs, name, share, with_failures),
        (lambda run, single: samples.median(run, name, single, with_failures=with_failures))
        if share == 0.5
        else (lambda _run, _single: None),
    )


def _rate(
    column: str, sampled: Callable[[RunFigures, bool], Sample | None], unit: str = "1/s"
) -> Metric:
    return Metric(column, unit, _goodput(column), sampled=sampled)


def _rung(metric: str, unit: str) -> Metric:
    return Metric(
        metric,
        unit,
        _activity(metric),
        sampled=lambda run, single: rung_sample(run, metric, single, each=False),
    )


def _activity(metric: str) -> Callable[[RunFigures], float | None]:
    def read(run: RunFigures) -> float | None:
        rates = [number(r, "rate") for r in run.gpu_activity if r.get("metric") == metric]
        known = [r for r in rates if r is not None]
        return sum(known) / len(known) if known else None

    return read


METRICS = (
    _rate("goodput_rps", lambda run, single: samples.goodput(run, per_device=False, single=single)),
    _rate("slo_attainment_ratio", samples.attainment, "ratio"),
    Metric("planned_requests", "count", _goodput("planned_requests"), lambda _: False),
    Metric("complete_requests", "count", _goodput("complete_requests")),
    _rate("request_throughput_rps", samples.throughput),
    _rate(
        "output_tokens_per_s",
        lambda run, single: samples.output_tokens(run, per_device=False, single=single),
    ),
    _rate("good_output_tokens_per_s", samples.good_output_tokens),
    _latency("ttft_p50", "ttft_ns", 0.5),
    _latency("ttft_p99", "ttft_ns", 0.99),
    _latency("ttft_p99_failures_inf", "ttft_ns", 0.99, with_failures=True),
    _latency("tpot_p50", "tpot_ns", 0.5),
    _latency("tpot_p99", "tpot_ns", 0.99),
    _latency("e2e_p50", "e2e_ns", 0.5),
    _latency("e2e_p99", "e2e_ns", 0.99),
    _latency("e2e_p99_failures_inf", "e2e_ns", 0.99, with_failures=True),
    _rung("engine_step", "per window"),
    _rung("scheduled_tokens", "1/s"),
    Metric(
        "preemptions",
        "count",
        lambda run: number(run.recompute, "preemptions"),
        by_difference=True,
    ),
    Metric(
        "recomputed_ratio",
        "ratio",
        lambda run: number(run.recompute, "recomputed_ratio"),
        sampled=lambda run, _: samples.recomputed_share(run),
        by_difference=True,
    ),
    Metric("decode_batch_mean", "sequences", lambda run: number(run.batching, "decode_batch_mean")),
    Metric("running_mean", "requests", lambda run: number(run.batching, "running_mean")),
    Metric("waiting_mean", "requests", lambda run: number(run.batching, "waiting_mean")),
)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _middle(values: Sequence[float]) -> float:
    """Return the mean of the logs, as a value: the figure whose ratio is reported."""
    if len(set(values)) == 1 or min(values) <= 0:
        return _mean(values)
    return float(f"{math.exp(_mean([math.log(v) for v in values])):.10g}")


def line_of(metric: Metric, base: Sequence[RunFigures], cand: Sequence[RunFigures]) -> Line:
    """Return one metric of two sides; bounds where it is judged, and its figures let it be."""
    sides = [[metric.read(run) for run in side] for side in (base, cand)]
    before, after = (
        _mean([v for v in side if v is not None]) if None not in side and side else None
        for side in sides
    )
    line = Line(metric.name, metric.unit, before, after, None, None, None)
    if before is None or after is None:
        return line
    effect = None
    if all(v is not None and math.isfinite(v) for side in sides for v in side):
        effect = _effect(metric, base, cand)
    if effect is not None and effect.scale is Scale.RATIO:
        # as the figures whose ratio is bounded
        middles = (_middle([v for v in side if v is not None]) for side in sides)
        before, after = middles
        return replace(
            line, baseline=before, candidate=after, ratio=effect.estimate,
            ratio_low=effect.low, ratio_high=effect.high, mean=GEOMETRIC,
        )  # fmt: skip
    if before > 0 and math.isfinite(before):
        line = replace(line, ratio=after / before)
    # a count of one run varies by more than is assumed of runs
    counted = metric.unit == "count" and effect is not None and effect.assumed_noise
    if effect is not None and (before or after) and not counted:
        line = replace(line, difference_low=effect.low, difference_high=effect.high)
    return line


def _effect(
    metric: Metric, base: Sequence[RunFigures], cand: Sequence[RunFigures]
) -> Effect | None:
    """Compare a known and finite figure as the gate does; ``None`` where it is not judged."""
    if not metric.judged((*base, *cand)):
        return None
    single = min(len(base), len(cand)) < 2
    read = [
        [
            metric.sampled(run, single) or Sample.exact(value)
            for run in side
            if (value := metric.read(run)) is not None
        ]
        for side in (base, cand)
    ]
    compared = share_effect if metric.by_difference else ratio_effect
    return compared(read[0], read[1], Noise())


def compare(
    base: str, candidates: Sequence[str], reading: Reading | None = None
) -> list[Comparison]:
    """Return each candidate configuration beside the baseline.

    Figures and intervals are the gate's: of mean logs over the repeats of a side, of plain means
    where what may be none is compared by its difference; with one run on a side of the variation
    inside each run and an assumed one between runs (log sd 0.10), as the method says.
    """
    if not candidates:
        raise UsageError("no candidate given", "`trueput compare BASE CANDIDATE...`")
    how = reading or Reading()
    judged = [configuration(a, how) for a in candidates]
    sides = [base_side(base, judged, how), *judged]
    known = figures([r for side in sides for r in side.runs], how)
    baseline, copies = distinct([known[r] for r in sides[0].runs])
    found = []
    for side in sides[1:]:
        runs, own = distinct([known[r] for r in side.runs])
        both = reused(baseline, runs)
        notes = [*copies, *own, *_unusable((*baseline, *runs)), *beyond_notes((*baseline, *runs))]
        if both is not None:
            notes.append(Note("warning", both, "runs"))
        elif same_runs(baseline, runs):
            notes.append(Note("notice", f"{side.name}: both sides are the same runs", "runs"))
        found.append(
            Comparison(
                baseline=_kept(sides[0], baseline),
                candidate=_kept(side, runs),
                lines=tuple(line_of(m, baseline, runs) for m in METRICS),
                differences=tuple(compare_sides(baseline, runs)),
                method=_method(baseline, runs),
                notes=tuple(dict.fromkeys(notes)),
            )
        )
    return found


def _method(base: Sequence[RunFigures], cand: Sequence[RunFigures]) -> str:
    """Say how the bounds come about, and by which mean a figure of several runs is."""
    if min(len(base), len(cand)) < 2:
        told = "one run on a side: its own variation is measured, 10 % between runs assumed"
    else:
        told = "t interval on the mean log ratio, one-sided 95 % each way"
    return f"{told}; {MEANS_TEXT}" if max(len(base), len(cand)) > 1 else told


def _unusable(runs: Sequence[RunFigures]) -> list[Note]:
    """Return a warning for each run that a gate would not judge."""
    told = [(run.run_id, run.why_unusable()) for run in runs]
    return [Note("warning", f"{name} {why}", "runs") for name, why in told if why is not None]


def _kept(side: Configuration, runs: Sequence[RunFigures]) -> Configuration:
    """Return the configuration with the runs that count, in the order given."""
    names = {run.run_id for run in runs}
    return Configuration(side.name, tuple(run for run in side.runs if run in names))
