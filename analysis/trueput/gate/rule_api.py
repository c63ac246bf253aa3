"""What a rule of the gate is: the only module, with ``evidence``, that a rule needs to import."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from trueput.gate.policy import BLOCKING, INFORMING
from trueput.gate.statistics import CONFIDENCE, Effect, Scale

if TYPE_CHECKING:
    from trueput.gate.evidence import Evidence

__all__ = ["BLOCKING", "INFORMING", "Finding", "Outcome", "Rule", "bounds_text", "finding"]


class Outcome(StrEnum):
    """What a rule found; ordered from the worst, as a rule with several findings counts them."""

    FLAGGED = "flagged"
    INCONCLUSIVE = "inconclusive"
    PASS = "pass"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True)
class Finding:
    """One figure that a rule judged, with its interval, one conclusion and one scope sentence.

    Where a share is compared in points, ``ratio`` is only its quotient and the bounds are ``None``;
    the conclusion gives the difference and its bounds. ``settle_runs`` estimates how many runs on
    each side would settle an inconclusive finding.
    """

    rule: str
    severity: str
    outcome: Outcome
    metric: str
    unit: str
    baseline: float | None
    candidate: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    confidence: float
    method: str
    basis: str
    conclusion: str
    scope: str
    settle_runs: int | None = None


@dataclass(frozen=True)
class Rule:
    """A rule: its name, its default severity, its place in the report, and its check.

    ``escalates`` is true where the rule, informing by default, makes a finding block by itself.
    """

    name: str
    severity: str
    order: int
    summary: str
    check: Callable[[Rule, Evidence], Sequence[Finding]]
    escalates: bool = False


def finding(
    rule: Rule,
    outcome: Outcome,
    metric: str,
    unit: str,
    effect: Effect | None,
    *,
    basis: str,
    conclusion: str,
    scope: str,
) -> Finding:
    """Return a finding with the figures of an effect; all of them ``None`` without one."""
    blank = Finding(
        rule.name,
        rule.severity,
        outcome,
        metric,
        unit,
        *(None,) * 5,
        confidence=CONFIDENCE,
        method="not computed",
        basis=basis,
        conclusion=conclusion,
        scope=scope,
    )
    if effect is None:
        return blank
    if effect.assumed_noise:
        scope = f"{scope} Run-to-run variation was assumed, not measured."
    points = effect.scale is Scale.POINTS
    return replace(
        blank,
        baseline=effect.baseline,
        candidate=effect.candidate,
        ratio=_quotient(effect) if points else effect.estimate,
        ratio_low=None if points else effect.low,
        ratio_high=None if points else effect.high,
        method=effect.method,
        scope=scope,
    )


def bounds_text(effect: Effect) -> str:
    """Return the estimate and its bounds as a reader says them."""
    if effect.scale is Scale.POINTS:
        low, high = 100 * effect.low, 100 * effect.high
        return f"{100 * effect.estimate:+.1f} points ({low:+.1f} to {high:+.1f})"
    return f"{effect.estimate:.3f}x ({effect.low:.3f} to {effect.high:.3f})"


def _quotient(effect: Effect) -> float:
    if effect.baseline == 0:
        return math.nan if effect.candidate == 0 else math.inf
    return effect.candidate / effect.baseline
