"""Figures that files prove in part only, against the simulator's own truth.

Simulated `utilization.gpu` is the share of half a second before the reading in which kernels ran:
over the window it is the union of kernels.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from simulator import SCENARIOS, Config, simulate, write_run

import trueput

TINY, OVERLAPPED, TROUBLED = (SCENARIOS[x] for x in ("tiny", "overlapped", "troubled"))
SAMPLED: dict[str, tuple[Config, int]] = {
    # half of half a second; the only reading of one device in it describes the time before
    "shorter_than_a_period": (TINY.replace(requests=3), 823),
    "two_periods": (TINY.replace(devices=8, requests=20, workload_seed=5), 820),
    "long": (SCENARIOS["regression_base"], 811),
}
BASES = {"shorter_than_a_period": [], "two_periods": ["bounded"] * 8, "long": ["reported"] * 2}
ACTIVE = """
SELECT device, value, value_low, value_high, basis FROM gpu_activity
WHERE metric = 'engine_active' ORDER BY device
"""


class Ingested:
    """A simulated run in a store of its own, with its truth."""

    def __init__(
        self, folder: Path, config: Config, seed: int, *, profiles: Sequence[str] = (),
        without: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.folder = folder / "run"
        run = simulate(config, seed=seed)
        write_run(run, self.folder, profiles=profiles, compresslevel=1)
        for name in without:
            (self.folder / name).unlink()
        self.reading = trueput.Reading(store=folder / "store")
        trueput.ingest([self.folder], store=self.reading.store)

    def rows(self, query: str) -> list[dict[str, Any]]:
        return trueput.sql(query, self.reading).dicts()

    def truth(self, what: str) -> Any:
        return json.loads((self.folder / f"truth_{what}.json").read_text())


@pytest.mark.parametrize("name", [
    "shorter_than_a_period", "two_periods", pytest.param("long", marks=pytest.mark.long)
])  # fmt: skip
def test_readings_claim_no_more_than_they_cover(tmp_path: Path, name: str) -> None:
    run = Ingested(tmp_path, *SAMPLED[name])
    ledger, found = run.truth("ledger"), run.rows(ACTIVE)
    for row in found:
        busy = ledger["kernel_busy_ns_by_device"][row["device"]] / ledger["window_ns"]
        assert row["value_low"] <= busy <= row["value_high"]
        assert row["value_low"] <= row["value"] <= row["value_high"]
        assert row["basis"] == "bounded" or abs(row["value"] - busy) < 0.02
    assert [row["basis"] for row in found] == BASES[name]


def test_power_of_the_time_before_a_load_is_not_that_of_the_load(tmp_path: Path) -> None:
    run = Ingested(tmp_path, *SAMPLED["shorter_than_a_period"])
    inside = "FROM gpu_samples AS s JOIN int_run_windows AS w USING (run_id) WHERE "
    inside += "metric = 'power_instant' AND at_ns BETWEEN from_ns AND to_ns"
    assert [row["value"] for row in run.rows("SELECT value " + inside)] == [95]
    assert run.rows("FROM gpu_activity WHERE metric = 'power'") == []


@pytest.mark.long
def test_victims_come_to_no_more_time_than_their_run(tmp_path: Path) -> None:
    run = Ingested(tmp_path, OVERLAPPED, 816)
    total, again = run.rows("FROM recompute")[0], run.truth("run")["recomputed_tokens"]
    assert total["recomputed_tokens"] == again
    victims = run.rows("FROM request_recompute WHERE preemptions > 0")
    # the replay places more tokens than were computed again, and of nobody it is certain
    assert sum(row["recomputed_tokens"] for row in victims) > again
    assert {row["basis"] for row in victims} == {"bounded"}
    phase = run.rows("FROM run_phases WHERE phase = 'recompute'")[0]
    assert phase["covered_requests_ratio"] == 1
    assert phase["time_ns"] == total["recompute_ns"]


@pytest.mark.long
def test_a_profile_and_a_client_tell_the_least_that_was_computed_again(tmp_path: Path) -> None:
    run = Ingested(
        tmp_path, TROUBLED, 51, profiles=["kineto"],
        without=["server.log.gz", "metrics.prom.gz", "otlp.jsonl.gz", "nvidia_smi.csv"],
    )  # fmt: skip
    row, truth = run.rows("FROM recompute")[0], run.truth("run")
    assert row["preemptions"] is None
    assert (row["method"], row["basis"]) == ("annotations", "bounded")
    assert 0 < row["recomputed_tokens_low"] <= truth["recomputed_tokens"]
    assert row["recomputed_tokens"] is None
    assert row["recomputed_tokens_high"] is None
    answer = run.rows("FROM evidence WHERE question = 'recomputed tokens'")[0]
    assert answer["best_basis"] == "bounded"
    assert answer["source"].startswith("step annotations")
    assert run.rows("FROM gpu_ledger WHERE work = 'recompute' AND time_ns > 0")


def test_a_counter_that_counted_none_is_of_every_request(tmp_path: Path) -> None:
    calm = TINY.replace(requests=6, num_blocks=400)
    run = Ingested(tmp_path, calm, 1)
    assert run.truth("run")["preemptions"] == 0
    counts = run.rows("SELECT DISTINCT preemption_count FROM request_outcomes")
    assert counts == [{"preemption_count": 0}]
