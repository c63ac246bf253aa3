"""A larger share of the scheduled tokens was computed again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trueput.gate.evidence import Evidence
from trueput.gate.rule_api import (
    BLOCKING,
    INFORMING,
    Finding,
    Outcome,
    Rule,
    bounds_text,
    finding,
)
from trueput.gate.settling import settled_by, settling_text

_METRIC = "recomputed_ratio"
_SCOPE = "Recomputed tokens are work, not time; more preemptions alone are no regression."


def check(rule: Rule, evidence: Evidence) -> Sequence[Finding]:
    """Return one finding; it blocks where goodput did not rise (or as the policy says)."""
    effect, goodput, policy = evidence.recomputed, evidence.goodput, evidence.policy
    least = 0.0 if effect is None else policy.least(_METRIC, effect)
    stalled = goodput is not None and goodput.did_not_rise(policy.slack("goodput_rps", goodput))
    if rule.name not in policy.rules:
        rule = replace(rule, severity=BLOCKING if stalled else INFORMING)
    settle: int | None = None
    if effect is None and not evidence.one_sided(lambda run: run.recompute):
        known = any(run.recompute for run in evidence.baseline)
        outcome = Outcome.INCONCLUSIVE if known else Outcome.NOT_APPLICABLE
        text = "Recomputed tokens are not known on either side."
    elif effect is None:
        outcome, text = Outcome.INCONCLUSIVE, "Recomputed tokens are not known in every run."
    elif effect.rose(least):
        outcome = Outcome.FLAGGED
        text = f"The recomputed share of scheduled tokens rose by {bounds_text(effect)}"
        text += " and goodput did not rise." if stalled else "."
    elif effect.high < least:
        outcome = Outcome.PASS
        text = f"The recomputed share did not rise, {bounds_text(effect)}."
    else:
        outcome = Outcome.INCONCLUSIVE
        settle = effect.repeats_to_settle(least)
        text = (
            f"The recomputed share {bounds_text(effect)} does not settle it; "
            f"{settling_text(settle)}."
        )
    found = finding(
        rule, outcome, _METRIC, "ratio", effect,
        basis=evidence.basis(lambda run: run.recompute), conclusion=text, scope=_SCOPE,
    )  # fmt: skip
    return [settled_by(found, settle)]


RULE = Rule(
    name="recompute-growth",
    severity=INFORMING,
    order=50,
    summary="the recomputed share of work rose; blocks where goodput did not rise",
    check=check,
)
