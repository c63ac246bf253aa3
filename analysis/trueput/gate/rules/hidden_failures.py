"""More requests were lost while the survivors' latency looks the same or better.

Answers that got shorter are lost in the same way: each is less work, and reads as a faster one.
"""

from __future__ import annotations

from collections.abc import Sequence

from trueput.gate.evidence import Evidence
from trueput.gate.limits_text import against, did_not
from trueput.gate.rule_api import BLOCKING, Finding, Outcome, Rule, bounds_text, finding
from trueput.gate.settling import requests_text, settled_by, settling_text
from trueput.gate.statistics import Effect

_METRIC = "lost_requests_ratio"
_ANSWERS = "answer_tokens_per_request"
_ANSWERS_SCOPE = (
    "It compares the mean output tokens of complete requests, lost ones left out; whether the "
    "answers are worse it cannot tell."
)
_SCOPE = (
    "Lost means planned and not ended as asked: rejected, failed, aborted, unfinished, "
    "not sent or unknown; it does not say whose fault that was."
)

_UNTOLD = "Whether complete answers got shorter is not known: no run tells how long they are."


def check(rule: Rule, evidence: Evidence) -> Sequence[Finding]:
    """Return one finding for the share of lost requests, and one for the length of the answers."""
    return [_lost(rule, evidence), *_shorter(rule, evidence)]


def _lost(rule: Rule, evidence: Evidence) -> Finding:
    effect = evidence.lost
    scope = _SCOPE if evidence.answers_told else f"{_SCOPE} {_UNTOLD}"
    least, _ = evidence.limits(_METRIC, effect)
    settle: int | None = None
    if effect is None:
        outcome = Outcome.INCONCLUSIVE
        text = "The planned or the complete requests of a run are not known."
    elif effect.rose(least):
        hidden = _looks_no_worse(evidence)
        outcome = Outcome.FLAGGED if hidden else Outcome.INCONCLUSIVE
        manner = "looks no worse" if hidden else "is worse too, so that the loss is in plain sight"
        text = f"Lost requests rose by {bounds_text(effect)} and the survivors' latency {manner}."
    elif effect.high < least and (
        silent := [r.run_id for r in evidence.candidate if r.answered_none]
    ):
        outcome = Outcome.INCONCLUSIVE
        text = f"No request ended as asked in {', '.join(silent)}: nothing is shown for it."
    elif effect.high < least:
        outcome = Outcome.PASS
        text = f"{did_not('Lost requests', 'rise', evidence, _METRIC, effect)}."
    else:
        outcome = Outcome.INCONCLUSIVE
        settle = effect.repeats_to_settle(least)
        text = (
            f"Lost requests {bounds_text(effect)} do not settle it; "
            f"{settling_text(settle)}{requests_text(effect, least)}."
        )
    found = finding(
        rule, outcome, _METRIC, "ratio", effect,
        basis=evidence.basis(lambda run: run.goodput), conclusion=text, scope=scope,
    )  # fmt: skip
    return settled_by(found, settle)


def _shorter(rule: Rule, evidence: Evidence) -> list[Finding]:
    """Return a finding on the length of complete answers: a shorter one is less work, done sooner.

    None where losses explain it (they have the finding above, which then is no pass), and none
    where no run tells a length or none has a complete answer.
    """
    effect, lost = evidence.answers, evidence.lost
    least, _ = evidence.limits(_ANSWERS, effect)
    if lost is not None and lost.rose(evidence.limits(_METRIC, lost)[0]):
        return []
    settle: int | None = None
    if effect is None:
        if not evidence.answers_told:
            return []
        outcome = Outcome.INCONCLUSIVE
        text = "The output tokens of complete requests are not known in every run."
    elif effect.fell(least):
        outcome = Outcome.FLAGGED
        text = f"Complete answers got shorter, {bounds_text(effect)}: less was done."
    elif effect.did_not_fall(least) and _with_lost(evidence, least):
        outcome = Outcome.PASS
        text = f"{did_not('The length of complete answers', 'fall', evidence, _ANSWERS, effect)}."
    elif effect.did_not_fall(least):
        outcome = Outcome.INCONCLUSIVE
        text = (
            f"Complete answers are no shorter, {bounds_text(effect)}, but short ones may be among "
            "those that were lost: were they the shortest, the length may have fallen."
        )
    else:
        outcome = Outcome.INCONCLUSIVE
        settle = effect.repeats_to_settle(effect.none - least)
        text = f"Complete answers may have got shorter, {bounds_text(effect)}"
        text += f"{against(evidence, _ANSWERS, effect)}; {settling_text(settle)}."
    found = finding(
        rule, outcome, _ANSWERS, "tokens", effect,
        basis=evidence.basis(lambda run: run.goodput), conclusion=text, scope=_ANSWERS_SCOPE,
    )  # fmt: skip
    return [settled_by(found, settle)]


def _with_lost(evidence: Evidence, least: float) -> bool:
    """Tell whether the length held even where lost requests count as the shortest answers.

    To lose a short answer makes the mean of the others longer; it must not make them pass.
    """
    effect = evidence.answers_with_lost
    return effect is not None and effect.did_not_fall(least)


def _looks_no_worse(evidence: Evidence) -> bool:
    """Tell whether a reader of the survivors' medians would be reassured (or has none to read)."""
    shown: list[Effect] = [e for e in (evidence.ttft, evidence.e2e) if e is not None]
    return not shown or any(e.estimate <= 1 + evidence.policy.margin for e in shown)


RULE = Rule(
    name="hidden-failures",
    severity=BLOCKING,
    order=30,
    summary="lost requests rose while the survivors' latency looks the same or better",
    check=check,
)
