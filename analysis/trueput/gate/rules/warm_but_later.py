"""A request was sent where its prefix was warm, and reached decode later than cold ones elsewhere.

Counted request by request inside each run of the candidate: a warm request is later when its queue
+ prefill exceeds the median of cold requests on other replicas within 5 s and 10 % of its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trueput.gate.evidence import Evidence
from trueput.gate.figures import RunFigures, whole
from trueput.gate.policy import Limits
from trueput.gate.rule_api import INFORMING, Finding, Outcome, Rule, finding
from trueput.gate.statistics import ALPHA, CONFIDENCE

_METRIC = "warm_but_later_ratio"
_SCOPE = (
    "Warm requests without a cold peer on another replica within 5 s and 10 % of the prompt "
    "length are not compared; the peers say what might have been, not what would."
)


def check(rule: Rule, evidence: Evidence) -> Sequence[Finding]:
    """Return one finding for the share of compared warm requests that reached decode later."""
    before, after = _counted(evidence.baseline), _counted(evidence.candidate)
    own = evidence.policy.metrics.get(_METRIC, Limits())
    least = max(evidence.policy.min_effect if own.min_effect is None else own.min_effect, own.floor)
    low = high = None
    if after is None:
        outcome = Outcome.INCONCLUSIVE if before else Outcome.NOT_APPLICABLE
        where = "the candidate" if before else "either side"
        text = f"No warm request of {where} has a cold peer on another replica to compare with."
    else:
        later, compared = after
        low, high = _exact_bounds(later, compared)
        shown = f"{later / compared:.1%} ({low:.1%} to {high:.1%})"
        if later / compared > least:
            outcome = Outcome.FLAGGED
            text = (
                f"{later} of {compared} warm requests, {shown}, reached decode later than cold "
                f"requests on other replicas{_medians(evidence.candidate)}"
            )
        else:
            outcome = Outcome.PASS if high < least else Outcome.INCONCLUSIVE
            text = f"{later} of {compared} warm requests, {shown}, reached decode later than cold"
            text += " requests on other replicas"
        text += f"; in the baseline {before[0]} of {before[1]}." if before else "."
    found = finding(
        rule, outcome, _METRIC, "ratio", None,
        basis="inferred" if after else "unknown", conclusion=text, scope=_SCOPE,
    )  # fmt: skip
    shares = [None if side is None else side[0] / side[1] for side in (before, after)]
    ratio = shares[1] / shares[0] if shares[0] and shares[1] is not None else None
    how = "not computed"
    if after is not None:
        how = f"counted request by request, exact binomial bounds, one-sided {CONFIDENCE:.0%}"
    return [replace(found, baseline=shares[0], candidate=shares[1], ratio=ratio, method=how)]


def _counted(runs: Sequence[RunFigures]) -> tuple[int, int] | None:
    """Return later and compared warm requests over all runs; ``None`` where none was compared."""
    rows = [row for run in runs for row in run.routing]
    compared = sum(whole(row, "compared_requests") or 0 for row in rows)
    later = sum(whole(row, "warm_but_later_requests") or 0 for row in rows)
    return (later, compared) if compared else None


def _exact_bounds(later: int, compared: int) -> tuple[float, float]:
    """Return the one-sided Clopper-Pearson bounds of the share, each way."""
    from scipy.special import betaincinv

    low, high = 0.0, 1.0
    if later:
        low = float(betaincinv(later, compared - later + 1, ALPHA))
    if later < compared:
        high = float(betaincinv(later + 1, compared - later, 1 - ALPHA))
    return low, high


def _medians(runs: Sequence[RunFigures]) -> str:
    """Say the queue and prefill of each replica, for one run whose replicas are few."""
    parts = []
    rows = runs[0].routing if len(runs) == 1 else ()
    for row in rows[:4]:
        queue, prefill = whole(row, "queue_ns_p50"), whole(row, "prefill_ns_p50")
        warm, requests = whole(row, "warm_requests"), whole(row, "requests")
        if queue is not None and prefill is not None:
            parts.append(
                f"{row.get('replica')} {queue / 1e6:.0f} ms queue + {prefill / 1e6:.0f} ms prefill "
                f"({warm} of {requests} warm)"
            )
    return f"; medians: {', '.join(parts)}" if parts else ""


RULE = Rule(
    name="warm-but-later",
    severity=INFORMING,
    order=90,
    summary="warm requests reached decode later than cold ones on other replicas",
    check=check,
)
