"""Prompts in chunks that cost little more than reading the weights, beside decoding that reads most
of the KV: against the simulator's truth every cell is near it, and low and high hold it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from simulator import SCENARIOS, Config, simulate, write_run

import trueput

CELL_SHARE = 0.05
WINDOW_SHARE = 0.01
SMALL = SCENARIOS["overlapped"].replace(
    num_blocks=40, refused_ratio=0.1, requests=40, max_num_batched_tokens=24
)
RUNS: Mapping[str, tuple[Config, int]] = {
    # what steps differ by is their KV and the scatter of kernel times; the knee is the rest
    "full_cache": (SMALL.replace(workload_seed=5004), 5004),
    "full_cache_too": (SMALL.replace(workload_seed=5001), 5001),
    "one_at_a_time": (
        SCENARIOS["overlapped"].replace(
            requests=40, max_num_batched_tokens=24, workload_seed=5104, async_scheduling=False
        ),
        5104,
    ),
    "preempted": (
        SCENARIOS["regression_base"].replace(
            max_num_batched_tokens=24, max_num_seqs=6, step_noise=0.1, cuda_graphs=False
        ),
        84,
    ),
}


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("name", RUNS)
def test_cells_are_near_their_truth_and_bounds_hold_it(name: str, tmp_path: Path) -> None:
    config, seed = RUNS[name]
    folder = tmp_path / name
    run = simulate(config, seed)
    write_run(run, folder, profiles=["kineto"], with_telemetry=False, compresslevel=1)
    reading = trueput.Reading(store=tmp_path / "store")
    trueput.ingest([folder], store=reading.store)
    told = json.loads((folder / "truth_ledger.json").read_text())
    truth = {(c["work"], c["outcome"]): c["time_ns"] for c in told["cells"]
             if c["outcome"] != "none"}  # fmt: skip
    rows = trueput.sql("SELECT * FROM gpu_ledger", reading).dicts()
    found = {(r["work"], r["outcome"]): r for r in rows if r["outcome"] != "none"}
    whole = told["window_ns"] * told["devices"]
    assert found.keys() >= truth.keys()
    for key, row in found.items():
        want = truth.get(key, 0)
        room = max(CELL_SHARE * want, WINDOW_SHARE * whole)
        assert abs(row["time_ns"] - want) <= room, key
        if key[1] != "unknown":
            # rounded down on each device
            assert row["time_ns_low"] - 16 <= want <= row["time_ns_high"] + 16, key
