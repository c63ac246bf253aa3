"""Prefill of aborted requests where a prefix cache was used, against the simulator's truth.

No record says how many tokens of a prompt the cache held. Iterations print sums: they tell it where
a request prefills alone. What they leave open between an aborted request and one that finished, the
engine's histogram of computed prompt tokens tells; without that it is of unknown outcome. (Detailed
step annotations tell it as well: `test_detailed_annotations`.)
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from simulator import SCENARIOS, Config, simulate, write_run

import trueput

CELL_SHARE = 0.05
WINDOW_SHARE = 0.01
TINY = SCENARIOS["tiny"].replace(detailed_annotations=False)
TROUBLED = SCENARIOS["troubled"]
TOLD: dict[str, Config] = {
    # other loads, three of ten requests aborted: two cut prompts in one iteration, an abort and a
    # return from preemption in one, no preemption at all
    "w104": TINY.replace(workload_seed=104, abort_ratio=0.3),
    "w105": TINY.replace(workload_seed=105, abort_ratio=0.3),
    "w121": TINY.replace(workload_seed=121, abort_ratio=0.3),
    "one_device": TINY.replace(workload_seed=126, abort_ratio=0.3, devices=1),
    "long": TROUBLED.replace(
        prefix_caching=True, shared_prefixes=3, prefix_tokens=32, abort_ratio=0.3, requests=30
    ),
    # the replay fails to reproduce one iteration of 2,318
    "nearly": SCENARIOS["overlapped"].replace(workload_seed=1003, abort_ratio=0.3),
    # of two prompts in one iteration one was cached in part, and they end differently
    "tiny": TINY,
    "w115": TINY.replace(workload_seed=115, abort_ratio=0.3),
}
SEEDS = {"nearly": 14}
HISTOGRAM = "vllm:request_prefill_kv_computed_tokens"
OPEN = {f"{name}_without_it": TOLD[name] for name in ("tiny", "w115")}
"""The same runs of an engine that does not print the histogram, as before 0.13."""
Cells = dict[tuple[str, str], dict[str, Any]]


def leave_out(metric: str, scrapes: Path) -> None:
    """Rewrite scrapes without one metric."""
    lines = gzip.decompress(scrapes.read_bytes()).decode().splitlines(keepends=True)
    kept = [line for line in lines if metric not in line]
    assert len(kept) < len(lines)
    scrapes.write_bytes(gzip.compress("".join(kept).encode()))


class Ledgers:
    """Runs of a store and their truth."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, config in (TOLD | OPEN).items():
            profile = "nsys_node" if name in {"w104", "w115", "nearly"} else "kineto"
            run = simulate(config, seed=SEEDS.get(name, 1))
            write_run(run, folder / "runs" / name, profiles=[profile], with_telemetry=False)
            if name in OPEN:
                leave_out(HISTOGRAM, folder / "runs" / name / "metrics.prom.gz")
        reading = trueput.Reading(store=folder / "store")
        trueput.ingest([folder / "runs"], store=reading.store)
        self.rows = trueput.sql("SELECT * FROM gpu_ledger", reading).dicts()

    def cells(self, name: str) -> Cells:
        """Cells by work and outcome."""
        return {(r["work"], r["outcome"]): r for r in self.rows if r["run_id"] == name}

    def truth(self, name: str) -> tuple[dict[tuple[str, str], int], int]:
        """Cells that serve somebody, and the length of the window over all devices."""
        text = (self.folder / "runs" / name / "truth_ledger.json").read_text()
        found: dict[str, Any] = json.loads(text)
        cells = {(c["work"], c["outcome"]): c["time_ns"] for c in found["cells"]
                 if c["outcome"] != "none"}  # fmt: skip
        return cells, found["window_ns"] * found["devices"]


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Ledgers:
    """One store for this module."""
    return Ledgers(tmp_path_factory.mktemp("aborts"))


@pytest.mark.parametrize("name", sorted(TOLD))
def test_cells_are_near_their_truth(ledgers: Ledgers, name: str) -> None:
    found, (truth, whole) = ledgers.cells(name), ledgers.truth(name)
    assert truth["prefill", "aborted"] > 0.02 * whole
    served = {key for key in found if key[1] != "none"}
    for key in served | truth.keys():
        want = truth.get(key, 0)
        have = found[key]["time_ns"] if key in found else 0
        room = max(CELL_SHARE * want, WINDOW_SHARE * whole)
        assert abs(have - want) <= room, f"{key}: {have} instead of {want}"


@pytest.mark.parametrize("name", sorted(OPEN))
def test_what_cannot_be_told_is_unknown_and_not_somebody_elses(ledgers: Ledgers, name: str) -> None:
    found, (truth, whole) = ledgers.cells(name), ledgers.truth(name)
    unknown = found["prefill", "unknown"]["time_ns"]
    # the 24 tokens of a prefix, of at least 60 in the iteration
    assert 0 < unknown < 0.05 * whole
    for key, want in truth.items():
        left_open = found.get((key[0], "unknown"), {"time_ns": 0})["time_ns"]
        room = max(CELL_SHARE * want, WINDOW_SHARE * whole)
        have = found[key]["time_ns"]
        assert have - room <= want <= have + left_open + room, f"{key}: {have}, truth {want}"
    short = sum(want - found[key]["time_ns"] for key, want in truth.items() if key[0] == "prefill")
    assert abs(short - unknown) <= WINDOW_SHARE * whole


@pytest.mark.parametrize("name", sorted(TOLD | OPEN))
def test_bounds_hold_the_truth(ledgers: Ledgers, name: str) -> None:
    found, (truth, whole) = ledgers.cells(name), ledgers.truth(name)
    room = WINDOW_SHARE * whole
    for key, want in truth.items():
        low, high = found[key]["time_ns_low"], found[key]["time_ns_high"]
        assert low - room <= want <= high + room, f"{key}: {low} to {high}, truth {want}"


def test_whose_communication_it_was_is_not_measured(ledgers: Ledgers) -> None:
    found = ledgers.cells("w105")
    bases = {outcome: row["basis"] for (work, outcome), row in found.items()
             if work in {"communication", "copy"}}  # fmt: skip
    assert bases == dict.fromkeys(("good", "late", "aborted"), "inferred")
    assert found["idle", "none"]["basis"] == "measured"
