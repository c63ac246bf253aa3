"""Tokens per second rose, good requests per second did not."""

from __future__ import annotations

from collections.abc import Sequence

from trueput.gate.evidence import GOODPUT, Evidence
from trueput.gate.figures import number
from trueput.gate.rule_api import INFORMING, Finding, Outcome, Rule, bounds_text, finding
from trueput.gate.settling import goodput_missing

_METRIC = "output_tokens_per_s"
_SCOPE = "Output tokens are counted for every request, also for those that missed the objective."


def check(rule: Rule, evidence: Evidence) -> Sequence[Finding]:
    """Return one finding for output tokens per second, set against goodput."""
    tokens, goodput = evidence.output_tokens, evidence.goodput
    least, margin = evidence.limits(_METRIC, tokens)
    good_least, good_margin = evidence.limits(GOODPUT, goodput)
    if tokens is None:
        partly = evidence.one_sided(lambda run: number(run.goodput, _METRIC))
        outcome = Outcome.INCONCLUSIVE if partly else Outcome.NOT_APPLICABLE
        text = "Output tokens per second are not known in every run."
    elif goodput is None:
        outcome, text = Outcome.INCONCLUSIVE, goodput_missing(evidence)
    elif tokens.rose(least) and goodput.did_not_rise(good_margin):
        outcome = Outcome.FLAGGED
        text = f"Tokens per second rose, {bounds_text(tokens)}, goodput did not, "
        text += f"{bounds_text(goodput)}."
    elif goodput.rose(good_least) or tokens.did_not_rise(margin):
        outcome = Outcome.PASS
        text = f"Tokens per second {bounds_text(tokens)}, goodput {bounds_text(goodput)}."
    else:
        outcome = Outcome.INCONCLUSIVE
        text = (
            f"Tokens per second {bounds_text(tokens)} and goodput {bounds_text(goodput)} "
            "do not settle it."
        )
    unit = "tokens/s per device" if evidence.per_device else "tokens/s"
    return [
        finding(
            rule, outcome, _METRIC, unit, tokens,
            basis=evidence.basis(lambda run: run.goodput), conclusion=text, scope=_SCOPE,
        )
    ]  # fmt: skip


RULE = Rule(
    name="throughput-without-goodput",
    severity=INFORMING,
    order=70,
    summary="tokens per second rose, goodput did not",
    check=check,
)
