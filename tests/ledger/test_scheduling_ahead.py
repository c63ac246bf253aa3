"""Engines that schedule ahead of outputs, and steps whose weights cost more than their tokens,
against the simulator's truth: every cell is near it, and low and high hold it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from simulator import SCENARIOS, Config, simulate, write_run

import trueput

CELL_SHARE = 0.05
WINDOW_SHARE = 0.01
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
    "preempted": (
        SCENARIOS["regression_candidate"].replace(
            async_scheduling=True, abort_ratio=0.25, requests=40
        ),
        4103,
    ),
}
Cells = dict[tuple[str, str], int]


def ledger_and_truth(name: str, folder: Path) -> tuple[list[dict[str, Any]], Cells, int]:
    """The rows of a run's ledger, its true cells that served somebody, and its device time."""
    config, seed = RUNS[name]
    write_run(
        simulate(config, seed), folder / name, profiles=["kineto"], with_telemetry=False,
        compresslevel=1,
    )  # fmt: skip
    reading = trueput.Reading(store=folder / "store")
    trueput.ingest([folder / name], store=reading.store)
    truth = json.loads((folder / name / "truth_ledger.json").read_text())
    cells = {(c["work"], c["outcome"]): c["time_ns"] for c in truth["cells"]
             if c["outcome"] != "none"}  # fmt: skip
    rows = trueput.sql("SELECT * FROM gpu_ledger", reading).dicts()
    return rows, cells, truth["window_ns"] * truth["devices"]


@pytest.mark.long(besides=3)
@pytest.mark.parametrize("name", RUNS)
def test_cells_are_near_their_truth_and_bounds_hold_it(name: str, tmp_path: Path) -> None:
    rows, truth, whole = ledger_and_truth(name, tmp_path)
    found = {(r["work"], r["outcome"]): r for r in rows if r["outcome"] != "none"}
    # victims are named: recompute is somebody's
    assert {r["outcome"] for r in rows if r["work"] == "recompute"} >= {"good"}
    assert found.keys() >= truth.keys()
    for key, row in found.items():
        want = truth.get(key, 0)
        room = max(CELL_SHARE * want, WINDOW_SHARE * whole)
        assert abs(row["time_ns"] - want) <= room, key
        if key[1] != "unknown":
            # rounded down on each device
            assert row["time_ns_low"] - 16 <= want <= row["time_ns_high"] + 16, key


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
