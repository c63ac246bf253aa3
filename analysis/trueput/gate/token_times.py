"""Latencies that an objective leaves open: without a limit they can get worse unseen.

A limit on TTFT alone is met by a first token that is sent early and followed by silence. A limit on
the end-to-end time bounds the last token and says nothing of those between. So a latency counts as
held by an objective only where one of its limits bounds that latency itself.
"""

from __future__ import annotations

from typing import Final

from trueput.errors import UsageError
from trueput.gate.evidence import Evidence
from trueput.gate.figures import text
from trueput.slo import Slo, parse_slo

TTFT, TPOT, GAP, E2E = "ttft_ns_mean", "tpot_ns_mean", "longest_gap_ns_mean", "e2e_ns_mean"
LABELS: Final = {
    TTFT: "TTFT",
    TPOT: "TPOT",
    GAP: "The longest gap between chunks",
    E2E: "End-to-end time",
}


def objective(evidence: Evidence) -> Slo | None:
    """Return the limits that the runs were judged by; ``None`` without an objective."""
    runs = (*evidence.baseline, *evidence.candidate)
    told = next((slo for run in runs if (slo := text(run.goodput, "slo"))), None)
    if told is None or told == evidence.policy.slo_text:
        return None if told is None else evidence.policy.slo
    try:
        return parse_slo(told)
    except UsageError:
        return None


def left_open(slo: Slo) -> tuple[str, ...]:
    """Return the latencies that no limit holds, in the order of a reply.

    TPOT is held by a limit on it or on the gaps; the longest gap by one on the gaps only. An
    objective of whole answers (``e2e`` and nothing of tokens) leaves nothing open.
    """
    limited = [slo, *(held.limits for held in slo.classes)]
    of_tokens = any(x is not None for s in limited for x in (s.ttft, s.tpot, s.itl_p99))
    if not of_tokens and any(s.e2e is not None for s in limited):
        return ()
    held = {name for name in ("ttft", "tpot", "itl_p99", "e2e") if limit(slo, name) is not None}
    found = []
    if "ttft" not in held:
        found.append(TTFT)
    if not held & {"tpot", "itl_p99"}:
        found.append(TPOT)
        if "e2e" not in held:
            found.append(E2E)
    if "itl_p99" not in held:
        found.append(GAP)
    return tuple(found)


def limit(slo: Slo, name: str) -> int | None:
    """Return the limit that every request has, in ns; of several classes the loosest.

    A limit that only some classes have holds not every request: ``None``.
    """
    general: int | None = getattr(slo, name)
    own = [getattr(held.limits, name) for held in slo.classes]
    everywhere = [general if value is None else value for value in own] or [general]
    known = [value for value in (*everywhere, general) if value is not None]
    return max(known) if None not in everywhere else None
