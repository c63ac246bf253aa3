"""A policy that silences a regression leaves a trace in every output, and no sentence lies.

Each case states a policy that turns a flagged candidate into a pass, and what must name it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from gate.made_up import repeats

from trueput.gate.policy import parse_policy
from trueput.gate.policy.settings import differing
from trueput.gate.render import to_annotations, to_json, to_junit, to_markdown
from trueput.gate.render.plain import to_text
from trueput.gate.rules import discover
from trueput.gate.verdict import GateResult, Verdict, gate

LATE = "g" * 20 + "l" * 30
"""Good and late requests of the candidate: 20 of 50 are good, those of the baseline all are."""
WIDE = "min_effect = 0.99\nmargin = 0.99\n"
FLOORS = "[metrics.goodput_rps]\nfloor = 500\n[metrics.slo_attainment_ratio]\nfloor = 0.9\n"
DEMOTED = "[rules]\ngoodput-drop = 'informing'\nrecompute-growth = 'informing'\n"
OUTPUTS: dict[str, Callable[[GateResult], str]] = {
    "json": to_json, "markdown": to_markdown, "junit": to_junit, "github": to_annotations,
    "plain": to_text,
}  # fmt: skip


def judged(policy: str = "", states: str = LATE, tokens: int | None = None) -> GateResult:
    more = {} if tokens is None else {"tokens": tokens}
    return gate(repeats("a", 3), [("c", repeats("b", 3, states, **more))], parse_policy(policy))


def told(result: GateResult, rule: str, metric: str) -> str:
    found = result.candidates[0].findings
    return next(f.conclusion for f in found if (f.rule, f.metric) == (rule, metric))


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(
    ("policy", "named"),
    [
        (WIDE, ("min_effect = 0.99 (default 0.05)", "margin = 0.99 (default 0.05)")),
        (FLOORS, ("[metrics.goodput_rps] floor = 500 1/s (default 0)",
                  "[metrics.slo_attainment_ratio] floor = 0.9 (default 0)")),
        (DEMOTED, ("[rules] goodput-drop = informing (default blocking)",
                   "[rules] recompute-growth = informing (default informing, in some cases "
                   "blocking)")),
        ("[exit]\ninconclusive = 0\n", ("[exit] inconclusive = 0 (default 3)",)),
        ("[under_test]\nconcurrency = true\n", ("[under_test] concurrency = true (default none)",)),
    ],
)  # fmt: skip
def test_every_output_names_what_is_set(output: str, policy: str, named: tuple[str, ...]) -> None:
    text = OUTPUTS[output](judged(policy))
    for setting in named:
        assert setting in text


def test_json_lists_the_settings() -> None:
    assert json.loads(to_json(judged("margin = 0.2\n")))["policy"] == [
        {"key": "margin", "value": "0.2", "default": "0.05"}
    ]
    assert json.loads(to_json(judged()))["policy"] == []


def test_what_is_set_to_its_default_is_not_named() -> None:
    policy = parse_policy("min_effect = 0.05\nrepeats = 1\n[rules]\nwarm-but-later = 'informing'\n")
    assert differing(policy, discover()) == ()


@pytest.mark.parametrize("policy", [WIDE, FLOORS, DEMOTED])
def test_the_policies_do_silence(policy: str) -> None:
    assert judged().verdict is Verdict.FLAGGED
    assert judged(policy).verdict is Verdict.PASS


def test_a_pass_says_how_many_rules_only_inform() -> None:
    assert judged(DEMOTED).candidates[0].reason == (
        "every blocking rule passed (2 rules only inform by policy: goodput-drop, recompute-growth)"
    )
    assert judged(WIDE).candidates[0].reason == "every blocking rule passed"


def test_a_conclusion_names_the_limit_that_decided() -> None:
    goodput = ("goodput-drop", "goodput_rps")
    assert told(judged(WIDE), *goodput).startswith(
        "Goodput did not fall by more than the policy's 99 %: 0.400x"
    )
    assert told(judged(FLOORS), *goodput).startswith(
        "Goodput did not fall by more than the policy's floor of 500 1/s: 0.400x"
    )
    assert told(judged("", "g" * 50), *goodput).startswith("Goodput did not fall, 1.000x")
    rule = ("activity-without-goodput", "scheduled_tokens")
    open_ = told(judged(WIDE, "g" * 50, 20_000), *rule)
    assert "do not settle it (limit: the policy's 99 %)" in open_
    sides = repeats("a", 3, "g" * 40 + "l" * 10), repeats("b", 3, tokens=20_000)
    half = gate(sides[0], [("c", sides[1])], parse_policy("min_effect = 0.5\nmargin = 0.5\n"))
    assert half.verdict is Verdict.FLAGGED
    assert "and goodput did not by more than the policy's 50 %, 1.250x" in told(half, *rule)


DID_NOT = re.compile(r"did not( fall| rise)?, ([\d.]+)x \(([\d.]+) to ([\d.]+)\)")


@pytest.mark.parametrize("policy", ["", WIDE, FLOORS, "margin = 0.9\n", "min_effect = 0.9\n"])
@pytest.mark.parametrize("states", ["g" * 50, LATE, "g" * 49 + "l", "g" * 46 + "l" * 4])
@pytest.mark.parametrize("tokens", [None, 20_000])
def test_no_sentence_contradicts_its_figures(policy: str, states: str, tokens: int | None) -> None:
    sentences = [f.conclusion for f in judged(policy, states, tokens).candidates[0].findings]
    for sentence in sentences:
        for verb, _, low, high in DID_NOT.findall(sentence):
            if verb == " fall":
                assert float(low) >= 0.95, sentence
                assert float(high) >= 1, sentence
            if verb == " rise":
                assert float(high) <= 1.05, sentence
                assert float(low) <= 1, sentence
