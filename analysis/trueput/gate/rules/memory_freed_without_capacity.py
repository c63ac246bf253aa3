"""KV pressure or preemptions fell, and no more requests met their promise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from trueput.gate import samples
from trueput.gate.evidence import GOODPUT, Evidence
from trueput.gate.figures import RunFigures, number
from trueput.gate.limits_text import by_more
from trueput.gate.policy.metrics import METRICS
from trueput.gate.rule_api import INFORMING, Finding, Outcome, Rule, bounds_text, finding
from trueput.gate.settling import goodput_missing
from trueput.gate.statistics import Effect, Sample

_SCOPE = (
    "Freed memory is room, not capacity: a smaller batch frees it too. Preemptions are counted for "
    "each planned request."
)


def check(rule: Rule, evidence: Evidence) -> Sequence[Finding]:
    """Return one finding for KV pressure and one for preemptions, set against goodput."""
    return [
        _judge(rule, evidence, "kv_used_ratio_p99", "KV cache in use (p99)", samples.kv_used),
        _judge(
            rule, evidence, "preemptions_per_request", "Preemptions per request", samples.preempted
        ),
    ]


def _judge(
    rule: Rule,
    evidence: Evidence,
    metric: str,
    label: str,
    read: Callable[[RunFigures], Sample | None],
) -> Finding:
    effect, goodput = evidence.share(read), evidence.goodput
    least, _ = evidence.limits(metric, effect)
    good_least, good_margin = evidence.limits(GOODPUT, goodput)
    if effect is None:
        partly = evidence.one_sided(read)
        outcome = Outcome.INCONCLUSIVE if partly else Outcome.NOT_APPLICABLE
        text = f"{label}: not known {'in every run' if partly else 'on either side'}."
    elif effect.baseline == effect.candidate == 0:
        outcome, text = Outcome.NOT_APPLICABLE, f"{label}: 0 in every run."
    elif effect.did_not_fall(least):
        by = by_more("fall", evidence, metric, effect)
        outcome = Outcome.PASS
        text = f"{label} did not fall{by}{':' if by else ','} {_moved(effect, metric)}."
    elif goodput is None:
        outcome, text = Outcome.INCONCLUSIVE, goodput_missing(evidence)
    elif effect.fell(least) and goodput.did_not_rise(good_margin):
        outcome = Outcome.FLAGGED
        text = f"{label} fell, {_moved(effect, metric)}, and goodput did not "
        text += f"rise{by_more('rise', evidence, GOODPUT, goodput, margin=True)}, "
        text += f"{bounds_text(goodput)}{_batching(evidence)}."
    elif goodput.rose(good_least):
        outcome = Outcome.PASS
        text = f"{label} moved, {_moved(effect, metric)}, and goodput rose, {bounds_text(goodput)}."
    else:
        outcome = Outcome.INCONCLUSIVE
        text = f"{label} {_moved(effect, metric)} and goodput {bounds_text(goodput)} do not "
        text += f"settle it{_batching(evidence)}."
    return finding(
        rule, outcome, metric, METRICS[metric], effect,
        basis="reported" if effect else "unknown", conclusion=text, scope=_SCOPE,
    )  # fmt: skip


def _moved(effect: Effect, metric: str) -> str:
    if metric == "kv_used_ratio_p99":
        return bounds_text(effect)
    return f"{effect.estimate:+.2f} ({effect.low:+.2f} to {effect.high:+.2f})"


def _batching(evidence: Evidence) -> str:
    """Say how full the batches were on both sides: freed memory may be a smaller batch.

    Over repeats by the mean that `compare` shows: the geometric one, where none is 0.
    """
    parts = []
    for column, label in (("decode_batch_mean", "decode batch"), ("running_mean", "running")):
        means = [_mean(side, column) for side in (evidence.baseline, evidence.candidate)]
        effect = evidence.ratio(partial(_sample, column=column))
        if effect is not None:
            means = [effect.baseline, effect.candidate]
        if means[0] is not None and means[1] is not None:
            parts.append(f"{label} {means[0]:.1f} to {means[1]:.1f}")
    return f"; {', '.join(parts)}" if parts else "; batching is not known"


def _sample(run: RunFigures, column: str) -> Sample | None:
    value = number(run.batching, column)
    return None if value is None else Sample.exact(value)


def _mean(runs: Sequence[RunFigures], column: str) -> float | None:
    known = [value for run in runs if (value := number(run.batching, column)) is not None]
    return math.fsum(known) / len(known) if len(known) == len(runs) else None


RULE = Rule(
    name="memory-freed-without-capacity",
    severity=INFORMING,
    order=100,
    summary="KV pressure or preemptions fell, goodput did not rise",
    check=check,
)
