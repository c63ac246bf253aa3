"""A run that an older version wrote, beside one of today's: what its files lack is unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from ingest.made import write_log

from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading, open_runs
from trueput.verbs.sql import sql


def age(store: Path, run_id: str, table: str, column: str) -> None:
    """Take a column out of a run's parts, as before it existed, and say so in the manifest."""
    for part in (store / table / run_id).glob("*.parquet"):
        pq.write_table(pq.read_table(part).drop_columns([column]), part)
    manifest = store / "_runs" / f"{run_id}.json"
    told = json.loads(manifest.read_text("utf-8"))
    told.pop("sizes", None)
    manifest.write_text(json.dumps({**told, "reader_version": "0"}), encoding="utf-8")


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("old", [["a"], ["b"], ["a", "b"]])
def test_a_column_that_did_not_exist_is_null(tmp_path: Path, old: list[str]) -> None:
    store = tmp_path / "store"
    for name in ("a", "b"):
        write_log(tmp_path / name / "server.log")
        ingest([tmp_path / name], store=store)
    for run_id in old:
        age(store, run_id, "engine_steps", "kv_used_ratio")
        age(store, run_id, "engine_steps", "generation_tokens")
    question = (
        "SELECT run_id, count(*) AS steps, count(generation_tokens) AS told FROM engine_steps "
        "GROUP BY run_id ORDER BY run_id"
    )
    assert sql(question, Reading(store=store)).dicts() == [
        {"run_id": name, "steps": 12, "told": 0 if name in old else 12} for name in ("a", "b")
    ]
    assert len(sql("FROM run_phases", Reading(store=store)).dicts()) > 0


PROFILED = Path(__file__).parents[2] / "sample_data"
UNIONS = "SELECT * FROM gpu_activity WHERE metric LIKE '%union' ORDER BY ALL"
IDLE = "FROM gpu_idle ORDER BY ALL"


def forget_unions(store: Path, run_id: str) -> None:
    """Let a run be one of a version that kept no stretches of its GPU operations."""
    manifest = store / "_runs" / f"{run_id}.json"
    told = json.loads(manifest.read_text("utf-8"))
    for table in ("gpu_busy", "gpu_op_totals"):
        del told["files"][table], told["rows"][table]
    manifest.write_text(json.dumps({**told, "reader_version": "3"}), encoding="utf-8")


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two profiled runs."""
    store = tmp_path_factory.mktemp("profiled")
    ingest([PROFILED / f"simulated_{name}" for name in ("base", "candidate")], store=store)
    return store


def both(reading: Reading) -> dict[str, list[dict[str, Any]]]:
    """Answer both questions of one opening."""
    with open_runs(None, reading) as warehouse:
        return {question: warehouse.query(question).dicts() for question in (UNIONS, IDLE)}


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("window", ["all", "fixed:1s..1500ms"])
def test_busy_time_of_a_run_without_stretches(profiled: Path, window: str) -> None:
    reading = Reading(store=profiled, window=window)
    manifests = {path: path.read_text("utf-8") for path in (profiled / "_runs").iterdir()}
    kept = both(reading)
    assert {(row["run_id"], row["metric"]) for row in kept[UNIONS]} == {
        (f"simulated_{name}", f"{what}_union")
        for name in ("base", "candidate") for what in ("kernel", "gpu_op")
    }  # fmt: skip
    assert all(0 < row["value"] < row["window_ns"] for row in kept[UNIONS])
    try:
        for name in ("simulated_base", "simulated_candidate"):  # one of the two, then both
            forget_unions(profiled, name)
            assert both(reading) == kept
    finally:
        for path, text in manifests.items():
            path.write_text(text, encoding="utf-8")
