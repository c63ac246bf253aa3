"""Files of a store that are gone, cut or overwritten: told by name, and written again by ingest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from ingest.made import content, write_log

from trueput.errors import QueryError, StoreError, UsageError
from trueput.ingest.store import Store
from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading
from trueput.verbs.runs import runs
from trueput.verbs.show import show
from trueput.verbs.sql import sql
from trueput.warehouse.failures import damaged_columns


@pytest.fixture
def how(tmp_path: Path) -> Reading:
    """A store with two runs, `hurt` and `well`, of folders of these names beside it."""
    for name in ("hurt", "well"):
        write_log(tmp_path / name / "server.log")
    reading = Reading(store=tmp_path / "store")
    ingest([tmp_path / "hurt", tmp_path / "well"], store=reading.store)
    return reading


def part(how: Reading, table: str) -> Path:
    """The file of a table of the run `hurt`."""
    assert how.store is not None
    manifest = Store(how.store).manifest("hurt")
    assert manifest is not None
    return how.store / manifest.files[table][0]


def gone(path: Path) -> None:
    """Remove a file."""
    path.unlink()


def cut(path: Path) -> None:
    """Keep the first half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    """Keep nothing of a file."""
    path.write_bytes(b"")


@pytest.mark.long(besides=2)
@pytest.mark.parametrize("damage", [gone, cut, empty])
@pytest.mark.parametrize("table", ["request_events", "engine_steps", "runs"])
def test_a_damaged_file_is_named_and_other_runs_answer(how: Reading, damage, table: str) -> None:  # type: ignore[no-untyped-def]
    path = part(how, table)
    before = content(path.parents[2], "hurt")
    damage(path)
    for question in (lambda: show("hurt", how), lambda: sql("FROM gpu_activity", how)):
        with pytest.raises(StoreError) as error:
            question()
        assert path.name in error.value.message
        assert "ingest" in (error.value.hint or "")
    assert sql("SELECT run_id FROM goodput", how, ["well"]).rows == [("well",)]
    assert show("well", how)["runs"][0]["run_id"] == "well"
    notes: list[str] = []
    listed = runs(Reading(store=how.store, note=notes.append))
    assert [row["run_id"] for row in listed] == ["well"]
    assert path.name in notes[0]
    # the same bytes again
    assert how.store is not None
    (done,) = ingest([how.store.parent / "hurt"], store=how.store)
    assert done.state == "replaced"
    assert content(path.parents[2], "hurt") == before
    assert len(runs(how)) == 2
    (again,) = ingest([how.store.parent / "hurt"], store=how.store)
    assert again.state == "unchanged"


def forget(how: Reading, *names: str) -> None:
    """Take members out of the manifest of the run `hurt`, as before they existed."""
    assert how.store is not None
    manifest = how.store / "_runs" / "hurt.json"
    told = json.loads(manifest.read_text("utf-8"))
    manifest.write_text(json.dumps({**told, **{n: OF_OLD[n] for n in names}}), encoding="utf-8")


OF_OLD: dict[str, Any] = {"path": None, "sizes": {}}


def test_a_file_with_fewer_rows_is_told_without_its_size(how: Reading) -> None:
    forget(how, "sizes")
    assert sql("SELECT count(*) FROM engine_steps", how, ["hurt"]).rows == [(12,)]
    path = part(how, "engine_steps")
    pq.write_table(pq.read_table(path).slice(0, 5), path)
    with pytest.raises(StoreError, match=path.name):
        sql("FROM engine_steps", how)
    assert sql("SELECT count(*) FROM engine_steps", how, ["well"]).rows == [(12,)]
    assert how.store is not None
    (done,) = ingest([how.store.parent / "hurt"], store=how.store)
    assert done.state == "replaced"


