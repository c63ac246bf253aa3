"""Classes of the objective: one that nobody is in shows nothing, one that moved is another load."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from gate.made_up import repeats

from trueput.gate.classes import ClassTally, classes_gap, counts_text
from trueput.gate.figures import RunFigures
from trueput.gate.loads import Difference
from trueput.gate.policy import Policy
from trueput.gate.render import to_json, to_junit, to_markdown
from trueput.gate.requests import ClassCount
from trueput.gate.verdict import GateResult, Verdict, gate

CHAT = "label chat"


def side(name: str, *counts: tuple[int, int, int]) -> list[RunFigures]:
    """Return repeats of a run whose class has these counts: of it, not known, planned."""
    runs = repeats(name, len(counts))
    return [
        replace(run, classes={CHAT: ClassCount(*count)})
        for run, count in zip(runs, counts, strict=True)
    ]


def judged(
    base: tuple[int, int, int], cand: tuple[int, int, int], policy: Policy | None = None
) -> GateResult:
    return gate(side("a", *[base] * 3), [("c", side("b", *[cand] * 3))], policy)


def difference(base: tuple[int, int, int], cand: tuple[int, int, int]) -> Difference | None:
    found = classes_gap(side("a", base)[0], side("b", cand)[0])
    return None if found is None else found[1]


@pytest.mark.parametrize(
    ("base", "cand", "verdict", "words"),
    [
        ((0, 0, 200), (0, 0, 200), Verdict.INCONCLUSIVE, "no request of either side is in it"),
        ((0, 200, 200), (0, 200, 200), Verdict.INCONCLUSIVE, "is known to be in it"),
        ((26, 0, 200), (0, 0, 200), Verdict.NOT_COMPARABLE, "no request of the candidate is in it"),
        ((0, 0, 200), (26, 0, 200), Verdict.NOT_COMPARABLE, "no request of the baseline is in it"),
        # the 200 whose label nobody told may all be of it, or none
        ((26, 0, 200), (0, 200, 200), Verdict.INCONCLUSIVE, "-13.0 points of the requests"),
        # 26 refused ones without a length may be those of the class: what came back never blocks
        ((26, 0, 200), (0, 26, 200), Verdict.INCONCLUSIVE, "-13.0 points of the requests"),
        # one of 200: chance gives 2.576 x sqrt(0.0025 x 0.9975 x 2 / 200) = 1.3 points
        ((1, 0, 200), (0, 0, 200), Verdict.INCONCLUSIVE, "by chance up to 1.3"),
        # 25 points are over 12 and over chance: 2.576 x sqrt(0.375 x 0.625 x 2 / 200) = 12.5
        ((100, 0, 200), (50, 0, 200), Verdict.NOT_COMPARABLE, "-25.0 points of the requests"),
        # one of two: chance would give 2.576 x sqrt(0.5 x 0.5 x 2 / 2) = 128.8 points
        ((2, 0, 2), (0, 0, 2), Verdict.INCONCLUSIVE, "too few to tell it from chance"),
        # 15 points of 20 requests: over 12, and chance gives 40.2
        ((10, 0, 20), (7, 0, 20), Verdict.INCONCLUSIVE, "-15.0 points of the requests, by chance"),
        # so many requests may be what goodput lost by: 5 points are the least change that counts
        ((20, 0, 200), (10, 0, 200), Verdict.INCONCLUSIVE, "-5.0 points of the requests"),
        ((26, 0, 200), (3, 0, 200), Verdict.INCONCLUSIVE, "-11.5 points of the requests"),
        # half the load of a smaller class is told
        ((18, 0, 200), (9, 0, 200), Verdict.PASS, "-4.5 points of the requests"),
        ((9, 0, 200), (18, 0, 200), Verdict.PASS, "2.00 times the share"),
    ],
)  # fmt: skip
def test_where_a_class_differs(
    base: tuple[int, int, int], cand: tuple[int, int, int], verdict: Verdict, words: str
) -> None:
    found = judged(base, cand).candidates[0]
    (told,) = (d for d in found.comparability if d.aspect == "slo_classes")
    assert words in told.difference
    assert found.verdict is verdict
    assert told.baseline.startswith(f"label chat: {base[0]} of {base[2]}")
    if verdict is Verdict.INCONCLUSIVE:
        assert told.difference in found.reason
    lifted = judged(base, cand, Policy(under_test=frozenset({"slo_classes"})))
    assert lifted.verdict is Verdict.PASS


def test_like_classes_are_no_difference() -> None:
    assert difference((20, 0, 200), (20, 0, 200)) is None
    assert difference((20, 0, 200), (28, 3, 200)) is None
    found = judged((20, 0, 200), (20, 0, 200)).candidates[0]
    assert found.verdict is Verdict.PASS
    assert found.classes == (
        ClassTally(CHAT, (ClassCount(20, 0, 200),) * 3, (ClassCount(20, 0, 200),) * 3),
    )


def test_a_repeat_without_the_class_is_another_load() -> None:
    cand = side("b", (26, 0, 200), (26, 0, 200), (0, 0, 200))
    found = gate(side("a", *[(26, 0, 200)] * 3), [("c", cand)]).candidates[0]
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reason == "the repeats of the candidate are different loads: slo_classes"


def test_counts_are_shown_in_every_form() -> None:
    result = judged((0, 200, 200), (0, 150, 200))
    (told,) = json.loads(to_json(result))["candidates"][0]["classes"]
    assert told["class"] == CHAT
    assert told["baseline"] == [{"requests": 0, "unknown": 200, "planned": 200}] * 3
    assert told["candidate"] == [{"requests": 0, "unknown": 150, "planned": 200}] * 3
    row = "| label chat | 0, 0, 0 of 200 (200, 200, 200 not known) | "
    assert f"{row}0, 0, 0 of 200 (150, 150, 150 not known) |\n" in to_markdown(result)
    skipped = '<skipped message="inconclusive: slo_classes: label chat: no request of either side'
    assert skipped in to_junit(result)
    assert (
        counts_text([ClassCount(1, 0, 10), ClassCount(2, 3, 20)])
        == "1 of 10, 2 of 20 (3 not known)"
    )
