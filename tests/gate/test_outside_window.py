"""Requests that the window leaves out are counted, and losses among them held against a pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from gate.made_up import SECOND, run
from gate.served import BROKEN, SLO, kept, usual

from trueput.gate.comparability import compare_sides
from trueput.gate.figures import RunFigures
from trueput.gate.outside_window import Outside, few_notes, outside, outside_gap
from trueput.gate.verdict import GateResult, Verdict
from trueput.verbs.compare import compare
from trueput.verbs.gate import gate
from trueput.verbs.opening import Reading


def cut(outcomes: str, inside: int, rule: str | None = "fixed") -> RunFigures:
    """Return a run whose window holds its first `inside` requests."""
    whole, within = run("a", outcomes), run("a", outcomes[:inside])
    row = dict(within.goodput or {}) | {"window_rule": rule}
    return replace(whole, goodput=row, window=None if rule is None else (0, 50 * SECOND))


def test_what_lies_outside_is_counted() -> None:
    """Ten requests, the first six inside with one of them lost; of the four others two are lost."""
    assert outside(cut("gggggf" + "gfrg", 6)) == Outside(4, 2, 10)
    assert outside(cut("gggggf" + "gfrg", 10)) == Outside(0, 0, 10)


@pytest.mark.parametrize("rule", ["all", None])
def test_a_whole_window_leaves_nothing_out(rule: str | None) -> None:
    assert outside(cut("g" * 10, 6, rule)) is None


@pytest.mark.parametrize(
    ("base", "cand", "listed", "held"),
    [
        ("g" * 100, "g" * 100, False, False),
        ("g" * 100, "f" * 100, True, True),
        ("f" * 100, "g" * 100, True, False),  # the baseline's losses are nobody's gain
        ("f" * 100, "f" * 100, False, False),
        ("g" * 100, "g" * 97 + "f" * 3, True, False),  # under five points
        ("g" * 10, "g" * 9 + "f", True, False),  # ten points: one of ten requests, by chance
    ],
)
def test_more_losses_outside_hold_back(base: str, cand: str, listed: bool, held: bool) -> None:
    found = outside_gap(cut("g" * 50 + base, 50), cut("g" * 50 + cand, 50))
    assert (found is not None) is listed
    assert found is None or (found[1].blocks, found[1].holds_back) == (False, held)


@pytest.mark.parametrize(("load", "inside", "blocks"), [(60, 41, False), (70, 40, True)])
def test_what_was_asked_is_of_the_whole_load(load: int, inside: int, blocks: bool) -> None:
    """One more arrival inside the window's edge is no other load; ten more planned requests are."""
    base, cand = (
        replace(cut("g" * planned, held), planned_fixed=True)
        for planned, held in ((60, 40), (load, inside))
    )
    found = [d for d in compare_sides([base], [cand]) if d.aspect == "planned_requests"]
    assert [(d.baseline, d.candidate, d.blocks) for d in found] == [("60", "70", True)] * blocks


@pytest.mark.parametrize(
    ("planned", "inside", "few"), [(60, 4, 1), (60, 10, 0), (5, 5, 0), (60, 0, 0)]
)
def test_a_window_of_few_requests_is_told(planned: int, inside: int, few: int) -> None:
    notes = few_notes([cut("g" * planned, inside)])
    assert len(notes) == few
    assert all("`fixed` holds 4 of its 60 requests" in note.text for note in notes)


@pytest.mark.long
def test_a_window_that_ends_before_the_engine_died_does_not_pass(tmp_path: Path) -> None:
    """60 requests in 30 s, the last fifteen broken off; the window ends after 20 s."""
    dead = [*usual()[:45], *(replace(BROKEN, prompt=r.prompt) for r in usual()[45:])]
    base, again, cand = (
        kept(tmp_path, name, load)
        for name, load in (("base", usual()), ("again", usual()), ("dead", dead))
    )

    def judged(name: str) -> GateResult:
        how = Reading(store=tmp_path / "store", slo=SLO, window="fixed:0s..20s")
        return gate(base, [name], reading=how)

    whole, found = judged(again), judged(cand)
    assert whole.verdict is Verdict.PASS
    # 40 sends before 20 s, one each half second: 20 of 60 are left out in each of three runs
    assert any("60 of 180 requests, 0 of them lost" in note.text for note in whole.notes)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.candidates[0].reason == "more requests were lost outside the window"
    assert any("60 of 180 requests, 45 of them lost" in note.text for note in found.notes)
    (held,) = [d for d in found.candidates[0].comparability if d.holds_back]
    assert (held.aspect, held.candidate) == ("outside_window", "20 of 60 requests, 15 of them lost")


@pytest.mark.long
def test_a_window_that_reaches_beyond_the_load_is_told_by_gate_and_compare(tmp_path: Path) -> None:
    """Three runs a side: the last send is at 29.5 s; no file tells of anything after its answer."""
    base, cand = (kept(tmp_path, name, usual()) for name in ("base", "cand"))
    for window, count in (("fixed:0s..100s", 6), ("fixed:0s..20s", 0), ("all", 0)):
        how = Reading(store=tmp_path / "store", slo=SLO, window=window)
        noted = [note.text for note in gate(base, [cand], reading=how).notes]
        noted = [text for text in noted if "after the load" in text]
        (one,) = compare(base, [cand], reading=how)
        assert [note.text for note in one.notes if "after the load" in note.text] == noted
        assert sum("no file tells of its last" in text for text in noted) == count == len(noted)