def test_the_remedy_names_no_path_where_none_is_known(how: Reading) -> None:
    forget(how, "path")
    part(how, "engine_steps").unlink()
    with pytest.raises(StoreError) as error:
        sql("FROM engine_steps", how)
    assert "ingest it again;" in str(error.value)
    assert "None" not in str(error.value)
    assert how.store is not None
    write_log(how.store.parent / "hurt" / "server.log", 5)
    with pytest.raises(UsageError) as taken:
        ingest([how.store.parent / "hurt"], store=how.store)
    assert "None" not in str(taken.value)


def test_a_file_with_other_bytes_is_told_and_replaced(how: Reading) -> None:
    path = part(how, "request_events")
    path.write_bytes(b"x" * path.stat().st_size)
    for question in (lambda: show("hurt", how), lambda: sql("FROM requests", how)):
        with pytest.raises(StoreError, match=path.name):
            question()
    assert how.store is not None
    (done,) = ingest([how.store.parent / "hurt"], store=how.store, replace=True)
    assert done.state == "replaced"
    assert show("hurt", how)["runs"][0]["run_id"] == "hurt"


@pytest.mark.long(besides=2)
@pytest.mark.parametrize("byte", [0x00, 0x5A, 0xFF])
@pytest.mark.parametrize("table", ["request_events", "engine_steps"])
def test_bytes_flipped_inside_a_file_are_told_by_its_name(
    how: Reading, table: str, byte: int
) -> None:
    """The ends of the file stay whole: the database's own message names no file."""
    path = part(how, table)
    data = bytearray(path.read_bytes())
    first = len(data) // 40
    data[4 : 4 + first] = bytes([byte]) * first
    path.write_bytes(data)
    for question in (lambda: show("hurt", how), lambda: sql(f"FROM raw.{table}", how)):
        with pytest.raises(StoreError, match=path.name) as error:
            question()
        assert "ingest --replace" in (error.value.hint or "")
    with pytest.raises(QueryError):  # a mistake in the question stays one
        sql("SELECT no_such FROM runs", how)


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("bit", [0x01, 0x08, 0x80])
def test_a_bit_flipped_in_the_name_of_a_column_is_told_by_its_file(how: Reading, bit: int) -> None:
    """The file can be read; it is not of its table any more (with the eighth bit: no text)."""
    path = part(how, "request_events")
    data = bytearray(path.read_bytes())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    data[data.index(b"prompt_tokens", footer)] ^= bit
    path.write_bytes(data)
    for question in (
        lambda: show("hurt", how), lambda: runs(how), lambda: sql("FROM requests", how)
    ):  # fmt: skip
        with pytest.raises(StoreError, match=path.name) as error:
            question()
        assert "ingest --replace" in (error.value.hint or "")
    assert sql("SELECT run_id FROM goodput", how, ["well"]).rows == [("well",)]
    assert how.store is not None
    ingest([how.store.parent / "hurt"], store=how.store, replace=True)
    assert len(runs(how)) == 2


def test_a_whole_store_has_the_columns_of_its_tables(how: Reading) -> None:
    assert how.store is not None
    assert damaged_columns({str(p) for p in how.store.rglob("*.parquet")}) is None


def test_a_file_of_the_user_is_not_one_of_the_store(how: Reading, tmp_path: Path) -> None:
    (tmp_path / "mine.parquet").write_bytes(b"no parquet")
    with pytest.raises(QueryError, match="mine"):
        sql(f"FROM read_parquet('{tmp_path}/mine.parquet')", how)


@pytest.mark.long
def test_a_path_heals_its_own_run(how: Reading) -> None:
    gone(part(how, "engine_steps"))
    assert how.store is not None
    assert show(str(how.store.parent / "hurt"), how)["runs"][0]["run_id"] == "hurt"


@pytest.mark.long
def test_a_damaged_manifest_is_told_and_written_again(how: Reading) -> None:
    assert how.store is not None
    (how.store / "_runs" / "hurt.json").write_text('{"run_id": "hu')
    with pytest.raises(StoreError, match=r"hurt\.json"):
        runs(how)
    assert show("well", how)["runs"][0]["run_id"] == "well"
    ingest([how.store.parent / "hurt"], store=how.store)
    assert len(runs(how)) == 2
