"""The ledger of simulated runs against the simulator's own truth, through several profilers."""

from __future__ import annotations

import json
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cases.recorded import shared_folder
from filelock import FileLock
from simulator import SCENARIOS, simulate, write_run

import trueput

CELL_SHARE = 0.05
WINDOW_SHARE = 0.01
PROFILES = ["kineto", "nsys_eager", "nsys_node"]


class Runs:
    """Simulated runs in one store, made and ingested by whichever worker first asks for them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reading = trueput.Reading(store=folder / "store")
        self.made = cache(self._made)
        self.simulated = cache(lambda scenario, seed: simulate(SCENARIOS[scenario], seed=seed))
        self.answers: dict[tuple[str, str], list[dict[str, Any]]] = {}

    def _made(self, scenario: str, profile: str, seed: int) -> Path:
        folder = self.folder / f"{scenario}_{profile}_{seed}"
        with FileLock(f"{folder}.lock"):
            if not folder.exists():
                run, scratch = self.simulated(scenario, seed), folder.with_suffix(".new")
                # the truth of repeats is asked by nobody
                write_run(
                    run, scratch, profiles=[profile], with_telemetry=False, with_truth=seed == 1,
                    compresslevel=1,
                )  # fmt: skip
                scratch.rename(folder)
            trueput.ingest([folder], store=self.reading.store)
        return folder

    def ledger(self, scenario: str, profile: str, seed: int = 1) -> list[dict[str, Any]]:
        """The ledger that trueput makes of a run."""
        return self.rows("SELECT * FROM gpu_ledger", scenario, profile, seed)

    def rows(
        self, query: str, scenario: str, profile: str = "kineto", seed: int = 1
    ) -> list[dict[str, Any]]:
        """What a query of one run alone gives; each is asked once."""
        name = self.made(scenario, profile, seed).name
        if (query, name) not in self.answers:
            self.answers[query, name] = trueput.sql(query, self.reading, runs=[name]).dicts()
        return self.answers[query, name]

    def truth(self, scenario: str, profile: str, seed: int = 1) -> dict[str, Any]:
        """The simulator's own ledger of the same run."""
        text = (self.made(scenario, profile, seed) / "truth_ledger.json").read_text()
        found: dict[str, Any] = json.loads(text)
        return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """One store for this module, and all workers."""
    return Runs(shared_folder(tmp_path_factory, "ledger"))


def cells_of(rows: list[dict[str, Any]]) -> dict[tuple[str, str], int]:
    """Cells by work and outcome; what nobody was served is one outcome."""
    found: dict[tuple[str, str], int] = {}
    for row in rows:
        if row["time_ns"] is not None:
            outcome = "none" if row["work"] in {"idle", "unattributed"} else row["outcome"]
            key = (row["work"], outcome)
            found[key] = found.get(key, 0) + row["time_ns"]
    return found


@pytest.mark.long(besides=3)
@pytest.mark.parametrize("scenario", ["regression_candidate", "regression_base", "troubled"])
@pytest.mark.parametrize("profile", ["kineto", "nsys_node"])
def test_cells_are_near_their_truth(runs: Runs, scenario: str, profile: str) -> None:
    truth = runs.truth(scenario, profile)
    found = cells_of(runs.ledger(scenario, profile))
    whole = truth["window_ns"] * truth["devices"]
    expected = cells_of(truth["cells"])
    for key in expected.keys() | found.keys():
        want, have = expected.get(key, 0), found.get(key, 0)
        room = max(CELL_SHARE * want, WINDOW_SHARE * whole)
        assert abs(have - want) <= room, f"{key}: {have} instead of {want}"


@pytest.mark.parametrize("profile", [*PROFILES, "nsys_graph"])
def test_cells_sum_exactly_to_the_window(runs: Runs, profile: str) -> None:
    rows = runs.ledger("regression_candidate", profile)
    assert sum(r["time_ns"] for r in rows) == rows[0]["window_ns"] * rows[0]["devices"]
    assert rows[0]["devices"] == 2


def test_busy_unions_are_exact(runs: Runs) -> None:
    truth = runs.truth("regression_candidate", "kineto")
    rows = runs.rows(
        "SELECT metric, device, value FROM gpu_activity "
        "WHERE metric IN ('kernel_union', 'gpu_op_union') ORDER BY metric, device",
        "regression_candidate",
    )
    busy = [("gpu_op_union", d, float(v)) for d, v in enumerate(truth["busy_ns_by_device"])]
    kernels = [
        ("kernel_union", d, float(v)) for d, v in enumerate(truth["kernel_busy_ns_by_device"])
    ]
    assert [tuple(r.values()) for r in rows] == busy + kernels


def test_the_same_run_gives_the_same_ledger_through_every_profiler(runs: Runs) -> None:
    first, *others = (cells_of(runs.ledger("regression_candidate", p)) for p in PROFILES)
    for other in others:
        assert other == first


def test_a_blind_capture_is_not_idle(runs: Runs) -> None:
    found = cells_of(runs.ledger("regression_candidate", "nsys_graph"))
    seen = cells_of(runs.ledger("regression_candidate", "nsys_node"))
    assert found.get(("idle", "none"), 0) == 0
    assert found[("unattributed", "none")] > seen[("idle", "none")]


