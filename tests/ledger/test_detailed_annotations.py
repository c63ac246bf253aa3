"""Runs whose log leaves open who took which tokens, and whose step annotations tell it.

A log prints one number of tokens for all prompts of an iteration; what a prefix cache held of each
is not in it. Detailed annotations write lengths and squares: they name one division.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ledger.near_truth import check, ledger
from simulator import SCENARIOS, Config, simulate, write_run

import trueput

TINY, CHUNKS = SCENARIOS["tiny"], SCENARIOS["overlapped"]
RUNS: Mapping[str, tuple[Config, int]] = {
    # two prompts of one iteration were cached in part, and end differently
    "two_prompts": (TINY.replace(requests=25), 4103),
    "two_prompts_too": (TINY.replace(requests=25), 4105),
    # prompts of unknown cached tokens in chunks, two of them in an iteration
    "chunks": (CHUNKS.replace(requests=40, max_num_batched_tokens=16), 9105),
    # preempted in mid-prefill, of which the cache held another part than of most
    "cut_short": (TINY.replace(max_num_batched_tokens=16, devices=1, workload_seed=601), 7201),
    # who came first, who gave up while it waited
    "abandoned": (
        SCENARIOS["troubled"].replace(
            timeout_s=0.9, request_rate=30, requests=60, async_scheduling=True,
            max_num_batched_tokens=48, workload_seed=77,
        ),
        9109,
    ),
}  # fmt: skip


@pytest.mark.long(besides=2)
@pytest.mark.parametrize("name", RUNS)
def test_cells_are_near_their_truth_and_bounds_hold_it(name: str, tmp_path: Path) -> None:
    config, seed = RUNS[name]
    check(ledger(config.replace(detailed_annotations=True), seed, tmp_path / name), tmp_path / name)


def shares(folder: Path, *, detailed: bool) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """What each request computed of its prompt in which iteration, as found; and in truth."""
    config = TINY.replace(requests=25, detailed_annotations=detailed)
    run = simulate(config, 4103)
    write_run(run, folder, profiles=["kineto"], with_telemetry=False, compresslevel=1)
    reading = trueput.Reading(store=folder.parent / "store")
    trueput.ingest([folder], store=reading.store)
    query = "FROM request_steps WHERE work = 'prefill' ORDER BY first_step_ix, request_id"
    truth = json.loads((folder / "truth_requests.json").read_text())
    computed = {
        r["request_id"]: r["prompt_tokens"] - r["cached_prompt_tokens"]
        for r in truth
        if r["preemptions"] == 0 and r["outcome"] != "refused" and r["output_tokens"]
    }
    return trueput.sql(query, reading, runs=[folder.name]).dicts(), computed


def test_a_division_that_counts_leave_open_is_told_by_lengths_and_squares(tmp_path: Path) -> None:
    plain, _ = shares(tmp_path / "plain", detailed=False)
    assert any(row["tokens_low"] < row["tokens_high"] for row in plain)

    told, computed = shares(tmp_path / "detailed", detailed=True)
    assert all(row["tokens_low"] == row["tokens"] == row["tokens_high"] for row in told)
    assert all(row["tokens"] == row["tokens_else"] for row in told)
    found: dict[str, int] = {}
    for row in told:
        found[row["request_id"]] = found.get(row["request_id"], 0) + row["tokens"]
    assert len(computed) > 5
    assert {name: found[name] for name in computed} == computed


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("seed", [2, 3])
def test_without_a_log_lengths_divide_mixed_steps_better(seed: int, tmp_path: Path) -> None:
    """What steps read of the KV is a part of their cost; an annotation of counts hides it."""
    config = CHUNKS.replace(requests=40, max_num_batched_tokens=24, workload_seed=seed)
    error: dict[bool, int] = {}
    for detailed in (False, True):
        folder = tmp_path / str(detailed)
        run = simulate(config.replace(detailed_annotations=detailed), seed)
        write_run(run, folder, profiles=["kineto"], with_telemetry=False, compresslevel=1)
        for other in ("server.log.gz", "otlp.jsonl.gz", "metrics.prom.gz"):
            (folder / other).unlink()
        reading = trueput.Reading(store=tmp_path / "store")
        trueput.ingest([folder], store=reading.store)
        query = "SELECT sum(time_ns) AS ns FROM gpu_ledger WHERE work = 'prefill'"
        (found,) = trueput.sql(query, reading, runs=[folder.name]).dicts()
        works = json.loads((folder / "truth_ledger.json").read_text())["works"]
        error[detailed] = abs(found["ns"] - works["prefill"]["time_ns"])
    assert error[True] < 0.7 * error[False]
