"""Recomputed tokens, preemptions, victims and their time, against the instrumented scheduler."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pytest
from cases.truth import Truth, load_truth

if TYPE_CHECKING:
    from cases.conftest import Ask, RowsOf

# by the scheduler's own record, or by the identity of log and counters in abort-free runs
TOKENS = {
    "candidate_overload_truth": 6562,
    "prefix_cache": 743,
    "regress_candidate": 17288,
    "regress_candidate_truth": 16149,
    "candidate_high": 3566,
    "control_candidate": 2952,
    "torch_profile": 4279,
    "baseline_low": 0,
    "baseline_high": 0,
    "control_baseline": 0,
    "regress_baseline": 0,
    "regress_baseline_r2": 0,
}
# runs with aborts: the truth of all that the engine served must lie in the interval
TOKENS_WITHIN = {"errors_debug": 689, "aiperf": 888, "guidellm": 2846}
PREEMPTIONS = {
    "aiperf": 11,
    "baseline_high": 0,
    "baseline_low": 0,
    "candidate_high": 19,
    "candidate_overload_truth": 42,
    "control_baseline": 0,
    "control_candidate": 21,
    # its log holds 8, none of them while its client's load ran
    "errors_debug": 0,
    "guidellm": 18,
    "prefix_cache": 6,
    "regress_baseline": 0,
    "regress_baseline_r2": 0,
    "regress_candidate": 30,
    "regress_candidate_truth": 28,
    "torch_profile": 22,
}
PREEMPTED = {"candidate_overload_truth": 30, "prefix_cache": 4, "errors_debug": 0, "aiperf": 9}
SCHEDULED = {
    "regress_baseline": 42_399,
    "regress_baseline_r2": 42_399,
    "regress_candidate": 59_687,
    "regress_candidate_truth": 58_548,
}
POOLED = ("candidate_overload_truth", "prefix_cache")
MS = 1_000_000


@cache
def truth_of(folder: Path) -> Truth:
    return load_truth(folder)


@pytest.mark.parametrize(("run", "tokens"), TOKENS.items())
def test_recomputed_tokens_are_exact_without_aborts(rows_of: RowsOf, run: str, tokens: int) -> None:
    (row,) = rows_of("recompute", run)
    assert row["recomputed_tokens"] == tokens
    assert row["recomputed_tokens_low"] == row["recomputed_tokens_high"] == tokens


@pytest.mark.parametrize(("run", "tokens"), TOKENS_WITHIN.items())
def test_with_aborts_the_interval_holds_the_truth(rows_of: RowsOf, run: str, tokens: int) -> None:
    (row,) = rows_of("run_recompute", run)
    low, high = row["recomputed_tokens_low"], row["recomputed_tokens_high"]
    assert isinstance(low, int)
    assert isinstance(high, int)
    assert low <= tokens <= high


def test_preemptions_are_counted_exactly(ask: Ask) -> None:
    rows = ask("FROM recompute")
    assert {r["run_id"]: r["preemptions"] for r in rows} == PREEMPTIONS


def test_preempted_requests_are_counted_exactly(ask: Ask) -> None:
    rows = ask("FROM recompute")
    found = {r["run_id"]: r["preempted_requests"] for r in rows if r["run_id"] in PREEMPTED}
    assert found == PREEMPTED


def test_all_that_the_candidate_scheduled_more_is_recompute(ask: Ask) -> None:
    rows = ask("FROM recompute")
    found = {r["run_id"]: r for r in rows if r["run_id"] in SCHEDULED}
    assert {n: r["scheduled_tokens"] for n, r in found.items()} == SCHEDULED
    assert {r["scheduled_tokens"] - r["recomputed_tokens"] for r in found.values()} == {42_399}


def test_victims_are_those_of_the_scheduler(rows_of: RowsOf, fixtures: Path) -> None:
    named: set[tuple[str, str]] = set()
    victims: set[tuple[str, str]] = set()
    for run in POOLED:
        victims |= {(run, name) for name in truth_of(fixtures / "vllm_cpu" / run).victims}
        rows = rows_of("request_recompute", run)
        named |= {(run, r["request_id"]) for r in rows if r["preemptions"]}
    assert len(victims) == 34
    assert len(named & victims) >= 0.9 * len(named), "precision"
    assert len(named & victims) >= 0.9 * len(victims), "recall"


@pytest.mark.parametrize("run", PREEMPTED)
def test_what_each_victim_lost_is_right_to_ten_percent_or_30_ms(
    rows_of: RowsOf, fixtures: Path, run: str
) -> None:
    truth = truth_of(fixtures / "vllm_cpu" / run)
    excess = []
    for row in rows_of("request_phases", run):
        lost = (row["requeue_ns"] or 0) + (row["recompute_ns"] or 0)
        if lost:
            true = truth.lost_ns(truth.lives[row["request_id"]])
            excess.append(abs(lost - true) / max(0.1 * true, 30 * MS))
    assert len(excess) >= 0.9 * len(truth.victims)
    assert median(excess) <= 1


@pytest.mark.parametrize("run", PREEMPTED)
def test_queue_time_is_that_of_the_scheduler(rows_of: RowsOf, fixtures: Path, run: str) -> None:
    truth = truth_of(fixtures / "vllm_cpu" / run)
    excess = []
    for row in rows_of("request_phases", run):
        if row["queue_ns"] is None:
            continue
        life = truth.lives[row["request_id"]]
        assert life.scheduled_ns is not None
        true = life.scheduled_ns - life.added_ns
        excess.append(abs(row["queue_ns"] - true) / max(0.05 * true, 15 * MS))
    assert len(excess) >= 38
    assert median(excess) <= 1


@pytest.mark.parametrize("run", PREEMPTED)
def test_prefill_time_is_that_of_the_scheduler(rows_of: RowsOf, fixtures: Path, run: str) -> None:
    truth = truth_of(fixtures / "vllm_cpu" / run)
    excess = []
    for row in rows_of("request_phases", run):
        if row["prefill_ns"] is None:
            continue
        life = truth.lives[row["request_id"]]
        if life.preempted_before_first_token or life.first_token_ns is None:
            continue
        assert life.scheduled_ns is not None
        true = life.first_token_ns - life.scheduled_ns
        excess.append(abs(row["prefill_ns"] - true) / max(0.05 * true, 15 * MS))
    assert len(excess) >= 35
    assert median(excess) <= 1
