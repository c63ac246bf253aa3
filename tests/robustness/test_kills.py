"""A killed ingest leaves every run as it was before or as it is after, never in between.

TRUEPUT_KILLS says how often (default 2, and 6 of the long tests).
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pyarrow as pa
from effort import examples
from ingest.made import content, write_log
from robustness.writer import start

from trueput.ingest.store import Store
from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading
from trueput.verbs.sql import sql

KILLS = int(os.environ.get("TRUEPUT_KILLS", str(examples(6))))
SMALL, LARGE = 20, 4000


def states(tmp_path: Path) -> tuple[Path, dict[int, dict[str, pa.Table]]]:
    """Return the run folder and what a store holds of it in each of its two states."""
    run = tmp_path / "run"
    found: dict[int, dict[str, pa.Table]] = {}
    for requests in (SMALL, LARGE):
        write_log(run / "server.log", requests)
        ingest([run], store=tmp_path / f"store-{requests}")
        found[requests] = content(tmp_path / f"store-{requests}", "run")
    return run, found


def test_kill_at_any_moment(tmp_path: Path) -> None:
    run, known = states(tmp_path)
    store = tmp_path / "store"
    write_log(run / "server.log", SMALL)
    ingest([run], store=store)
    began = time.monotonic()
    write_log(run / "server.log", LARGE)
    whole = start(run, tmp_path / "timed")
    assert whole.wait(120) == 0
    usual = time.monotonic() - began
    rnd = random.Random(20261129)
    held = SMALL
    for _ in range(KILLS):
        wanted = LARGE if held == SMALL else SMALL
        write_log(run / "server.log", wanted)
        child = start(run, store)
        # the first part of a process's life is spent on imports
        time.sleep(rnd.uniform(0.3, 1.1) * usual)
        child.kill()
        child.wait(60)
        now = content(store, "run")
        held = SMALL if now == known[SMALL] else LARGE
        assert now == known[held]
        how = Reading(store=store)
        steps = sql("SELECT count(*), min(run_id) FROM engine_steps", how).rows
        assert steps == [(3 * held, "run")]
    # whatever the kills left behind, the next ingest goes through
    write_log(run / "server.log", SMALL)
    ingest([run], store=store, replace=True)
    assert content(store, "run") == known[SMALL]


def test_a_kill_before_the_first_commit_leaves_no_run(tmp_path: Path) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    write_log(run / "server.log", LARGE)
    child = start(run, store)
    while not list(store.glob("*/run/*.parquet")) and child.poll() is None:
        time.sleep(0.005)
    child.kill()
    child.wait(60)
    manifests = Store(store).manifests()
    if "run" in manifests:  # it was faster than the kill
        assert content(store, "run")["runs"].num_rows == 1
    else:
        assert sql("SELECT count(*) FROM engine_steps", Reading(store=store)).rows == [(0,)]
    ingest([run], store=store)
    assert content(store, "run")["engine_steps"].num_rows == 3 * LARGE
