"""Goodput or attainment fell."""

from __future__ import annotations

from collections.abc import Sequence

from trueput.gate.evidence import Evidence, goodput_points
from trueput.gate.limits_text import against, did_not
from trueput.gate.rule_api import BLOCKING, Finding, Outcome, Rule, bounds_text, finding
from trueput.gate.samples import FEWEST_GOOD
from trueput.gate.settling import goodput_missing, settled_by, settling_text
from trueput.gate.statistics import Effect, Scale

_SCOPE = "It holds for this load and this objective only."


_NOBODY_GOOD = (
    "No request of either side met the objective: nothing is shown of goodput "
    "(hint: check its limits and their units)."
)


def check(rule: Rule, evidence: Evidence) -> Sequence[Finding]:
    """Return one finding for goodput and one for attainment."""
    goodput, attainment = evidence.goodput, evidence.attainment
    rate = "1/s per device" if evidence.per_device else "1/s"
    if goodput is not None and goodput_points(goodput):
        goodput = None
        if attainment is not None:  # a run had no good request: attainment alone decides
            return [_judge(rule, evidence, "slo_attainment_ratio", "ratio", attainment)]
    return [
        _judge(rule, evidence, "goodput_rps", rate, goodput),
        _judge(rule, evidence, "slo_attainment_ratio", "ratio", attainment),
    ]


def _judge(
    rule: Rule, evidence: Evidence, metric: str, unit: str, effect: Effect | None
) -> Finding:
    least, _ = evidence.limits(metric, effect)
    label = "Goodput" if metric == "goodput_rps" else "SLO attainment"
    settle: int | None = None
    if effect is None:
        outcome, text = Outcome.INCONCLUSIVE, goodput_missing(evidence)
    elif effect.baseline == effect.candidate == 0:
        outcome, text = Outcome.INCONCLUSIVE, _NOBODY_GOOD
    elif effect.fell(least):
        outcome, text = Outcome.FLAGGED, f"{label} fell, {bounds_text(effect)}."
    elif effect.did_not_fall(least) and not _vanished(effect):
        outcome, text = Outcome.PASS, f"{did_not(label, 'fall', evidence, metric, effect)}."
        if evidence.few_good:
            outcome = Outcome.INCONCLUSIVE
            text = (
                f"{label} {bounds_text(effect)} rests on too few good requests: {_few(evidence)}."
            )
    else:
        outcome = Outcome.INCONCLUSIVE
        settle = effect.repeats_to_settle(effect.none - least)
        limit = against(evidence, metric, effect)
        text = f"{label} {bounds_text(effect)} does not settle it{limit}; {settling_text(settle)}."
    found = finding(
        rule, outcome, metric, unit, effect,
        basis=evidence.basis(lambda run: run.goodput), conclusion=text, scope=_SCOPE,
    )  # fmt: skip
    return settled_by(found, settle)


def _few(evidence: Evidence) -> str:
    """Say how many requests were good in each run, and what would do."""
    sides = {"baseline": evidence.baseline, "candidate": evidence.candidate}
    told = [
        f"{', '.join(_count(run.count('good')) for run in runs)} in the {side}"
        for side, runs in sides.items()
    ]
    return (
        f"{' and '.join(told)}, {FEWEST_GOOD} in each run would do "
        "(hint: a longer load, or limits that more of them meet)"
    )


def _count(good: int | None) -> str:
    return "an unknown number" if good is None else str(good)


def _vanished(effect: Effect) -> bool:
    """Tell whether a share near 0 shrank: few points, yet it may be all that there was."""
    return effect.scale is Scale.POINTS and effect.candidate < effect.baseline


RULE = Rule(
    name="goodput-drop",
    severity=BLOCKING,
    order=20,
    summary="goodput or attainment fell",
    check=check,
)
