"""Prompts in chunks that cost little more than reading the weights, beside decoding that reads most
of the KV: against the simulator's truth every cell is near it, and low and high hold it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from ledger.near_truth import check, ledger
from simulator import SCENARIOS, Config

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
    check(ledger(config, seed, tmp_path / name), tmp_path / name)
