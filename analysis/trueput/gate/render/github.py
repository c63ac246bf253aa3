"""A gate's result as workflow commands of GitHub Actions: one annotation for each candidate.

A flagged or unusable candidate is an error, one that could not be judged a warning, a passed one a
notice. GitHub shows ten annotations of a kind for a step, so that rules do not get their own; a
flagged rule that only informs is a notice.
"""

from __future__ import annotations

from trueput.gate.policy import BLOCKING
from trueput.gate.render.markdown import TITLES
from trueput.gate.rule_api import Finding, Outcome
from trueput.gate.verdict import CandidateResult, GateResult, Verdict

_LEVELS = {
    Verdict.FLAGGED: "error",
    Verdict.UNUSABLE: "error",
    Verdict.NOT_COMPARABLE: "warning",
    Verdict.INCONCLUSIVE: "warning",
    Verdict.PASS: "notice",
}
_DECIDING = {Verdict.FLAGGED: Outcome.FLAGGED, Verdict.INCONCLUSIVE: Outcome.INCONCLUSIVE}


def to_annotations(result: GateResult) -> str:
    """Return one workflow command a line; whatever a run is called, it stays in its message."""
    lines = [annotation(n.level, f"trueput gate: {n.about}", n.text) for n in result.notes]
    for candidate in result.candidates:
        title = f"trueput gate: {TITLES[candidate.verdict]}: {candidate.config}"
        lines.append(annotation(_LEVELS[candidate.verdict], title, _message(candidate)))
        for found in candidate.findings:
            if found.severity != BLOCKING and found.outcome is Outcome.FLAGGED:
                title = f"trueput gate: {found.rule} (informing): {candidate.config}"
                lines.append(annotation("notice", title, found.conclusion))
    return "".join(f"{line}\n" for line in lines)


def _message(candidate: CandidateResult) -> str:
    deciding = _DECIDING.get(candidate.verdict)
    findings: list[Finding] = [
        f for f in candidate.findings if f.severity == BLOCKING and f.outcome is deciding
    ]
    return "\n".join([f"{candidate.reason}.", *(f"{f.rule}: {f.conclusion}" for f in findings)])


def annotation(level: str, title: str, message: str) -> str:
    """Return one workflow command."""
    return f"::{level} title={_property(title)}::{_data(message)}"


def _visible(text: str) -> str:
    return "".join(c if c.isprintable() or c in " \n" else repr(c)[1:-1] for c in text)


def _data(text: str) -> str:
    found = _visible(text).replace("%", "%25")
    return found.replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(" ".join(text.split())).replace(":", "%3A").replace(",", "%2C")
