"""The first token came sooner, the whole answer did not."""

from __future__ import annotations

from collections.abc import Sequence

from trueput.gate.evidence import Evidence
from trueput.gate.rule_api import INFORMING, Finding, Outcome, Rule, bounds_text, finding

_METRIC, _E2E = "ttft_ns_p50", "e2e_ns_p50"
_SCOPE = "It compares medians over the requests that ended as asked."


def check(rule: Rule, evidence: Evidence) -> Sequence[Finding]:
    """Return one finding for time to first token, set against the end-to-end time."""
    ttft, e2e, policy = evidence.ttft, evidence.e2e, evidence.policy
    if ttft is None or e2e is None:
        runs = (*evidence.baseline, *evidence.candidate)
        observed = any(r.ttft_ns is not None for run in runs for r in run.requests)
        outcome = Outcome.INCONCLUSIVE if observed else Outcome.NOT_APPLICABLE
        text = "Latencies of surviving requests are not known in every run."
    elif ttft.fell(policy.least(_METRIC, ttft)) and e2e.did_not_fall(policy.slack(_E2E, e2e)):
        outcome = Outcome.FLAGGED
        text = f"TTFT improved, {bounds_text(ttft)}, end-to-end did not, {bounds_text(e2e)}."
    elif e2e.fell(policy.least(_E2E, e2e)) or ttft.did_not_fall(policy.least(_METRIC, ttft)):
        outcome = Outcome.PASS
        text = f"TTFT {bounds_text(ttft)} does not stand alone: end-to-end {bounds_text(e2e)}."
    else:
        outcome = Outcome.INCONCLUSIVE
        text = f"TTFT {bounds_text(ttft)} and end-to-end {bounds_text(e2e)} do not settle it."
    return [
        finding(
            rule, outcome, _METRIC, "ns", ttft,
            basis="measured" if ttft else "unknown", conclusion=text, scope=_SCOPE,
        )
    ]  # fmt: skip


RULE = Rule(
    name="first-token-only",
    severity=INFORMING,
    order=60,
    summary="TTFT improved, end-to-end did not",
    check=check,
)
