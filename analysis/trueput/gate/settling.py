"""Words that several rules share: what is missing, and what would settle an open finding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from trueput.gate.evidence import Evidence
from trueput.gate.figures import number
from trueput.gate.rule_api import Finding, Outcome
from trueput.gate.statistics import MOST_REPEATS, Effect

_MOST_REQUESTS = 10**7


def goodput_missing(evidence: Evidence) -> str:
    """Say why goodput cannot be compared."""
    runs = (*evidence.baseline, *evidence.candidate)
    known = [
        run for run in runs if number(run.goodput, "goodput_rps", "goodput_rps_low") is not None
    ]
    if not known:
        return "Goodput is not known: no objective is set (hint: `--slo ttft=500ms,tpot=50ms`)."
    if len(known) < len(runs):
        lacking = sorted(run.run_id for run in runs if run not in known)
        return f"Goodput is not known in every run (missing: {', '.join(lacking)})."
    return "Goodput cannot be compared: too little is known of these runs."


def most(needed: Sequence[int | None]) -> int | None:
    """Return the largest need; ``None`` (too many to name) where any of them is."""
    known = [runs for runs in needed if runs is not None]
    return max(known) if known and len(known) == len(needed) else None


def settling_text(runs: int | None) -> str:
    """Say how many runs on each side would settle it, as far as today's variation tells."""
    if runs is None:
        return f"more than {MOST_REPEATS} runs on each side would be needed at today's variation"
    return f"about {runs} runs on each side would settle it"


def requests_text(effect: Effect, limit: float) -> str:
    """Say how many requests a run would need if only the count of requests limited the share."""
    from scipy import special

    gap = abs(effect.centre - limit)
    spread = sum(share * (1 - share) for share in (effect.baseline, effect.candidate))
    if gap == 0 or spread == 0:
        return ""
    needed = math.ceil(spread * (float(special.ndtri(0.95)) / gap) ** 2)
    return f", or about {needed} requests in each run" if needed < _MOST_REQUESTS else ""


def settled_by(found: Finding, runs: int | None) -> Finding:
    """Return the finding with its estimate of the runs that would settle it."""
    return replace(found, settle_runs=runs) if found.outcome is Outcome.INCONCLUSIVE else found
