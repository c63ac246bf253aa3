"""What tests share: a warehouse that was closed answers again, as a new one would."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import kept_open
import pytest
from ingest.made import write_log

from trueput.errors import QueryError, StoreError
from trueput.ingest.store import Store
from trueput.verbs import opening
from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading, open_runs
from trueput.verbs.sql import sql
from trueput.warehouse.session import Warehouse

COUNT = "SELECT count(*) FROM engine_steps"


@pytest.fixture
def how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reading]:
    """A store with one run of three steps; warehouses are kept, whatever the session does."""
    monkeypatch.setattr(opening, "Warehouse", kept_open.warehouse)
    reading = Reading(store=tmp_path / "store")
    write_log(tmp_path / "run" / "server.log", 1)
    ingest([tmp_path / "run"], store=reading.store)
    yield reading
    kept_open.close_all()


def opened(how: Reading) -> Warehouse:
    with open_runs(None, how) as warehouse:
        return warehouse


def test_the_same_files_are_opened_once(how: Reading) -> None:
    first = opened(how)
    assert opened(how) is first
    assert opened(Reading(store=how.store, slo="ttft=1s")) is not first
    assert opened(Reading(store=how.store, window="steady")) is not first


def test_two_at_once_have_one_each(how: Reading) -> None:
    with open_runs(None, how) as first, open_runs(None, how) as second:
        assert first is not second


def test_another_state_of_a_run_is_read_anew(how: Reading, tmp_path: Path) -> None:
    assert sql(COUNT, how).rows == [(3,)]
    write_log(tmp_path / "run" / "server.log", 2)
    ingest([tmp_path / "run"], store=how.store)
    assert sql(COUNT, how).rows == [(6,)]


def test_a_file_that_was_cut_is_told(how: Reading) -> None:
    assert sql(COUNT, how).rows == [(3,)]
    assert how.store is not None
    manifest = Store(how.store).manifest("run")
    assert manifest is not None
    part = how.store / manifest.files["engine_steps"][0]
    part.write_bytes(b"x" * part.stat().st_size)
    with pytest.raises(StoreError, match=part.name):
        sql(COUNT, how)


@pytest.mark.parametrize("query", ["CREATE TABLE mine AS SELECT 1", "SELECT nothing FROM runs"])
def test_what_was_changed_or_failed_is_not_kept(how: Reading, query: str) -> None:
    first = opened(how)
    try:
        sql(query, how)
    except QueryError:
        assert query.startswith("SELECT")
    assert opened(how) is not first
    with pytest.raises(QueryError, match="mine"):
        sql("FROM mine", how)
