"""The first token came sooner, the whole answer did not."""

from __future__ import annotations

from collections.abc import Sequence

from trueput.gate.evidence import Evidence
from trueput.gate.limits_text import by_more, did_not
from trueput.gate.rule_api import INFORMING, Finding, Outcome, Rule, bounds_text, finding
from trueput.gate.settling import most, settled_by, settling_text
from trueput.gate.statistics import Effect

_METRIC = "ttft_ns_p50"
_E2E = "e2e_ns_p50"
_SCOPE = "It compares medians over the requests that ended as asked."


def check(rule: Rule, evidence: Evidence) -> Sequence[Finding]:
    """Return one finding for time to first token, set against the end-to-end time."""
    ttft, e2e = evidence.ttft, evidence.e2e
    least, _ = evidence.limits(_METRIC, ttft)
    e2e_least, e2e_margin = evidence.limits(_E2E, e2e)
    settle: int | None = None
    if ttft is None or e2e is None:
        runs = (*evidence.baseline, *evidence.candidate)
        observed = any(len(run.requests.known("ttft_ns")) for run in runs)
        outcome = Outcome.INCONCLUSIVE if observed else Outcome.NOT_APPLICABLE
        text = "Latencies of surviving requests are not known in every run."
    elif ttft.fell(least) and e2e.did_not_fall(e2e_margin):
        outcome = Outcome.FLAGGED
        by = by_more("fall", evidence, _E2E, e2e, margin=True)
        text = f"TTFT improved, {bounds_text(ttft)}, end-to-end did not{by}, {bounds_text(e2e)}."
    elif e2e.fell(e2e_least):
        outcome = Outcome.PASS
        text = f"TTFT {bounds_text(ttft)} does not stand alone: end-to-end {bounds_text(e2e)}."
    elif ttft.did_not_fall(least):
        outcome = Outcome.PASS
        text = f"{did_not('TTFT', 'fall', evidence, _METRIC, ttft)}; end-to-end {bounds_text(e2e)}."
    else:
        outcome = Outcome.INCONCLUSIVE
        settle = _settle(evidence, ttft, e2e)
        text = (
            f"TTFT {bounds_text(ttft)} and end-to-end {bounds_text(e2e)} do not settle it; "
            f"{settling_text(settle)}."
        )
    found = finding(
        rule, outcome, _METRIC, "ns", ttft,
        basis="measured" if ttft else "unknown", conclusion=text, scope=_SCOPE,
    )  # fmt: skip
    return [settled_by(found, settle)]


def _settle(evidence: Evidence, ttft: Effect, e2e: Effect) -> int | None:
    """Estimate the runs that settle whichever of the two figures is open."""
    least, _ = evidence.limits(_METRIC, ttft)
    e2e_least, e2e_margin = evidence.limits(_E2E, e2e)
    if ttft.estimate >= ttft.none - least:
        return ttft.repeats_to_settle(ttft.none - least)
    if e2e.estimate < e2e.none - e2e_least:
        return e2e.repeats_to_settle(e2e.none - e2e_least)
    needed = []
    if not ttft.fell(least):
        needed.append(ttft.repeats_to_settle(ttft.none - least))
    if not e2e.did_not_fall(e2e_margin):
        needed.append(e2e.repeats_to_settle(e2e.none - e2e_margin))
    return most(needed)


RULE = Rule(
    name="first-token-only",
    severity=INFORMING,
    order=60,
    summary="TTFT improved, end-to-end did not",
    check=check,
)
