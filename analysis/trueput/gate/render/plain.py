"""A gate's result as a few plain lines: what decided it, for a failed test or a log."""

from __future__ import annotations

from collections import Counter

from trueput.gate.policy import BLOCKING
from trueput.gate.render.markdown import TITLES
from trueput.gate.rule_api import Outcome
from trueput.gate.verdict import CandidateResult, GateResult, Verdict

_DECIDING = (Outcome.FLAGGED, Outcome.INCONCLUSIVE)


def to_text(result: GateResult) -> str:
    """Return the verdict of each candidate with the findings and differences that decided it."""
    lines = [f"{note.level}: {note.text}" for note in result.notes]
    for candidate in result.candidates:
        lines += _candidate(candidate, result)
    return "\n".join(_visible(line) for line in lines)


def to_line(result: GateResult) -> str:
    """Return the verdict in one line."""
    verdict, base = TITLES[result.verdict], result.baseline_config
    if len(result.candidates) == 1:
        one = result.candidates[0]
        told = f"{one.config} against {base}: {one.reason}"
    else:
        counts = Counter(TITLES[candidate.verdict] for candidate in result.candidates)
        shares = ", ".join(f"{count} {title}" for title, count in counts.items())
        told = f"{len(result.candidates)} candidates against {base}: {shares}"
    return _visible(f"trueput gate: {verdict}: {told}") + "\n"


def _candidate(candidate: CandidateResult, result: GateResult) -> list[str]:
    title = TITLES[candidate.verdict]
    lines = [
        f"trueput gate: {title}: {candidate.config} against {result.baseline_config}",
        f"  objective {_slo(candidate, result)}, {len(result.baseline_runs)} baseline and "
        f"{len(candidate.runs)} candidate runs",
        f"  because: {candidate.reason}",
    ]
    if candidate.verdict in {Verdict.NOT_COMPARABLE, Verdict.INCONCLUSIVE}:
        lines += [
            f"  {d.aspect}: {d.baseline} against {d.candidate} ({d.difference})"
            for d in candidate.comparability
            if d.blocks or d.holds_back
        ]
    for found in candidate.findings:
        if found.severity == BLOCKING and found.outcome in _DECIDING:
            lines.append(f"  {found.outcome.value}: {found.rule}: {found.conclusion}")
    if candidate.settle_runs is not None:
        lines.append(f"  about {candidate.settle_runs} runs on each side would settle it")
    return lines


def _slo(candidate: CandidateResult, result: GateResult) -> str:
    return (candidate.slo or "none") if result.several_slos else result.objective


def _visible(text: str) -> str:
    return "".join(c if c.isprintable() or c == " " else repr(c)[1:-1] for c in text)
