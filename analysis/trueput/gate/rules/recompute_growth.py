"""A larger share of the scheduled tokens was computed again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trueput.gate.evidence import GOODPUT, Evidence
from trueput.gate.figures import RunFigures, number
from trueput.gate.limits_text import by_more, did_not
from trueput.gate.rule_api import (
    BLOCKING,
    INFORMING,
    Finding,
    Outcome,
    Rule,
    bounds_text,
    finding,
)
from trueput.gate.samples import recomputed_share
from trueput.gate.settling import settled_by, settling_text

_METRIC = "recomputed_ratio"
_SCOPE = "Recomputed tokens are work, not time; more preemptions alone are no regression."


def check(rule: Rule, evidence: Evidence) -> Sequence[Finding]:
    """Return one finding; it blocks where goodput did not rise (or as the policy says)."""
    effect, goodput = evidence.recomputed, evidence.goodput
    least, _ = evidence.limits(_METRIC, effect)
    stalled = goodput is not None and goodput.did_not_rise(evidence.limits(GOODPUT, goodput)[1])
    if rule.name not in evidence.policy.rules:
        rule = replace(rule, severity=BLOCKING if stalled else INFORMING)
    settle: int | None = None
    runs = (*evidence.baseline, *evidence.candidate)
    if effect is None and not any(_told(run) for run in runs):
        outcome = Outcome.NOT_APPLICABLE
        text = "Recomputed tokens are not known on either side, and no preemption was seen."
    elif effect is None:
        outcome, text = Outcome.INCONCLUSIVE, _missing(runs)
    elif effect.rose(least):
        outcome = Outcome.FLAGGED
        text = f"The recomputed share of scheduled tokens rose by {bounds_text(effect)}"
        text += f" and goodput did not rise{_by_more(evidence)}." if stalled else "."
    elif effect.high < least:
        outcome = Outcome.PASS
        text = f"{did_not('The recomputed share', 'rise', evidence, _METRIC, effect)}."
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


def _by_more(evidence: Evidence) -> str:
    goodput = evidence.goodput
    return "" if goodput is None else by_more("rise", evidence, GOODPUT, goodput, margin=True)


def _missing(runs: Sequence[RunFigures]) -> str:
    """Say which runs lack the figure, and what would give it."""
    lacking = [run for run in runs if recomputed_share(run) is None]
    hints = sorted({_hint(run) for run in lacking})
    if len(lacking) == len(runs):
        where = "in any run"
    else:
        where = f"in every run (missing: {', '.join(sorted(run.run_id for run in lacking))})"
    return f"Recomputed tokens are not known {where}; hint: {', or '.join(hints)}."


def _hint(run: RunFigures) -> str:
    if run.uncovered is not None:
        return "keep the engine's whole record"
    if not number(run.recompute, "scheduled_tokens"):
        return "run the engine with `--enable-logging-iteration-details`"
    return "scrape /metrics during the run"


def _told(run: RunFigures) -> bool:
    """Tell whether a run says anything of recompute: tokens, or preemptions without them."""
    tokens = number(
        run.recompute, "recomputed_ratio", "recomputed_tokens", "recomputed_tokens_low",
        "recomputed_tokens_high",
    )  # fmt: skip
    return (
        tokens is not None
        or bool(number(run.recompute, "preemptions"))
        or run.uncovered is not None
    )


RULE = Rule(
    name="recompute-growth",
    severity=INFORMING,
    order=50,
    summary="the recomputed share of work rose; blocks where goodput did not rise",
    check=check,
    escalates=True,
)
