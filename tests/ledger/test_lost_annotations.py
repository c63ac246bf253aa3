"""Profiles that show every operation and lack step annotations: what stands in none may be of any.

The log tells which iterations ran; the device's own time is all there, so that idle stays exact.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from simulator import SCENARIOS, simulate, write_run
from simulator.truth import Ledger, ledger_of

import trueput

Event = dict[str, Any]
Which = Callable[[int, int, Event], bool]
"""Asked of an annotation's place, how many there are, and itself: whether it is lost."""

LOST: dict[str, Which] = {
    "the first fifth": lambda n, count, _: n < count // 5,
    "the last fifth": lambda n, count, _: n >= count - count // 5,
    "both ends": lambda n, count, _: not count // 5 <= n < count - count // 5,
    "some in the middle": lambda n, count, _: 0.4 * count <= n < 0.5 * count,
    "every fifth": lambda n, _, __: n % 5 == 0,
    "a third": lambda n, _, __: random.Random(n).random() < 0.3,
    "those of prefill": lambda _, __, note: "context_0(" not in note["name"],
    "those of decoding": lambda _, __, note: "context_0(" in note["name"],
}
RANKS = {"on both ranks": (0, 1), "on one rank": (1,)}
NAMES = [f"{what} {where}" for what in LOST for where in RANKS]
TOLERANCE_NS = 4
"""Cells are rounded on each device."""


def lose(path: Path, which: Which) -> None:
    content = json.loads(gzip.decompress(path.read_bytes()))
    notes = [e for e in content["traceEvents"] if e.get("cat") == "user_annotation"]
    notes.sort(key=lambda e: float(e["ts"]))
    gone = {id(e) for n, e in enumerate(notes) if which(n, len(notes), e)}
    content["traceEvents"] = [
        e
        for e in content["traceEvents"]
        if id(e) not in gone and e.get("cat") != "gpu_user_annotation"
    ]
    path.write_bytes(gzip.compress(json.dumps(content).encode(), 1))


class Lost:
    """Runs of one scenario without some of their annotations, in one store."""

    def __init__(self, folder: Path, scenario: str, seed: int, names: Collection[str]) -> None:
        run = simulate(SCENARIOS[scenario], seed=seed)
        self.truth: Ledger = ledger_of(run)
        whole = folder / "whole"
        write_run(run, whole, profiles=["kineto"], with_telemetry=False, compresslevel=1)
        for what, which in LOST.items():
            for where, ranks in RANKS.items():
                if f"{what} {where}" not in names:
                    continue
                damaged = folder / "runs" / f"{what} {where}"
                shutil.copytree(whole, damaged)
                for rank in ranks:
                    (path,) = damaged.rglob(f"*_rank{rank}.*.pt.trace.json.gz")
                    lose(path, which)
        trueput.ingest([folder / "runs"], store=folder / "store")
        self.reading = trueput.Reading(store=folder / "store")

    def rows(self, query: str) -> list[dict[str, Any]]:
        return trueput.sql(query, self.reading).dicts()

    def cells(self, name: str) -> dict[tuple[str, str], dict[str, Any]]:
        rows = self.rows(f"SELECT * FROM gpu_ledger WHERE run_id = '{name}'")
        return {(row["work"], row["outcome"]): row for row in rows}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Lost:
    return Lost(tmp_path_factory.mktemp("tiny"), "tiny", 3, NAMES)


def assert_bounded(lost: Lost, name: str) -> None:
    """Every true cell is within low and high of its own, or the work has one of nobody's."""
    cells = lost.cells(name)
    truth = lost.truth
    idle = cells["idle", "none"]
    assert idle["time_ns"] == truth.idle_empty + truth.idle_waiting
    assert idle["basis"] == "measured"
    assert "other" not in {work for work, _ in cells}
    for (work, outcome), want in truth.cells.items():
        row = cells.get((work, outcome)) or cells.get((work, "unknown"))
        assert row is not None, (work, outcome)
        if row["time_ns"] is None:
            assert row["basis"] == "unknown"
            continue
        assert want <= row["time_ns_high"] + TOLERANCE_NS, row
        if row["outcome"] == outcome:
            assert row["time_ns_low"] - TOLERANCE_NS <= want, row


@pytest.mark.parametrize("name", NAMES)
def test_what_no_annotation_holds_may_be_any_work(tiny: Lost, name: str) -> None:
    assert_bounded(tiny, name)


@pytest.mark.parametrize("name", NAMES)
def test_lost_annotations_are_told_and_no_operation_is_said_to_be_lost(
    tiny: Lost, name: str
) -> None:
    rows = tiny.rows(
        f"SELECT source_id, code FROM problems WHERE run_id = '{name}' AND source_id IS NOT NULL"
    )
    told = [row["source_id"] for row in rows if row["code"] == "ATTR019"]
    assert len(told) == (2 if name.endswith("both ranks") else 1)
    assert not {row["code"] for row in rows} & {"INGEST009", "INGEST013"}


@pytest.mark.long
def test_bounds_hold_in_a_run_of_many_outcomes(tmp_path: Path) -> None:
    names = ["both ends on one rank", "a third on both ranks", "those of prefill on both ranks"]
    lost = Lost(tmp_path, "troubled", 4103, names)
    for name in names:
        assert_bounded(lost, name)
