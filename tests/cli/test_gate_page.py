"""The page of a gate: what stands over a finding is true of that finding."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from xml.etree import ElementTree as Xml

import pytest
from gate.made_up import repeats
from rich.console import Console

from trueput.cli.pages.gate_page import draw
from trueput.gate.render import to_junit
from trueput.gate.verdict import GateResult, gate


def judged(severities: tuple[str, ...]) -> GateResult:
    """A result in which the findings of one rule, all flagged, are of these severities."""
    result = gate(repeats("a", 3), [("c", repeats("b", 3, "g" * 20 + "l" * 30))])
    (candidate,) = result.candidates
    (drop, *_) = (f for f in candidate.findings if f.rule == "goodput-drop")
    found = [
        replace(drop, rule="first-token-only", metric=f"m{k}", severity=severity,
                conclusion=f"Conclusion {k}.")
        for k, severity in enumerate(severities)
    ]  # fmt: skip
    others = [f for f in candidate.findings if f.rule != "first-token-only"]
    changed = replace(candidate, findings=(*others, *found))
    return replace(result, candidates=(changed,))


@pytest.mark.parametrize(
    ("severities", "headings"),
    [
        (("informing", "blocking"), [("blocking", ["m1"]), ("informing", ["m0"])]),
        (
            ("informing", "blocking", "informing", "blocking"),
            [("blocking", ["m1", "m3"]), ("informing", ["m0", "m2"])],
        ),
        (("informing", "informing"), [("informing", ["m0", "m1"])]),
        (("blocking", "blocking"), [("", ["m0", "m1"])]),
    ],
)
def test_each_finding_stands_under_its_own_severity(
    severities: tuple[str, ...], headings: list[tuple[str, list[str]]]
) -> None:
    out = io.StringIO()
    draw(Console(file=out, width=160), judged(severities))
    found: list[tuple[str, list[str]]] = []
    for line in out.getvalue().splitlines():
        if heading := re.fullmatch(r"  first-token-only(?:  (\w+))?", line):
            found.append((heading[1] or "", []))
        elif metric := re.match(r"    flagged\s+(m\d) ", line):
            found[-1][1].append(metric[1])
    assert found == headings


def test_a_failure_in_junit_tells_of_what_blocks() -> None:
    root = Xml.fromstring(to_junit(judged(("informing", "blocking"))))
    (case,) = [c for c in root.iter("testcase") if c.get("name") == "first-token-only"]
    (failure,) = case.iter("failure")
    assert failure.get("message") == "Conclusion 1."
