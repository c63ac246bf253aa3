"""A run of the simulator, its ledger, and whether each cell of it is near the truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simulator import Config, simulate, write_run

import trueput

CELL_SHARE = 0.05
WINDOW_SHARE = 0.01
ROUNDED = 16
"""Low and high are rounded down on each device, ns."""
Cells = dict[tuple[str, str], dict[str, Any]]


def ledger(config: Config, seed: int, folder: Path) -> Cells:
    """Cells of a run that served somebody, written to `folder` and read."""
    write_run(
        simulate(config, seed), folder, profiles=["kineto"], with_telemetry=False, compresslevel=1
    )
    reading = trueput.Reading(store=folder.parent / "store")
    trueput.ingest([folder], store=reading.store)
    rows = trueput.sql("SELECT * FROM gpu_ledger", reading).dicts()
    return {(r["work"], r["outcome"]): r for r in rows if r["outcome"] != "none"}


def truth_of(folder: Path) -> tuple[dict[tuple[str, str], int], int]:
    """True cells of a run that served somebody, and its device time, ns."""
    told = json.loads((folder / "truth_ledger.json").read_text())
    cells = {(c["work"], c["outcome"]): c["time_ns"] for c in told["cells"]
             if c["outcome"] != "none"}  # fmt: skip
    return cells, told["window_ns"] * told["devices"]


def check(found: Cells, folder: Path) -> None:
    """Every cell is near its truth, and low and high hold it."""
    truth, whole = truth_of(folder)
    assert found.keys() >= truth.keys()
    for key, row in found.items():
        want = truth.get(key, 0)
        room = max(CELL_SHARE * want, WINDOW_SHARE * whole)
        assert abs(row["time_ns"] - want) <= room, key
        if key[1] != "unknown":
            assert row["time_ns_low"] - ROUNDED <= want <= row["time_ns_high"] + ROUNDED, key
