"""The first token came sooner, the whole answer did not."""

from __future__ import annotations

from collections.abc import Sequence

from trueput.gate.evidence import Evidence
from trueput.gate.rule_api import INFORMING, Finding, Outcome, Rule, bounds_text, finding

_METRIC = "ttft_ns_p50"
_SCOPE = "It compares medians over the requests that ended as asked."


def check(rule: Rule, evidence: Evidence) -> Sequence[Finding]:
    """Return one finding for time to first token, set against the end-to-end time."""
    ttft, e2e = evidence.ttft, evidence.e2e
    least, _ = evidence.limits(_METRIC, ttft)
    e2e_least, e2e_margin = evidence.limits("e2e_ns_p50", e2e)
    if ttft is None or e2e is None:
        runs = (*evidence.baseline, *evidence.candidate)
        observed = any(len(run.requests.known("ttft_ns")) for run in runs)
        outcome = Outcome.INCONCLUSIVE if observed else Outcome.NOT_APPLICABLE
        text = "Latencies of surviving requests are not known in every run."
    elif ttft.fell(least) and e2e.did_not_fall(e2e_margin):
        outcome = Outcome.FLAGGED
        text = f"TTFT improved, {bounds_text(ttft)}, end-to-end did not, {bounds_text(e2e)}."
    elif e2e.fell(e2e_least) or ttft.did_not_fall(least):
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
