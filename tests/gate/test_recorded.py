"""Recorded vLLM runs: the regression pair, its repeats, the control pair and the weak pair."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixture_folder import fixture_folder
from gate.recorded import figures

from trueput.gate.rule_api import Finding
from trueput.gate.verdict import CandidateResult, Verdict, gate

BASE = ("regress_baseline", "regress_baseline_r2")
CAND = ("regress_candidate", "regress_candidate_truth")


@pytest.fixture
def runs() -> Path:
    """Return the folder of recorded runs; skip without one, fail where one is required."""
    return fixture_folder("vllm_cpu")


def judge(runs: Path, base: tuple[str, ...], cand: tuple[str, ...], slo: str) -> CandidateResult:
    result = gate(
        [figures(runs / name, slo) for name in base],
        [("candidate", [figures(runs / name, slo) for name in cand])],
    )
    return result.candidates[0]


def find(result: CandidateResult, metric: str) -> Finding:
    return next(finding for finding in result.findings if finding.metric == metric)


def test_the_regression_pair_is_flagged(runs: Path) -> None:
    found = judge(runs, BASE, CAND, "ttft=5000ms,tpot=20ms")
    assert found.verdict is Verdict.FLAGGED
    assert not [item for item in found.comparability if item.blocks]
    goodput = find(found, "goodput_rps")
    assert goodput.outcome == "flagged"
    assert goodput.ratio == pytest.approx(0.715, abs=5e-4)
    assert goodput.ratio_high == pytest.approx(0.908, abs=1e-3)
    headline = find(found, "scheduled_tokens")
    assert (headline.rule, headline.outcome) == ("activity-without-goodput", "flagged")
    assert headline.ratio_low == pytest.approx(1.258, abs=1e-3)
    growth = find(found, "recomputed_ratio")
    assert (growth.severity, growth.outcome) == ("blocking", "flagged")
    for metric in ("engine_step", "ttft_ns_p50", "output_tokens_per_s"):
        assert find(found, metric).outcome == "inconclusive"


def test_a_kinder_objective_leaves_it_open(runs: Path) -> None:
    found = judge(runs, BASE, CAND, "ttft=5000ms,tpot=25ms")
    assert found.verdict is Verdict.INCONCLUSIVE
    goodput = find(found, "goodput_rps")
    assert goodput.ratio == pytest.approx(0.985, abs=1e-3)
    assert goodput.ratio_low == pytest.approx(0.877, abs=1e-3)
    assert goodput.ratio_high == pytest.approx(1.108, abs=1e-3)


def test_one_run_a_side_flags_what_is_large_and_says_what_it_assumed(runs: Path) -> None:
    found = judge(runs, BASE[:1], CAND[:1], "ttft=5000ms,tpot=16ms")
    assert found.verdict is Verdict.FLAGGED
    assert "assumed, not measured" in find(found, "goodput_rps").scope


def test_the_control_pair_is_not_flagged(runs: Path) -> None:
    found = judge(runs, ("control_baseline",), ("control_candidate",), "ttft=3000ms,tpot=25ms")
    assert found.verdict is not Verdict.FLAGGED
    growth = find(found, "recomputed_ratio")
    assert (growth.severity, growth.outcome) == ("informing", "flagged")


def test_the_weak_pair_says_how_many_runs_would_settle_it(runs: Path) -> None:
    found = judge(runs, ("baseline_high",), ("candidate_high",), "ttft=8000ms,tpot=13ms")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.settle_runs is not None
    assert "runs on each side would settle it" in find(found, "goodput_rps").conclusion


@pytest.mark.parametrize("order", [BASE, BASE[::-1]])
def test_repeats_are_not_flagged_in_either_order(runs: Path, order: tuple[str, str]) -> None:
    found = judge(runs, order[:1], order[1:], "ttft=5000ms,tpot=20ms")
    assert found.verdict is not Verdict.FLAGGED
