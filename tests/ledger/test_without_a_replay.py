"""Runs of which no replay says whom an iteration served, against the simulator's truth.

What is not told stays open: decoding is bounded by the requests in flight at each step, and
recompute of which no victim is known is nobody's.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from simulator import SCENARIOS, simulate, write_run

import trueput
from trueput.attribution.engine import replayed

LOADS = (1, 104, 105)
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[Rows, dict[str, Any]]]:
    """Ledger and truth of each load; of 10 requests about three are aborted."""
    folder = tmp_path_factory.mktemp("unreplayed")
    for load in LOADS:
        config = SCENARIOS["tiny"].replace(abort_ratio=0.3, workload_seed=load)
        write_run(
            simulate(config, seed=1), folder / "runs" / str(load), profiles=["kineto"],
            with_telemetry=False,
        )  # fmt: skip
    reading = trueput.Reading(store=folder / "store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replayed, "MAX_REPLAY_STREAMS", 0)
        trueput.ingest([folder / "runs"], store=reading.store)
    rows = trueput.sql("SELECT * FROM gpu_ledger", reading).dicts()
    return {
        load: (
            [r for r in rows if r["run_id"] == str(load)],
            json.loads((folder / "runs" / str(load) / "truth_ledger.json").read_text()),
        )
        for load in LOADS
    }


@pytest.mark.parametrize("load", LOADS)
def test_low_and_high_hold_the_truth(
    runs: dict[int, tuple[Rows, dict[str, Any]]], load: int
) -> None:
    rows, truth = runs[load]
    found = {(r["work"], r["outcome"]): r for r in rows}
    compared = 0
    for cell in truth["cells"]:
        key = (cell["work"], cell["outcome"])
        if cell["outcome"] != "none" and cell["work"] != "recompute":
            assert found[key]["time_ns_low"] <= cell["time_ns"] <= found[key]["time_ns_high"], key
            compared += 1
    assert compared >= 12


@pytest.mark.parametrize("load", LOADS)
def test_decoding_of_aborted_requests_is_bounded_by_who_was_there(
    runs: dict[int, tuple[Rows, dict[str, Any]]], load: int
) -> None:
    rows, truth = runs[load]
    (mine,) = (r for r in rows if (r["work"], r["outcome"]) == ("decode", "aborted"))
    decode = sum(r["time_ns"] for r in rows if r["work"] == "decode")
    assert mine["time_ns_low"] > 0
    cells = {(c["work"], c["outcome"]): c["time_ns"] for c in truth["cells"]}
    whole = truth["window_ns"] * truth["devices"]
    room = max(0.05 * cells["decode", "aborted"], 0.01 * whole)
    assert abs(mine["time_ns"] - cells["decode", "aborted"]) <= room
    assert decode > 4 * room


@pytest.mark.parametrize("load", LOADS)
def test_recompute_without_victims_is_nobodys(
    runs: dict[int, tuple[Rows, dict[str, Any]]], load: int
) -> None:
    rows, truth = runs[load]
    want = sum(c["time_ns"] for c in truth["cells"] if c["work"] == "recompute")
    found = {r["outcome"]: r for r in rows if r["work"] == "recompute"}
    row = found.pop("unknown")
    assert want > 0
    for cell in truth["cells"]:
        if cell["work"] == "recompute":
            mine = found[cell["outcome"]]
            assert (mine["time_ns"], mine["time_ns_low"]) == (0, 0)
            assert mine["time_ns_high"] >= cell["time_ns"]
    assert abs(row["time_ns"] - want) <= 0.01 * truth["window_ns"] * truth["devices"]
    assert row["time_ns_high"] >= want
