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
