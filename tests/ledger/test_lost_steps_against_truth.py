"""Simulated profiles that lost steps, or the graphs of steps: each truth lies within its bounds.

Without the engine's log only spans and the client tell what was served meanwhile.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ledger.damages import (
    Goes,
    Part,
    damage,
    every_fifth,
    graphs,
    half_of_the_graphs,
    prefills,
    some_that_decode,
    stretch,
)
from simulator import SCENARIOS, simulate, write_run
from simulator.engine import Run
from simulator.truth import Ledger, ledger_of

import trueput

Rows = list[dict[str, Any]]
BOTH, FIRST = (0, 1), (0,)
LOG, SPANS, BENCH = "server.log.gz", "otlp.jsonl.gz", "bench.json.gz"
LOST = ("INGEST009", "INGEST013")


@dataclass(frozen=True)
class Case:
    """What a profile lost, on which ranks, which files are missing beside it, and by how much the
    client's clock is off."""

    profile: str
    goes: Goes
    ranks: Collection[int] = BOTH
    without: tuple[str, ...] = (LOG,)
    off_s: float = 0.0


CASES = {
    "a stretch of time": Case("kineto", stretch),
    "a stretch of one rank in nsys": Case("nsys_node", stretch, FIRST),
    "every step that prefills": Case("kineto", prefills),
    "every step that prefills, in graph mode": Case("nsys_graph", prefills),
    "every step of one rank that prefills": Case("nsys_eager", prefills, FIRST),
    "every step of one rank that prefills, with the log": Case("kineto", prefills, FIRST, ()),
    "every step that prefills, with the log": Case("nsys_node", prefills, BOTH, ()),
    "every fifth step": Case("kineto", every_fifth),
    "every fifth step, in graph mode": Case("nsys_graph", every_fifth),
    "some steps that decode": Case("nsys_node", some_that_decode),
    "some steps of one rank that decode": Case("kineto", some_that_decode, FIRST),
    "every second graph of spans": Case("nsys_graph", half_of_the_graphs, BOTH, ()),
    "every second graph of spans, without a log": Case("nsys_graph", half_of_the_graphs),
    "every second graph of one rank's spans": Case("nsys_graph", half_of_the_graphs, FIRST, ()),
    "every graph": Case("kineto", graphs, BOTH, ()),
    "every graph in nsys": Case("nsys_node", graphs, BOTH, ()),
    "every graph of one rank": Case("kineto", graphs, FIRST, ()),
    "every graph of one rank's spans": Case("nsys_graph", graphs, FIRST, ()),
}


@dataclass(frozen=True)
class Found:
    """The truth of a run, and what is read of it in each case: ledgers and problems by case."""

    ledger: Ledger
    rows: dict[str, Rows]
    told: dict[str, set[str]]


def written(run: Run, folder: Path, case: Case) -> None:
    write_run(run, folder, profiles=[case.profile], with_telemetry=False, compresslevel=1)
    for name in case.without:
        (folder / name).unlink()
    if case.off_s:
        move_sends(folder / BENCH, case.off_s)
    damage(folder, case.goes, case.ranks)


def move_sends(path: Path, by_s: float) -> None:
    """Move the sends of a client by the difference of two clocks."""
    content = json.loads(gzip.decompress(path.read_bytes()))
    content["start_times"] = [at + by_s for at in content["start_times"]]
    path.write_bytes(gzip.compress(json.dumps(content).encode(), 1))


def read(run: Run, folder: Path, cases: dict[str, Case]) -> Found:
    for name, case in cases.items():
        written(run, folder / "runs" / name, case)
    trueput.ingest([folder / "runs"], store=folder / "store")
    reading = trueput.Reading(store=folder / "store")
    rows: dict[str, Rows] = {name: [] for name in cases}
    for row in trueput.sql("SELECT * FROM gpu_ledger", reading).dicts():
        rows[row["run_id"]].append(row)
    told: dict[str, set[str]] = {name: set() for name in cases}
    for name, code in trueput.sql("SELECT run_id, code FROM problems", reading).rows:
        told[name].add(code)
    return Found(ledger_of(run), rows, told)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    run = simulate(SCENARIOS["tiny"], seed=3)
    return read(run, tmp_path_factory.mktemp("lost_steps"), CASES)