def assert_held(rows: list[dict[str, Any]], truth: dict[str, Any]) -> None:
    """The truth of every cell lies within its low and high, but for rounding on each device."""
    expected = cells_of(truth["cells"])
    held = [r for r in rows if r["outcome"] != "unknown" and r["work"] != "unattributed"]
    assert {"prefill", "decode", "communication", "copy"} <= {r["work"] for r in held}
    for row in held:
        want = expected.get((row["work"], row["outcome"]), 0)
        assert row["time_ns_low"] - 2 <= want <= row["time_ns_high"] + 2, row


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("profile", ["kineto", "nsys_graph"])
@pytest.mark.parametrize("scenario", ["regression_candidate", "troubled"])
def test_bounds_hold_the_truth(runs: Runs, scenario: str, profile: str) -> None:
    """Also where graphs hide most of decoding, all of its bubbles, and what it says of the cost."""
    assert_held(runs.ledger(scenario, profile), runs.truth(scenario, profile))


@pytest.mark.long
def test_bounds_hold_the_truth_where_a_step_costs_much_without_a_token(runs: Runs) -> None:
    rows = runs.ledger("overlapped", "nsys_graph")
    truth = runs.truth("overlapped", "nsys_graph")
    assert_held(rows, truth)
    # the time that eager kernels take is divided as well as where the graphs' kernels are seen
    key = ("prefill", "good")
    found, want = cells_of(rows)[key], cells_of(truth["cells"])[key]
    assert abs(found - want) <= 0.06 * want


@pytest.mark.long
def test_bounds_hold_the_truth_of_eager_steps_where_graphs_left_no_span(
    runs: Runs, tmp_path: Path
) -> None:
    run = runs.simulated("regression_candidate", 1)
    write_run(run, tmp_path / "run", profiles=["nsys_graph"], with_telemetry=False)
    with sqlite3.connect(tmp_path / "run" / "nsys_graph.sqlite") as export:
        export.execute("DROP TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
    export.close()
    trueput.ingest([tmp_path / "run"], store=tmp_path / "store")
    rows = trueput.sql(
        "SELECT * FROM gpu_ledger", trueput.Reading(store=tmp_path / "store")
    ).dicts()  # fmt: skip
    expected = cells_of(runs.truth("regression_candidate", "nsys_graph")["cells"])
    # decoding was in the graphs: only what ran beside prefill was seen of it
    eager = [r for r in rows if r["work"] in {"prefill", "recompute"}]
    assert len(eager) == 4
    for row in eager:
        want = expected[row["work"], row["outcome"]]
        assert row["time_ns_low"] <= want <= row["time_ns_high"]
        assert abs(row["time_ns"] - want) <= CELL_SHARE * want


@pytest.mark.long
def test_bounds_of_communication_hold_the_share_of_those_who_prefilled(runs: Runs) -> None:
    """Whose it was rests on computing; the simulator shares it by tokens."""
    rows = runs.ledger("improvement_candidate", "kineto")
    expected = cells_of(runs.truth("improvement_candidate", "kineto")["cells"])
    exposed = [r for r in rows if r["work"] in {"communication", "copy"}]
    assert {r["outcome"] for r in exposed} >= {"good", "late"}
    for row in exposed:
        want = expected[row["work"], row["outcome"]]
        assert row["time_ns_low"] - 2 <= want <= row["time_ns_high"] + 2, row


# aborts are dated by log lines of whole seconds, and by when the client left
@pytest.mark.long(besides=1)
@pytest.mark.parametrize("scenario", ["regression_base", "troubled"])
def test_idle_is_split_by_whether_work_was_there(runs: Runs, scenario: str) -> None:
    truth = runs.truth(scenario, "kineto")
    (row,) = runs.rows("SELECT * FROM gpu_idle", scenario)
    # the way of messages between client and engine is all that the two sides differ by
    room = 0.002 * truth["window_ns"] * truth["devices"]
    assert abs(row["queue_empty_ns"] - truth["idle_queue_empty_ns"]) <= room
    assert abs(row["work_waiting_ns"] - truth["idle_work_waiting_ns"]) <= room
    assert row["queue_empty_ns"] + row["work_waiting_ns"] == row["idle_ns"]


@pytest.mark.long(besides=1)
@pytest.mark.parametrize(
    "scenario", ["regression_base", "regression_candidate", "troubled", "tiny"]
)
def test_bounds_of_the_split_hold_the_truth(runs: Runs, scenario: str) -> None:
    """The way of messages, tokenising and noticing an abort are within them."""
    truth = runs.truth(scenario, "kineto")
    (row,) = runs.rows("SELECT * FROM gpu_idle", scenario)
    for part in ("queue_empty_ns", "work_waiting_ns"):
        assert row[f"{part}_low"] <= truth[f"idle_{part}"] <= row[f"{part}_high"]


def config(scenario: str, runs: Runs) -> str:
    """Three repeats of a scenario, as an argument of the gate."""
    return ",".join(str(runs.made(scenario, "kineto", seed)) for seed in (1, 2, 3))


@pytest.mark.long
def test_the_raised_batch_limit_is_flagged_with_where_the_time_went(runs: Runs) -> None:
    result = trueput.gate(
        config("regression_base", runs), [config("regression_candidate", runs)],
        reading=runs.reading,
    )  # fmt: skip
    assert (result.verdict.value, result.exit_code) == ("flagged", 1)
    rungs = {
        f.metric: f
        for f in result.candidates[0].findings
        if f.rule == "activity-without-goodput" and f.outcome.value == "flagged"
    }
    assert {"kernel_union", "gpu_op_union", "engine_step", "scheduled_tokens"} <= rungs.keys()
    told = " ".join(f.conclusion for f in rungs.values())
    assert "points: recompute +" in told
    assert "for late or failed requests +" in told


@pytest.mark.long
def test_the_pair_that_improves_is_not_flagged(runs: Runs) -> None:
    result = trueput.gate(
        config("improvement_base", runs), [config("improvement_candidate", runs)],
        reading=runs.reading,
    )  # fmt: skip
    assert result.verdict.value == "pass"
