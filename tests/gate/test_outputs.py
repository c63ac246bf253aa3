"""The gate's outputs for machines: JSON under its schema, JUnit XML, GitHub annotations.

What each verdict and outcome must become is written here by hand; a hostile name stays text.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from functools import cache
from typing import Any
from xml.etree import ElementTree as Xml

import jsonschema
import pytest
from gate.made_up import repeats, run

from trueput.errors import InputError
from trueput.gate.policy import Note, Policy, parse_policy
from trueput.gate.render import (
    failure_annotations,
    failure_json,
    failure_junit,
    failure_markdown,
    to_annotations,
    to_json,
    to_junit,
    to_markdown,
)
from trueput.gate.render.markdown import prose
from trueput.gate.render.schema import schema
from trueput.gate.verdict import GateResult, gate

HOSTILE = "a\n::set-env name=X::y\r\n%0A]]><&\"'>|\x00\x1b[31m\u202e::,:"
INFORMING = Policy(
    rules={"goodput-drop": "informing", "activity-without-goodput": "informing",
           "hidden-failures": "blocking"},
)  # fmt: skip


@cache
def results() -> dict[str, GateResult]:
    """Return a result of every verdict, and some mixtures."""
    base, two = repeats("a", 3), repeats("a", 2)
    late, busy = repeats("b", 3, "g" * 20 + "l" * 30), repeats("b", 3, tokens=20_000)
    expired = parse_policy(
        "[[overrides]]\nrule = 'goodput-drop'\nseverity = 'informing'\nowner = 'o'\n"
        "reason = 'r'\nexpires = 2026-01-01"
    )
    return {
        "pass": gate(base, [("c", repeats("b", 3))]),
        "flagged": gate(base, [("c", late)]),
        "inconclusive": gate(two, [("c", repeats("b", 2))]),
        "not_comparable": gate(base, [("c", repeats("b", 3, prompt=200))]),
        "not_comparable_and_late": gate(base, [("c", repeats("b", 3, "g" * 9 + "l" * 41,
                                                             prompt=200))]),
        "unusable": gate(base, [("c", [run("b", "")])]),
        "informing": gate(base, [("c", busy)], INFORMING),
        "too_few": gate(base, [("c", late)], Policy(repeats=5)),
        "zero": gate(base, [("c", repeats("b", 3, "l" * 50))]),
        "no_objective": gate(repeats("a", 3, slo=None), [("c", repeats("b", 3, slo=None))]),
        "no_activity": gate(repeats("a", 3, activity=False), [("c", repeats("b", 3))]),
        "notes": gate(base, [("c", late)], expired, today=date(2026, 6, 1)),
        "many": gate(base, [("one", late), ("two", repeats("b", 3)), ("three", busy)]),
        "hostile": gate(base, [(HOSTILE, [replace(r, run_id=HOSTILE + r.run_id) for r in late])],
                        baseline_config=HOSTILE),
    }  # fmt: skip


@pytest.fixture(scope="module")
def made() -> dict[str, GateResult]:
    return results()


NAMES = tuple(results())


# --- JSON ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_json_is_valid_under_its_schema(made: dict[str, GateResult], name: str) -> None:
    document = json.loads(to_json(made[name]), parse_constant=pytest.fail)
    jsonschema.Draft202012Validator(schema()).validate(document)
    jsonschema.Draft202012Validator(closed(schema())).validate(document)


def closed(part: Any) -> Any:
    """Return the schema with no room for a key that it does not describe."""
    if isinstance(part, dict):
        inner = {key: closed(value) for key, value in part.items()}
        return {**inner, "additionalProperties": False} if "properties" in part else inner
    return [closed(item) for item in part] if isinstance(part, list) else part


def test_the_schema_refuses_what_is_no_verdict(made: dict[str, GateResult]) -> None:
    validator = jsonschema.Draft202012Validator(schema())
    for key, value in (("verdict", "fine"), ("exit_code", 100), ("schema", "trueput.gate/2"),
                       ("candidates", [])):  # fmt: skip
        document = {**json.loads(to_json(made["pass"])), key: value}
        assert not validator.is_valid(document), key
    document = json.loads(to_json(made["pass"]))
    del document["candidates"][0]["findings"][0]["scope"]
    assert not validator.is_valid(document)


# --- JUnit -----------------------------------------------------------------------------------


def suite(result: GateResult) -> Xml.Element:
    root = Xml.fromstring(to_junit(result))
    assert root.tag == "testsuites"
    return root[0]


def states(result: GateResult) -> dict[str, str]:
    """Return what each test case is: passed, failure, error or skipped."""
    found = {}
    for case in suite(result).iter("testcase"):
        kinds = [c.tag for c in case if c.tag in {"failure", "error", "skipped"}]
        assert len(kinds) <= 1
        found[case.attrib["name"]] = kinds[0] if kinds else "passed"
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pass", {"comparability": "passed", "goodput-drop": "passed",
                  "activity-without-goodput": "passed"}),
        ("flagged", {"goodput-drop": "failure", "hidden-failures": "passed"}),
        ("inconclusive", {"goodput-drop": "skipped", "comparability": "passed"}),
        ("not_comparable", {"comparability": "skipped", "goodput-drop": "skipped",
                            "hidden-failures": "skipped"}),
        ("not_comparable_and_late", {"goodput-drop": "skipped"}),
        ("unusable", {"input": "error"}),
        ("informing", {"activity-without-goodput": "passed"}),
        ("too_few", {"goodput-drop": "skipped", "hidden-failures": "passed"}),
        ("no_activity", {"activity-without-goodput": "skipped"}),
    ],
)  # fmt: skip
def test_junit_says_of_each_rule(
    made: dict[str, GateResult], name: str, expected: dict[str, str]
) -> None:
    found = states(made[name])
    assert {rule: found[rule] for rule in expected} == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_junit_failure_is_a_flagged_verdict(made: dict[str, GateResult], name: str) -> None:
    for result in made[name].candidates:
        one = replace(made[name], candidates=(result,))
        kinds = set(states(one).values())
        assert ("failure" in kinds) == (result.verdict == "flagged")
        assert ("error" in kinds) == (result.verdict == "unusable")
        if result.verdict in {"inconclusive", "not_comparable"}:
            assert "skipped" in kinds


@pytest.mark.parametrize("name", NAMES)
def test_junit_counts_agree_with_its_cases(made: dict[str, GateResult], name: str) -> None:
    root = Xml.fromstring(to_junit(made[name]))
    for element in (root, *root.iter("testsuite")):
        cases = list(element.iter("testcase"))
        tags = [child.tag for case in cases for child in case]
        assert int(element.attrib["tests"]) == len(cases) > 0
        for attribute, tag in (("failures", "failure"), ("errors", "error"),
                               ("skipped", "skipped")):  # fmt: skip
            assert int(element.attrib[attribute]) == tags.count(tag)


def test_junit_messages_say_why(made: dict[str, GateResult]) -> None:
    skipped = suite(made["inconclusive"]).find("testcase[@name='goodput-drop']/skipped")
    assert skipped is not None
    assert skipped.attrib["message"].startswith("inconclusive: Goodput 1.000x")
    assert "about 3 runs on each side would settle it" in skipped.attrib["message"]
    failure = suite(made["flagged"]).find("testcase[@name='goodput-drop']/failure")
    assert failure is not None
    assert failure.attrib["message"].startswith("Goodput fell, 0.400x")
    informing = suite(made["informing"]).find("testcase[@name='activity-without-goodput']")
    assert informing is not None
    assert "flagged (informing): Scheduled tokens rose" in (informing.findtext("system-out") or "")
    few = suite(made["too_few"]).find("testcase[@name='goodput-drop']/skipped")
    assert few is not None
    assert "the policy asks for 5 runs on each side" in few.attrib["message"]


def test_skipped_rules_say_what_would_settle_them(made: dict[str, GateResult]) -> None:
    cases = {case.attrib["name"]: case for case in suite(made["inconclusive"]).iter("testcase")}
    for rule in ("first-token-only", "throughput-without-goodput"):
        skipped = cases[rule].find("skipped")
        assert skipped is not None
        assert re.search(r"(about \d+|more than 100) runs on each side", skipped.attrib["message"])


def test_junit_of_two_candidates_has_two_suites(made: dict[str, GateResult]) -> None:
    root = Xml.fromstring(to_junit(made["many"]))
    assert [s.attrib["name"] for s in root] == ["one", "two", "three"]
    assert root.attrib["failures"] == "2"


# --- GitHub ----------------------------------------------------------------------------------

COMMAND = re.compile(r"::(error|warning|notice) title=([^:,\n]*)::(.*)")


def annotations(result: GateResult) -> list[tuple[str, str, str]]:
    found = []
    for line in to_annotations(result).splitlines():
        match = COMMAND.fullmatch(line)
        assert match, line
        found.append((match[1], match[2], match[3]))
    return found


@pytest.mark.parametrize(
    ("name", "level"),
    [("pass", "notice"), ("flagged", "error"), ("inconclusive", "warning"),
     ("not_comparable", "warning"), ("unusable", "error"), ("too_few", "warning")],
)  # fmt: skip
def test_one_annotation_a_candidate(made: dict[str, GateResult], name: str, level: str) -> None:
    found = annotations(made[name])
    told = [a[0] for a in found if "(informing)" not in a[1] and "policy" not in a[1]]
    assert told == [level]


def test_annotations_name_the_deciding_rules(made: dict[str, GateResult]) -> None:
    level, title, message = annotations(made["flagged"])[0]
    assert (level, title) == ("error", "trueput gate%3A flagged%3A c")
    assert message.startswith("goodput-drop.%0Agoodput-drop: Goodput fell, 0.400x")
    assert "one-sided" not in message
    informing = annotations(made["informing"])
    assert [a[0] for a in informing] == ["notice", "notice", "notice"]
    assert "[rules] goodput-drop = informing (default blocking)" in informing[0][2]
    assert "activity-without-goodput (informing)" in informing[2][1]
    assert annotations(made["notes"])[0][0] == "warning"


def test_a_percent_sign_is_escaped_once() -> None:
    result = replace(results()["pass"], notes=(Note("warning", "100 % of %0A\nx"),))
    assert annotations(result)[0][2] == "100 %25 of %250A%0Ax"


def test_a_name_in_markdown_pings_nobody_and_is_not_set_in_bold() -> None:
    result = gate(repeats("a", 3), [("@team/all **x** `y`", repeats("b", 3))])
    heading = next(x for x in to_markdown(result).splitlines() if x.startswith("### "))
    assert heading == "### @&#8203;team/all &#42;&#42;x&#42;&#42; &#96;y&#96;: pass"


def test_a_gate_that_could_not_judge_says_so_in_every_form() -> None:
    error = InputError("no run `x`\n%", "list them: `trueput runs`")
    document = json.loads(failure_json(error))
    jsonschema.Draft202012Validator(closed(schema())).validate(document)
    assert (document["verdict"], document["exit_code"]) == (None, 2)
    assert document["error"] == {"message": error.message, "hint": error.hint}
    root = Xml.fromstring(failure_junit(error))
    assert (root.attrib["tests"], root.attrib["errors"], root.attrib["failures"]) == ("1", "1", "0")
    assert root.find("testsuite/testcase/error[@type='not_judged']") is not None
    (line,) = failure_annotations(error).splitlines()
    match = COMMAND.fullmatch(line)
    assert match
    assert (match[1], match[3].split("%0A")[0]) == ("error", "no run `x`")
    assert "no run `x` %" in failure_markdown(error)


def test_a_hostile_name_stays_text(made: dict[str, GateResult]) -> None:
    result = made["hostile"]
    assert len(annotations(result)) == len(to_annotations(result).splitlines()) == 1
    root = Xml.fromstring(to_junit(result))
    assert root[0].attrib["name"].startswith("a\n::set-env")
    assert "\\x1b[31m" in root[0].attrib["name"]
    for text in (to_annotations(result), to_junit(result)):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    for line in to_markdown(result).splitlines():
        assert not line.startswith("::")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("hint: `--slo ttft=500ms`", "hint: `--slo ttft=500ms`"),
        (
            'wait (`[slo] from = "scheduled"` counts it)',
            'wait (`[slo] from = "scheduled"` counts it)',
        ),
        ("a run named x`y and `bench.json`", "a run named x&#96;y and `bench.json`"),
        (
            "a run named `|`, `<b>` or ``",
            "a run named &#96;&#124;&#96;, &#96;&lt;b&gt;&#96; or &#96;&#96;",
        ),
        ("`@team`", "&#96;@&#8203;team&#96;"),
    ],
)
def test_code_in_a_sentence_stays_code(text: str, shown: str) -> None:
    assert prose(text) == shown


def test_markdown_has_the_units_of_the_table() -> None:
    """Runs of 1 s a request against 2 s: spans are written as spans, rates with their unit."""
    result = gate(repeats("a", 3), [("c", repeats("b", 3, latency_ns=2 * 10**9))])
    assert "| e2e_ns_mean | 1.00 s | 2.00 s | 2.000x |" in to_markdown(result)
    assert "| goodput_rps | 0.5 1/s | 0.5 1/s | 1.000x |" in to_markdown(result)
    assert "e+0" not in to_markdown(result)


def test_markdown_names_what_does_not_apply_in_one_line() -> None:
    told = to_markdown(gate(repeats("a", 3), [("c", repeats("b", 3))])).splitlines()
    (line,) = [x for x in told if "quality-drop" in x]
    assert line.startswith("Not applicable: ")
    assert not [x for x in told if "not applicable" in x]


def test_what_blocks_stands_before_the_findings() -> None:
    cand = repeats("b", 3, prompt=200, engine_version="2", model="m")
    told = to_markdown(gate(repeats("a", 3, engine_version="1", model="m"), [("c", cand)]))
    places = [told.index(x) for x in ("| prompt_lengths |", "| engine_version |", "| rule |")]
    assert places == sorted(places)
