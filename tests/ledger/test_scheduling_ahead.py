"""Engines that schedule ahead of outputs, and steps whose weights cost more than their tokens,
against the simulator's truth: every cell is near it, and low and high hold it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from ledger.near_truth import check, ledger
from simulator import SCENARIOS, Config, simulate, write_run

import trueput

OVERLAPPED = SCENARIOS["overlapped"].replace(requests=25)
AHEAD = SCENARIOS["troubled"].replace(async_scheduling=True, requests=50)
RUNS: Mapping[str, tuple[Config, int]] = {
    # reading the weights takes as long as computing 18 tokens: the cost of a step has a knee there
    "few_steps": (OVERLAPPED.replace(cuda_graphs=False), 5004),
    "slow_network": (OVERLAPPED.replace(devices=8, reduce_ns=4_000_000), 5008),
    # iterations overlap, and the engine idles longer in between than they do
    "aborted": (AHEAD.replace(abort_ratio=0.2), 4102),
    "aborted_more": (AHEAD.replace(abort_ratio=0.3), 4103),
    "cached": (AHEAD.replace(prefix_caching=True, abort_ratio=0.25, requests=80), 4105),
    # usage is printed when the next iteration has its blocks: it tells who of several had left
    "given_up": (
        SCENARIOS["overlapped"].replace(
            timeout_s=1.2, prefix_caching=False, layers=3, workload_seed=8846
        ),
        88046,
    ),
    "small_chunks": (
        SCENARIOS["troubled"].replace(
            async_scheduling=True, max_num_batched_tokens=32, workload_seed=5513
        ),
        55013,
    ),
    "preempted": (
        SCENARIOS["regression_candidate"].replace(
            async_scheduling=True, abort_ratio=0.25, requests=40
        ),
        4103,
    ),
}


@pytest.mark.long(besides=3)
@pytest.mark.parametrize("name", RUNS)
def test_cells_are_near_their_truth_and_bounds_hold_it(name: str, tmp_path: Path) -> None:
    config, seed = RUNS[name]
    found = ledger(config, seed, tmp_path / name)
    # victims are named: recompute is somebody's
    assert ("recompute", "good") in found
    check(found, tmp_path / name)


LOGGED: Mapping[str, tuple[Config, int]] = {
    "troubled": (
        SCENARIOS["troubled"].replace(
            async_scheduling=True, prefix_caching=False, abort_ratio=0.2, early_stop_ratio=0.15
        ),
        121,
    ),
    "overlapped": (
        SCENARIOS["overlapped"].replace(
            async_scheduling=True, prefix_caching=False, abort_ratio=0.2, early_stop_ratio=0.15
        ),
        177,
    ),
    "bursts": (
        SCENARIOS["overlapped"].replace(
            async_scheduling=True, prefix_caching=True, early_stop_ratio=0.1, request_rate=1.5,
            burstiness=0.15, abort_ratio=0.2, requests=60,
        ),
        1017,
    ),
}  # fmt: skip


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("name", LOGGED)
def test_without_a_profile_the_bounds_of_overlapping_iterations_hold_the_truth(
    name: str, tmp_path: Path
) -> None:
    """An engine is one rank: its truth is that of one of its devices, which run alike."""
    config, seed = LOGGED[name]
    write_run(simulate(config, seed), tmp_path / name, profiles=[], compresslevel=1)
    reading = trueput.Reading(store=tmp_path / "store")
    trueput.ingest([tmp_path / name], store=reading.store)
    truth = json.loads((tmp_path / name / "truth_ledger.json").read_text())
    works = {work: cell["time_ns"] / truth["devices"] for work, cell in truth["works"].items()}

    rows = trueput.sql("SELECT * FROM gpu_ledger", reading).dicts()
    (idle,) = [row for row in rows if row["work"] == "idle"]
    assert idle["time_ns_low"] <= idle["time_ns"] <= idle["time_ns_high"]
    assert idle["time_ns_low"] <= works["idle"] <= idle["time_ns_high"]
    assert idle["basis"] == "bounded"
    for work in ("prefill", "decode", "recompute"):
        assert sum(r["time_ns_low"] for r in rows if r["work"] == work) <= works[work], work

    (busy,) = trueput.sql(
        "SELECT value, basis FROM gpu_activity WHERE metric = 'engine_step'", reading
    ).dicts()
    assert busy["basis"] == "bounded"
    assert busy["value"] >= max(truth["busy_ns_by_device"])

    (again,) = trueput.sql("SELECT * FROM recompute", reading).dicts()
    assert 0 < again["recompute_ns_low"] <= works["recompute"] <= again["recompute_ns_high"]
