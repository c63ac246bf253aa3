"""More of the prompts came from the prefix cache, and the whole answer came no sooner."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trueput.gate.evidence import Evidence
from trueput.gate.figures import number
from trueput.gate.limits_text import by_more, did_not
from trueput.gate.rule_api import INFORMING, Finding, Outcome, Rule, bounds_text, finding
from trueput.gate.statistics import Effect

_METRIC = "hit_ratio"
_SCOPE = (
    "A hit saves prefill only. End-to-end is the median over all that was sent, a lost request "
    "lasting for ever; the share of prefill is the baseline's."
)


def check(rule: Rule, evidence: Evidence) -> Sequence[Finding]:
    """Return one finding for the hit rate, set against the end-to-end time."""
    hits, e2e = evidence.cache_hits, evidence.completion
    least, margin = evidence.limits(_METRIC, hits)
    e2e_least, e2e_margin = evidence.limits("e2e_ns_p50", e2e)
    if hits is None:
        partly = evidence.one_sided(lambda run: number(run.prefix_cache, "hit_tokens", _METRIC))
        outcome = Outcome.INCONCLUSIVE if partly else Outcome.NOT_APPLICABLE
        where = "in every run" if partly else "on either side"
        text = f"Prefix-cache hits are not known {where}."
    elif hits.baseline == hits.candidate == 0:
        outcome, text = Outcome.NOT_APPLICABLE, "No prompt token came from the prefix cache."
    elif hits.did_not_rise(margin):
        outcome = Outcome.PASS
        text = f"{did_not('The hit rate', 'rise', evidence, _METRIC, hits, margin=True)}."
    elif e2e is None:
        outcome = Outcome.INCONCLUSIVE
        text = f"The hit rate moved by {bounds_text(hits)}; end-to-end times cannot be compared."
    else:
        by = by_more("fall", evidence, "e2e_ns_p50", e2e, margin=True)
        outcome, text = _against(hits, e2e, (least, e2e_least, e2e_margin), by)
        text = f"{text}{_most_saved(evidence)}."
    return [
        finding(
            rule, outcome, _METRIC, "ratio", hits,
            basis=evidence.basis(lambda run: run.prefix_cache), conclusion=text, scope=_SCOPE,
        )
    ]  # fmt: skip


def _against(
    hits: Effect, e2e: Effect, limits: tuple[float, float, float], by: str
) -> tuple[Outcome, str]:
    least, e2e_least, e2e_margin = limits
    if hits.rose(least) and e2e.did_not_fall(e2e_margin):
        text = f"The hit rate rose by {bounds_text(hits)}, end-to-end did not fall{by}, "
        return Outcome.FLAGGED, f"{text}{bounds_text(e2e)}"
    if e2e.fell(e2e_least):
        text = f"The hit rate moved by {bounds_text(hits)} and end-to-end fell, "
        return Outcome.PASS, f"{text}{bounds_text(e2e)}"
    text = f"The hit rate {bounds_text(hits)} and end-to-end {bounds_text(e2e)} do not settle it"
    return Outcome.INCONCLUSIVE, text


def _most_saved(evidence: Evidence) -> str:
    """Say what part of the wall time prefill was: no hit can save more."""
    column = "prefill_share_of_e2e_ratio"
    shares = [number(run.prefix_cache, column) for run in evidence.baseline]
    known = [share for share in shares if share is not None]
    if not known or len(known) < len(shares):
        return "; prefill's share of end-to-end, the most that hits could save, is not known"
    mean = math.fsum(known) / len(known)
    return f"; prefill is {mean:.1%} of end-to-end in the baseline, the most that hits could save"


RULE = Rule(
    name="cache-hit-without-benefit",
    severity=INFORMING,
    order=80,
    summary="the prefix-cache hit rate rose, completion latency did not fall",
    check=check,
)
