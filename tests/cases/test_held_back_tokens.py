"""Tokens that are held back never pass, whatever the objective names; better service does.

Each way of holding back is a change of the same load: 60 requests of 20 tokens, 20 ms apart, three
repeats a side. What the objective limits itself (a trade within it) is for goodput.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from gate.served import Served, judged, judged_together, kept, usual

from trueput.gate.verdict import CandidateResult, Verdict

Judged = Callable[[str], dict[str, CandidateResult]]
GAPS = 19
BURST = ((0.0001,) * 9 + (0.2 - 9 * 0.0001,)) * 2
LOOSE = "ttft=5000ms,e2e=60s"
#: How a candidate holds tokens back -> what becomes of each request.
HELD: dict[str, Callable[[Served], Served]] = {
    # an early first token, the second when it would have come, and slow ones to the same end
    "early first, same end": lambda r: replace(
        r, ttft_s=0.02, gaps_s=((r.ttft_s + GAPS * 0.02 - 0.02) / GAPS,) * GAPS
    ),
    "early first, later end": lambda r: replace(r, ttft_s=0.02, gap_s=0.06),
    "early first, then nothing until the end": lambda r: replace(
        r, ttft_s=0.02, gaps_s=(r.ttft_s + GAPS * 0.02 - 0.02 - 18 * 1e-4, *(1e-4,) * 18)
    ),
    # a chunk without content, counted as the first; the real first comes when it always came
    "an empty first chunk": lambda r: replace(
        r, ttft_s=0.01, gaps_s=(r.ttft_s - 0.01, *(0.02,) * GAPS)
    ),
    "the rest withheld": lambda r: replace(r, gap_s=0.05),
    "bursts of ten": lambda r: replace(r, gaps_s=BURST[1:]),
    "bursts of ten in one chunk each": lambda r: replace(r, gaps_s=(0.19, 0.19)),
    "one long stall": lambda r: replace(r, gaps_s=(0.005,) * 9 + (0.29,) + (0.005,) * 9),
}
OBJECTIVES = ("ttft=500ms", LOOSE, "ttft=5000ms,min_output_tokens=1")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("held")


@pytest.fixture(scope="module")
def base(root: Path) -> str:
    return kept(root, "base", usual())


@pytest.fixture(scope="module")
def held(root: Path) -> dict[str, str]:
    """Return each way of holding back as a configuration of three repeats."""
    return {
        name: kept(root, name.replace(" ", "_").replace(",", ""), [change(r) for r in usual()])
        for name, change in HELD.items()
    }


@pytest.fixture(scope="module")
def held_judged(root: Path, base: str, held: dict[str, str]) -> Judged:
    """Gate all of them under an objective, once."""
    return cache(lambda slo: judged_together(root, base, held, slo))


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("slo", OBJECTIVES)
@pytest.mark.parametrize("way", HELD)
def test_held_back_tokens_never_pass(held_judged: Judged, way: str, slo: str) -> None:
    found = held_judged(slo)[way]
    assert (found.verdict, found.reason) == (Verdict.FLAGGED, "first-token-only"), found.reason
    open_ones = [f for f in found.findings if f.metric in {"tpot_ns_mean", "longest_gap_ns_mean"}]
    assert [f.severity for f in open_ones if f.outcome == "flagged"]
    assert all("has no limit" in f.conclusion for f in open_ones)


@pytest.mark.long
def test_one_of_several_candidates_is_judged_as_alone(
    root: Path, base: str, held: dict[str, str], held_judged: Judged
) -> None:
    way = "bursts of ten in one chunk each"
    assert judged(root, base, held[way], LOOSE) == held_judged(LOOSE)[way]


@pytest.mark.long
@pytest.mark.parametrize("way", ["bursts of ten", "one long stall"])
def test_a_stall_beyond_the_limit_on_tpot_is_seen(held_judged: Judged, way: str) -> None:
    """TPOT is a mean: 20 ms of it may be nothing for 0.2 s and then ten tokens at once."""
    found = held_judged("ttft=5000ms,tpot=50ms")[way]
    assert (found.verdict, found.reason) == (Verdict.FLAGGED, "first-token-only")
    (gap,) = (f for f in found.findings if f.metric == "longest_gap_ns_mean")
    assert "above the limit on TPOT (50.0 ms)" in gap.conclusion


@pytest.mark.long
def test_a_limit_on_gaps_makes_it_a_matter_of_goodput(
    root: Path, base: str, held: dict[str, str]
) -> None:
    within = judged(root, base, held["bursts of ten"], "ttft=5000ms,itl_p99=250ms")
    assert within.verdict is Verdict.PASS
    beyond = judged(root, base, held["bursts of ten"], "ttft=5000ms,itl_p99=100ms")
    assert (beyond.verdict, "goodput-drop" in beyond.reason) == (Verdict.FLAGGED, True)


@pytest.mark.long
def test_a_trade_within_the_objective_is_allowed(root: Path, base: str) -> None:
    """A sooner first token for slower ones after it, none of them beyond a stated limit."""
    load = [replace(r, ttft_s=r.ttft_s / 2, gap_s=0.03) for r in usual()]
    cand = kept(root, "trade", load)
    assert judged(root, base, cand, "ttft=500ms,tpot=50ms").verdict is Verdict.PASS
    assert judged(root, base, cand, "e2e=60s").verdict is Verdict.PASS
    assert judged(root, base, cand, "ttft=500ms").verdict is Verdict.FLAGGED


def test_a_late_first_token_is_seen_where_only_tokens_are_limited(root: Path, base: str) -> None:
    load = [replace(r, ttft_s=r.ttft_s + GAPS * 0.0199, gap_s=0.0001) for r in usual()]
    found = judged(root, base, kept(root, "late_first", load), "tpot=50ms")
    assert (found.verdict, found.reason) == (Verdict.FLAGGED, "first-token-only")
    (ttft,) = (f for f in found.findings if f.metric == "ttft_ns_mean")
    assert ttft.outcome == "flagged"


GOOD: dict[str, Callable[[Served], Served]] = {
    "sooner first, the rest as before": lambda r: replace(r, ttft_s=r.ttft_s / 2),
    "sooner first, faster tokens": lambda r: replace(r, ttft_s=r.ttft_s / 2, gap_s=0.015),
    "faster tokens": lambda r: replace(r, gap_s=0.015),
    # speculative decoding: chunks of two tokens come 25 ms apart, in place of each 20 ms
    "larger chunks, and sooner": lambda r: replace(r, gaps_s=(0.025,) * 10),
}


@pytest.fixture(scope="module")
def better_judged(root: Path, base: str) -> Judged:
    """Gate all of them under an objective, once."""
    better = {
        way: kept(root, way.translate(str.maketrans(" ,", "__")), [change(r) for r in usual()])
        for way, change in GOOD.items()
    }
    return cache(lambda slo: judged_together(root, base, better, slo))


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("way", GOOD)
@pytest.mark.parametrize("slo", ["ttft=500ms", LOOSE, "ttft=500ms,tpot=50ms", "tpot=50ms"])
def test_better_service_passes(better_judged: Judged, way: str, slo: str) -> None:
    found = better_judged(slo)[way]
    assert found.verdict is Verdict.PASS, found.reason


@pytest.mark.long
def test_a_gap_that_grew_while_answers_came_sooner_is_no_flag(
    root: Path, better_judged: Judged
) -> None:
    """Every other request waited 2 s for its first token; now none does, and one gap is 80 ms."""
    waiting = [replace(r, ttft_s=2.0) if n % 2 else r for n, r in enumerate(usual())]
    paused = (0.02,) * 9 + (0.08,) + (0.02,) * 9
    served = [replace(r, gaps_s=paused) for r in usual()]
    late, sooner = kept(root, "waiting", waiting), kept(root, "paused", served)
    found = judged(root, late, sooner, "ttft=500ms,tpot=50ms")
    assert found.verdict is Verdict.PASS
    shown = {f.metric: f for f in found.findings if f.rule == "first-token-only"}
    assert {f.outcome for f in shown.values()} == {"pass"}
    assert "to 80.0 ms on the mean" in shown["longest_gap_ns_mean"].conclusion
    # of tokens in larger chunks, and sooner, under an objective that leaves gaps open
    chunks = better_judged("ttft=500ms")["larger chunks, and sooner"]
    assert {f.outcome for f in chunks.findings if f.rule == "first-token-only"} == {"pass"}


def test_gaps_that_one_side_hides_are_no_pass(root: Path, base: str) -> None:
    found = judged(root, base, kept(root, "hidden", usual(), drop=("itls",)), "ttft=500ms")
    assert found.verdict is Verdict.INCONCLUSIVE
    (gap,) = (f for f in found.findings if f.metric == "longest_gap_ns_mean")
    assert "not known in every run" in gap.conclusion


@pytest.mark.long
def test_a_policy_may_let_it_inform(root: Path, base: str, held: dict[str, str]) -> None:
    policy = root / "gate.toml"
    policy.write_text(
        'version = 1\n[[overrides]]\nrule = "first-token-only"\nseverity = "informing"\n'
        'owner = "team"\nreason = "batch users"\nexpires = 2999-01-01\n'
    )
    found = passed(root, base, held["bursts of ten"], policy)
    assert found.verdict is Verdict.PASS
    assert found.reason.endswith("(1 rule only informs by policy: first-token-only)")


def passed(root: Path, base: str, cand: str, policy: Path) -> CandidateResult:
    from trueput.verbs.gate import gate
    from trueput.verbs.opening import Reading

    reading = Reading(store=root / "store", slo="ttft=500ms")
    return gate(base, [cand], policy, reading).candidates[0]
