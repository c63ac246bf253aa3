"""A gate's result as JUnit XML: a suite for each candidate, a test case for each rule.

A flagged blocking rule is a failure; an inconclusive one is skipped, with what would settle it; a
flagged rule that only informs has passed and says so in its output. Unusable input is an error.
Where the sides are not comparable, or have too few runs, the findings decide nothing: every rule
is skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from trueput.gate.policy import BLOCKING
from trueput.gate.render.markdown import TITLES
from trueput.gate.rule_api import Finding, Outcome
from trueput.gate.verdict import CandidateResult, GateResult, Verdict

_UNDECIDED = {Verdict.NOT_COMPARABLE, Verdict.INCONCLUSIVE}


def to_junit(result: GateResult) -> str:
    """Return the document; whatever a run is called, it stays text inside its attribute."""
    suites = [_suite(candidate, result) for candidate in result.candidates]
    return document(suites)


def document(suites: Sequence[Xml.Element]) -> str:
    """Return the text of some suites, with the counts of each and of all."""
    for suite in suites:
        for name, value in _counts([suite], inside=True).items():
            suite.set(name, value)
    root = Xml.Element("testsuites", {"name": "trueput gate", **_counts(suites)})
    root.extend(suites)
    Xml.indent(root)
    text = Xml.tostring(root, encoding="unicode", short_empty_elements=True)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _suite(candidate: CandidateResult, result: GateResult) -> Xml.Element:
    suite = Xml.Element("testsuite", name=legal(candidate.config))
    properties = Xml.SubElement(suite, "properties")
    told = {
        "verdict": candidate.verdict.value,
        "reason": candidate.reason,
        "baseline": ", ".join(result.baseline_runs),
        "candidate": ", ".join(candidate.runs),
        "slo": (candidate.slo if result.several_slos else result.slo) or "none",
        "window_rule": result.window_rule or "unknown",
    }
    pairs = [*told.items(), *((f"{note.about} {note.level}", note.text) for note in result.notes)]
    for name, value in pairs:
        Xml.SubElement(properties, "property", name=name, value=legal(value))
    if candidate.verdict is Verdict.UNUSABLE:
        suite.append(_case(candidate, "input", "error", candidate.reason))
    if candidate.verdict is Verdict.NOT_COMPARABLE:
        suite.append(_case(candidate, "comparability", "skipped", candidate.reason))
    elif candidate.verdict is Verdict.INCONCLUSIVE and (open_ := _held_back(candidate)):
        suite.append(_case(candidate, "comparability", "skipped", f"inconclusive: {open_}"))
    elif candidate.verdict is not Verdict.UNUSABLE:
        suite.append(_case(candidate, "comparability", None, ""))
    rules: dict[str, list[Finding]] = {}
    for finding in candidate.findings:
        rules.setdefault(finding.rule, []).append(finding)
    suite.extend(_rule_case(candidate, name, found) for name, found in rules.items())
    return suite


def _held_back(candidate: CandidateResult) -> str:
    """Return the differences that let nothing pass; empty without any."""
    held = (d for d in candidate.comparability if d.holds_back)
    return "; ".join(f"{d.aspect}: {d.difference}" for d in held)


def _rule_case(candidate: CandidateResult, rule: str, found: Sequence[Finding]) -> Xml.Element:
    """Return one rule's case; its findings come with the worst first, which decides it.

    Of several as bad, one that blocks does.
    """
    decides = [f for f in found if f.severity == BLOCKING and f.outcome is found[0].outcome]
    worst, blocking = (decides or found)[0], bool(decides)
    text = "\n".join(_told(finding) for finding in found)
    kind, message = None, ""
    if worst.outcome is Outcome.INCONCLUSIVE:
        kind, message = "skipped", f"inconclusive: {worst.conclusion}"
    elif worst.outcome is Outcome.NOT_APPLICABLE:
        kind, message = "skipped", f"not applicable: {worst.conclusion}"
    elif worst.outcome is Outcome.FLAGGED and blocking:
        kind, message = "failure", worst.conclusion
    if candidate.verdict is Verdict.NOT_COMPARABLE or (
        kind == "failure" and candidate.verdict in _UNDECIDED
    ):
        kind = "skipped"
        message = f"{TITLES[candidate.verdict]}, {candidate.reason}; {worst.conclusion}"
    return _case(candidate, rule, kind, message, text)


def _case(
    candidate: CandidateResult, name: str, kind: str | None, message: str, text: str = ""
) -> Xml.Element:
    classname = f"trueput.gate.{candidate.config}"
    case = Xml.Element("testcase", classname=legal(classname), name=name, time="0")
    if kind is not None:
        state = Xml.SubElement(case, kind, message=legal(message))
        if kind in {"failure", "error"}:
            state.set("type", candidate.verdict.value)
            state.text = legal(text or message)
    if text and kind != "failure":
        Xml.SubElement(case, "system-out").text = legal(text)
    return case


def _told(finding: Finding) -> str:
    state = finding.outcome.value.replace("_", " ")
    return f"{state} ({finding.severity}): {finding.conclusion} {finding.scope}"


def _counts(suites: Sequence[Xml.Element], *, inside: bool = False) -> dict[str, str]:
    kinds = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
    if not inside and not suites:
        return dict.fromkeys(kinds, "0")
    return {
        name: str(sum(sum(1 for _ in suite.iter(tag)) for suite in suites))
        for name, tag in kinds.items()
    }


def legal(text: str) -> str:
    """Return text without what XML or a terminal would not take: such characters are written out.

    Lines stay lines.
    """
    return "".join(c if c.isprintable() or c in " \n" else repr(c)[1:-1] for c in text)
