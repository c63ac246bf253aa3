"""What a replay says that iterations read of the KV cache, against the engine's own positions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from simulator import SCENARIOS, Config, simulate, write_run
from simulator.cost import WORKS
from simulator.engine import Step

import trueput
from trueput.attribution.iterations.kv import kv_by_work

SMALL = SCENARIOS["overlapped"].replace(requests=25, max_num_batched_tokens=24)
RUNS = {
    "no_preemption": (SCENARIOS["improvement_candidate"].replace(requests=25), 88),
    "preempted": (SMALL.replace(num_blocks=40, async_scheduling=False), 5104),
    "ahead": (SMALL.replace(num_blocks=40), 5101),
}


def read_in(step: Step) -> list[float]:
    """A sequence of a step has all tokens up to its last, and is read once for all its works."""
    kv = dict.fromkeys(WORKS, 0.0)
    for item in step.items:
        works = [work for work in WORKS if item.tokens_of(work)]
        for work in works:
            kv[work] += (item.start + item.tokens) / len(works)
    return list(kv.values())


@pytest.mark.parametrize("name", RUNS)
def test_the_replay_knows_how_long_each_sequence_is(name: str, tmp_path: Path) -> None:
    config: Config
    config, seed = RUNS[name]
    run = simulate(config, seed)
    write_run(run, tmp_path / "run", profiles=[], with_telemetry=False, compresslevel=1)
    reading = trueput.Reading(store=tmp_path / "store")
    trueput.ingest([tmp_path / "run"], store=reading.store)
    steps = trueput.sql(
        "SELECT engine, incarnation, step_ix, context_requests, generation_requests "
        "FROM raw.engine_steps ORDER BY step_ix", reading,
    ).dicts()  # fmt: skip
    rows = trueput.sql("SELECT * FROM raw.request_steps", reading).dicts()
    told = trueput.sql("SELECT request_id, prompt_tokens FROM raw.requests", reading).dicts()
    prompts = {row["request_id"]: row["prompt_tokens"] for row in told if row["request_id"]}
    found = kv_by_work(pa.Table.from_pylist(steps), rows, prompts)
    truth = np.array([read_in(step) for step in run.steps])
    known = ~np.isnan(found[:, 0])
    assert known.mean() > 0.95
    assert truth.sum() > 50 * len(run.steps)
    # where a chunk just holds what was lost, the next token comes an iteration later than taken
    requests = np.array([len(step.items) for step in run.steps])
    off = np.abs(found - truth)[known].sum(axis=1)
    assert (off <= 2 * requests[known]).mean() > 0.97
    assert off.sum() < 0.01 * truth.sum()
    if name == "no_preemption":
        assert off.max() == 0
