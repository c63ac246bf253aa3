"""Tokens per second rose, good requests per second did not."""

from __future__ import annotations

from collections.abc import Sequence

from trueput.gate.evidence import GOODPUT, Evidence
from trueput.gate.figures import number
from trueput.gate.limits_text import by_more
from trueput.gate.rule_api import INFORMING, Finding, Outcome, Rule, bounds_text, finding
from trueput.gate.settling import goodput_missing, most, settled_by, settling_text
from trueput.gate.statistics import Effect

_METRIC = "output_tokens_per_s"
_SCOPE = "Output tokens are counted for every request, also for those that missed the objective."


def check(rule: Rule, evidence: Evidence) -> Sequence[Finding]:
    """Return one finding for output tokens per second, set against goodput."""
    tokens, goodput = evidence.output_tokens, evidence.goodput
    least, margin = evidence.limits(_METRIC, tokens)
    good_least, good_margin = evidence.limits(GOODPUT, goodput)
    settle: int | None = None
    if tokens is None:
        partly = evidence.one_sided(lambda run: number(run.goodput, _METRIC))
        outcome = Outcome.INCONCLUSIVE if partly else Outcome.NOT_APPLICABLE
        text = "Output tokens per second are not known in every run."
    elif goodput is None:
        outcome, text = Outcome.INCONCLUSIVE, goodput_missing(evidence)
    elif tokens.rose(least) and goodput.did_not_rise(good_margin):
        outcome = Outcome.FLAGGED
        text = f"Tokens per second rose, {bounds_text(tokens)}, goodput did not"
        by = by_more("rise", evidence, GOODPUT, goodput, margin=True)
        text += f"{by}, {bounds_text(goodput)}."
    elif goodput.rose(good_least) or tokens.did_not_rise(margin):
        outcome = Outcome.PASS
        text = f"Tokens per second {bounds_text(tokens)}, goodput {bounds_text(goodput)}."
    else:
        outcome = Outcome.INCONCLUSIVE
        settle = _settle(evidence, tokens, goodput)
        text = (
            f"Tokens per second {bounds_text(tokens)} and goodput {bounds_text(goodput)} "
            f"do not settle it; {settling_text(settle)}."
        )
    unit = "tokens/s per device" if evidence.per_device else "tokens/s"
    found = finding(
        rule, outcome, _METRIC, unit, tokens,
        basis=evidence.basis(lambda run: run.goodput), conclusion=text, scope=_SCOPE,
    )  # fmt: skip
    return [settled_by(found, settle)]


def _settle(evidence: Evidence, tokens: Effect, goodput: Effect) -> int | None:
    """Estimate the runs that settle whichever of the two figures is open."""
    least, margin = evidence.limits(_METRIC, tokens)
    good_least, good_margin = evidence.limits(GOODPUT, goodput)
    if tokens.estimate <= tokens.none + margin:
        return tokens.repeats_to_settle(tokens.none + margin)
    if goodput.estimate > goodput.none + good_least:
        return goodput.repeats_to_settle(goodput.none + good_least)
    needed = []
    if not tokens.rose(least):
        needed.append(tokens.repeats_to_settle(tokens.none + least))
    if not goodput.did_not_rise(good_margin):
        needed.append(goodput.repeats_to_settle(goodput.none + good_margin))
    return most(needed)


RULE = Rule(
    name="throughput-without-goodput",
    severity=INFORMING,
    order=70,
    summary="tokens per second rose, goodput did not",
    check=check,
)