def assert_held(ledger: Ledger, rows: Rows) -> None:
    """The cells sum to the window, each truth lies within its bounds, and no work is left out."""
    whole = (ledger.window[1] - ledger.window[0]) * ledger.devices
    assert sum(r["time_ns"] or 0 for r in rows) == whole
    cells = {(r["work"], r["outcome"]): r for r in rows if r["time_ns"] is not None}
    for (work, outcome), row in cells.items():
        if work != "unattributed" and outcome != "unknown":
            truth = ledger.cells.get((work, outcome), 0)
            # rounded on each device
            assert row["time_ns_low"] - 4 <= truth <= row["time_ns_high"] + 4, (work, outcome)
    shown = {work for work, _ in cells}
    for (work, outcome), truth in ledger.cells.items():
        if truth and work != "recompute":
            assert (work, outcome) in cells or (work, "unknown") in cells, (work, outcome)
    assert shown >= {"prefill", "decode", "communication", "copy", "idle"}


@pytest.mark.parametrize("name", CASES)
def test_every_truth_is_within_its_bounds(found: Found, name: str) -> None:
    assert_held(found.ledger, found.rows[name])
    assert found.told[name] & set(LOST)
    (idle,) = (r for r in found.rows[name] if r["work"] == "idle")
    assert idle["basis"] == "bounded"


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.goes is prefills])
def test_prefill_that_no_step_shows_is_bounded_and_not_absent(found: Found, name: str) -> None:
    prefill = [r for r in found.rows[name] if r["work"] == "prefill"]
    assert {r["outcome"] for r in prefill} >= {"good", "late"}
    if CASES[name].ranks == BOTH:
        assert {(r["time_ns"], r["time_ns_low"], r["basis"]) for r in prefill} == {
            (0, 0, "bounded")
        }
        assert all(r["time_ns_high"] > 0 for r in prefill)


@pytest.mark.long
@pytest.mark.parametrize("seed", [4103, 3])
def test_bounds_of_a_longer_run_hold_each_truth(tmp_path: Path, seed: int) -> None:
    run = simulate(SCENARIOS["troubled"], seed=seed)
    read_of = read(run, tmp_path, CASES)
    for name, rows in read_of.rows.items():
        assert_held(read_of.ledger, rows)
        assert read_of.told[name] & set(LOST), name


def outside(low: float, high: float) -> Goes:
    """What a profile of a part of the load does not hold."""

    def goes(part: Part) -> bool:
        return part.step > 0 and not low <= part.place <= high

    return goes


def nothing(_: Part) -> bool:
    return False


def notes(part: Part) -> bool:
    """Annotations alone: what the steps ran is there."""
    return part.is_note and part.step % 5 == 0


WHOLE = {
    "whole": Case("kineto", nothing),
    "whole, with a client alone": Case("kineto", nothing, BOTH, (LOG, SPANS)),
    "whole, with spans alone": Case("nsys_graph", nothing, BOTH, (LOG, BENCH)),
    "without some annotations": Case("kineto", notes),
    "of the begin": Case("kineto", outside(-1, 0.5)),
    "of the middle": Case("nsys_node", outside(0.3, 0.6)),
    "of the end": Case("kineto", outside(0.5, 2), BOTH, (LOG, SPANS)),
    "whole, with a client that is early": Case("kineto", nothing, BOTH, (LOG, SPANS), -0.2),
    "whole, with a client that is late": Case("kineto", nothing, BOTH, (LOG, SPANS), 0.2),
}


@pytest.mark.long(besides=2)
@pytest.mark.parametrize(
    ("scenario", "changes"),
    [
        ("tiny", {"stall_ratio": 0.3, "stall_ns": 50_000_000}),
        # host-bound: requests decode while the device waits for the host
        ("tiny", {"stall_ratio": 0.05, "stall_ns": 200_000_000}),
        ("troubled", {"stall_ratio": 0.05, "stall_ns": 200_000_000}),
        ("overlapped", {"requests": 40}),
        ("troubled", {"request_rate": 40.0, "requests": 200, "output_tokens": (4, 12)}),
    ],
)
def test_a_profile_that_lost_nothing_is_believed(
    tmp_path: Path, scenario: str, changes: dict[str, Any]
) -> None:
    run = simulate(SCENARIOS[scenario].replace(**changes), seed=2)
    found = read(run, tmp_path, WHOLE)
    assert not [name for name, told in found.told.items() if told & set(LOST)]
    truth = found.ledger.idle_empty + found.ledger.idle_waiting
    for name in ("whole", "whole, with a client alone", "without some annotations"):
        (idle,) = (r for r in found.rows[name] if r["work"] == "idle")
        assert (idle["time_ns"], idle["basis"]) == (truth, "measured")
