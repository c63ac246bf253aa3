"""noise: run-to-run variation of repeats of one configuration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trueput.errors import UsageError
from trueput.gate.measurements import distinct
from trueput.gate.statistics import Noise
from trueput.verbs.compare import METRICS
from trueput.verbs.figures import figures
from trueput.verbs.opening import Reading, configuration

MIN_RUNS = 2
_DECIDING = ("goodput_rps", "request_throughput_rps", "engine_step", "scheduled_tokens")


@dataclass(frozen=True)
class Variation:
    """Sd of a metric's log over repeats (about its relative sd), with the number of runs."""

    metric: str
    unit: str
    mean: float
    log_sd: float
    runs: int


@dataclass(frozen=True)
class NoiseReport:
    """Variation by metric, and the lines to paste into a policy."""

    runs: tuple[str, ...]
    variations: tuple[Variation, ...]
    policy_lines: tuple[str, ...]


def noise(arguments: Sequence[str], reading: Reading | None = None) -> NoiseReport:
    """Measure the run-to-run variation of repeats (A/A runs) of one configuration.

    The policy lines take the largest log sd among the metrics that decide a verdict, and never
    less than the default floor.
    """
    how = reading or Reading()
    run_ids = list(dict.fromkeys(run for a in arguments for run in configuration(a, how).runs))
    if len(run_ids) < MIN_RUNS:
        raise UsageError(
            f"{len(run_ids)} run given; variation needs at least {MIN_RUNS}",
            "name the repeats of one configuration: `trueput noise run1 run2 run3`",
        )
    known = figures(run_ids, how)
    kept, copies = distinct([known[r] for r in run_ids])
    run_ids = [run.run_id for run in kept]
    if len(run_ids) < MIN_RUNS:
        raise UsageError(
            f"the runs are one measurement: {'; '.join(note.text for note in copies)}",
            "repeats are runs of their own: a copy says nothing of their variation",
        )
    found = []
    for metric in METRICS:
        values = [metric.read(known[r]) for r in run_ids]
        if any(v is None or not math.isfinite(v) or v <= 0 for v in values):
            continue
        logs = [math.log(v) for v in values if v is not None]
        middle = sum(logs) / len(logs)
        spread = math.sqrt(sum((x - middle) ** 2 for x in logs) / (len(logs) - 1))
        found.append(Variation(metric.name, metric.unit, math.exp(middle), spread, len(logs)))
    if not found:
        how.note(
            f"no metric is known, and more than 0, in every run in the window `{how.window}`: "
            "there is nothing to measure"
        )
    deciding = [v.log_sd for v in found if v.metric in _DECIDING]
    default = Noise()
    run_sd = max([default.floor_log_sd, *deciding])
    lines = (
        f"floor_log_sd = {default.floor_log_sd:.3f}",
        f"run_log_sd = {run_sd:.3f}  # from {len(run_ids)} repeats: {', '.join(run_ids)}",
    )
    return NoiseReport(tuple(run_ids), tuple(found), lines if deciding else ())
