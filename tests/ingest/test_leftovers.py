"""What killed ingests left in a store goes with a later ingest of any run."""

from __future__ import annotations

import os
import time
from pathlib import Path

from filelock import FileLock
from ingest.made import content, write_log

from trueput.ingest.store import SWEEP_AFTER_S, Store
from trueput.verbs.ingest import ingest


def left(store: Path, name: str, age_s: float) -> Path:
    """Put a file that no manifest names into a store."""
    path = store / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"remains")
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path


def test_old_remains_of_all_runs_go_with_the_next_ingest(tmp_path: Path) -> None:
    store, old = tmp_path / "store", SWEEP_AFTER_S + 60
    for name in ("a", "b"):
        write_log(tmp_path / name / "server.log")
    ingest([tmp_path / "a"], store=store)
    for path in store.glob("*/a/*"):  # what a manifest names stays, whatever its age
        os.utime(path, (time.time() - old, time.time() - old))
    before = content(store, "a")
    swept = [
        left(store, "engine_steps/a/server.log-00000000-0.parquet", old),
        left(store, "gpu_ops/a/t.json-00000000-0.new", old),
        left(store, "gpu_ops/never committed/t.json-00000000-0.parquet", old),
        left(store, "_runs/a.123.tmp", old),
    ]
    young = left(store, "engine_steps/a/server.log-11111111-0.parquet", SWEEP_AFTER_S - 300)
    ingest([tmp_path / "b"], store=store)
    assert [path for path in swept if path.exists()] == []
    assert young.exists()
    assert content(store, "a") == before


def test_a_run_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    path = left(store.root, "engine_steps/a/server.log-00000000-0.parquet", SWEEP_AFTER_S + 60)
    with FileLock(store.lock_path("a")):
        assert store.sweep() == 0
    assert path.exists()
    assert store.sweep() == 1
    assert not path.exists()


def test_nothing_goes_while_a_manifest_cannot_be_read(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    path = left(store.root, "engine_steps/a/server.log-00000000-0.parquet", SWEEP_AFTER_S + 60)
    left(store.root, "_runs/b.json", 0)
    assert store.sweep() == 0
    assert path.exists()
