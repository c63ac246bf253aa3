"""Several processes on one store: two writers, and a reader during a re-ingest."""

from __future__ import annotations

from pathlib import Path

import pytest
from ingest.made import content, write_log
from robustness.writer import start

from trueput.ingest.store import Store
from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading, open_runs
from trueput.verbs.sql import sql


def test_two_ingests_of_the_same_run(tmp_path: Path) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    write_log(run / "server.log", 300)
    children = [start(run, store) for _ in range(3)]
    assert [child.wait(120) for child in children] == [0, 0, 0]
    ingest([run], store=tmp_path / "alone")
    assert content(store, "run") == content(tmp_path / "alone", "run")
    # those who came later found the same bytes and wrote nothing
    parts = list(store.glob("engine_steps/run/*.parquet"))
    assert len(parts) == 1


@pytest.mark.long
def test_two_paths_for_one_name_do_not_mix(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for folder, requests in (("a", 200), ("b", 300)):
        write_log(tmp_path / folder / "run" / "server.log", requests)
    children = [start(tmp_path / f / "run", store, "--replace") for f in ("a", "b")]
    assert [child.wait(120) for child in children] == [0, 0]
    assert content(store, "run")["engine_steps"].num_rows in {600, 900}


@pytest.mark.long
def test_ingests_of_different_runs(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for k in range(3):
        write_log(tmp_path / f"run{k}" / "server.log", 50 + k)
    children = [start(tmp_path / f"run{k}", store) for k in range(3)]
    assert [child.wait(120) for child in children] == [0, 0, 0]
    counts = sql("SELECT run_id, count(*) FROM engine_steps GROUP BY 1 ORDER BY 1",
                 Reading(store=store)).rows  # fmt: skip
    assert counts == [(f"run{k}", 3 * (50 + k)) for k in range(3)]


def test_a_reader_keeps_what_it_opened_during_a_re_ingest(tmp_path: Path) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    write_log(run / "server.log", 20)
    ingest([run], store=store)
    with open_runs(None, Reading(store=store)) as before:
        write_log(run / "server.log", 30)
        ingest([run], store=store)
        assert before.ask("SELECT count(*) FROM engine_steps").rows == [(60,)]
    assert sql("SELECT count(*) FROM engine_steps", Reading(store=store)).rows == [(90,)]


@pytest.mark.long
def test_readers_beside_a_writer_see_one_state_or_the_other(tmp_path: Path) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    write_log(run / "server.log", 20)
    ingest([run], store=store)
    write_log(run / "server.log", 2000)
    child = start(run, store)
    seen = set()
    while child.poll() is None:
        query = "SELECT count(*), (SELECT count(*) FROM request_events) FROM engine_steps"
        seen.add(sql(query, Reading(store=store)).rows[0])
    assert child.wait() == 0
    assert seen <= {(60, 60), (6000, 6000)}
    assert Store(store).manifest("run") is not None
