"""What shows nothing is no pass: nothing answered, nothing good, nobody in a class."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from gate.bench_runs import write_scheduled
from gate.served import BROKEN, REFUSED, judged, kept, usual

from trueput.gate.requests import ClassCount
from trueput.gate.verdict import CandidateResult, Verdict
from trueput.verbs import baseline
from trueput.verbs.gate import gate
from trueput.verbs.opening import Reading

POLICY = '[slo]\nttft = "500ms"\ntpot = "50ms"\n[[slo.class]]\n{whom}\nttft = "600ms"\n'


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store's folder with an easy load, every fourth prompt of 800 tokens."""
    return tmp_path_factory.mktemp("nothing")


@pytest.fixture(scope="module")
def base(root: Path) -> str:
    return kept(root, "base", usual())


def by_class(root: Path, base: str, cand: str, whom: str) -> CandidateResult:
    policy = root / "gate.toml"
    policy.write_text(POLICY.format(whom=whom), encoding="utf-8")
    return gate(base, [cand], policy, Reading(store=root / "store")).candidates[0]


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("end", [REFUSED, BROKEN], ids=["refused", "broken"])
def test_all_failed_on_both_sides(root: Path, end: object) -> None:
    load = [replace(end, prompt=r.prompt) for r in usual()]  # type: ignore[type-var]
    name = "refused" if end is REFUSED else "broken"
    cand = kept(root, f"{name}_cand", [*load[:-1], replace(load[-1], sent_s=29.51)])
    found = judged(root, kept(root, f"{name}_base", load), cand)
    assert found.verdict is Verdict.UNUSABLE
    assert f"none of the 60 requests of {name}_base0 ended as asked" in found.reason


def test_a_baseline_of_nothing_warns(root: Path) -> None:
    dead = kept(root, "dead", [replace(BROKEN, prompt=r.prompt) for r in usual()], 1)
    said: list[str] = []
    how = Reading(store=root / "store", note=said.append)
    baseline.set_("dead", [dead], how)
    baseline.accept(dead, how)
    assert len(said) == 2
    assert all("none of the 60 requests of `dead0` ended as asked" in text for text in said)


def test_an_objective_that_nobody_meets(root: Path, base: str) -> None:
    """A slip of units: the candidate takes twice as long, and on both sides all are late."""
    slow = kept(root, "slow", [replace(r, ttft_s=2 * r.ttft_s, gap_s=0.04) for r in usual()])
    slip = "ttft=1ms,tpot=1ms,itl_p99=1ms"
    found = judged(root, base, slow, slip)
    assert (found.verdict, found.reason) == (Verdict.INCONCLUSIVE, "goodput-drop")
    assert "check its limits and their units" in next(
        f.conclusion for f in found.findings if f.rule == "goodput-drop"
    )
    assert judged(root, base, kept(root, "again", usual()), "ttft=2s,tpot=1s").verdict is (
        Verdict.PASS
    )


@pytest.mark.long
def test_a_class_that_nobody_is_in(root: Path, base: str) -> None:
    """The files have no labels; prompts have 100 or 800 tokens."""
    cand = kept(root, "classes", usual())
    for whom in ('label = "chat"', 'prompt_tokens = "1000.."'):
        found = by_class(root, base, cand, whom)
        assert found.verdict is Verdict.INCONCLUSIVE
        assert "no request of either side" in found.reason
    there = by_class(root, base, cand, 'prompt_tokens = "800.."')
    assert there.verdict is Verdict.PASS
    assert [count.requests for count in there.classes[0].baseline] == [15, 15, 15]
    assert there.classes[0].candidate[0].planned == 60


@pytest.mark.long
def test_a_class_of_one_side(root: Path, base: str) -> None:
    """799 tokens are as many as 800 to the lengths, and of another class to the objective."""
    cand = kept(root, "edge", [replace(r, prompt=min(r.prompt, 799)) for r in usual()])
    found = by_class(root, base, cand, 'prompt_tokens = "800.."')
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reason == "the sides differ in slo_classes"
    (told,) = (d for d in found.comparability if d.aspect == "slo_classes")
    assert (told.baseline, told.candidate) == ("prompt 800..: 15 of 60", "prompt 800..: 0 of 60")


@pytest.mark.long
def test_labels_are_counted(root: Path) -> None:
    """20 requests a run, all labelled chat."""
    base, cand = (
        str(write_scheduled(root / name, 0.001, ttft_s, name))
        for name, ttft_s in (("chat_base", 0.2), ("chat_cand", 0.21))
    )
    for label, count in (("chat", 20), ("batch", 0)):
        found = by_class(root, base, cand, f'label = "{label}"')
        (tally,) = found.classes
        assert tally.baseline == tally.candidate == (ClassCount(count, 0, 20),)
        told = [d.difference for d in found.comparability if d.aspect == "slo_classes"]
        empty = f"label {label}: no request of either side is in it: nothing is shown for it"
        assert told == ([] if count else [empty])
