"""Run names are text, whatever they look like, and never leave the store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ingest.made import log_text, write_log

from trueput.errors import UsageError
from trueput.ingest.store import Store, encode
from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading
from trueput.verbs.sql import sql

HOSTILE = (
    "../../etc/x", "a/b", ".", "..", "...", "-", "--run", "~", "a\\b", "CON", "x" * 400,
    "é", "é", "naïve 名前", "\u202egpj", "\x1b[31mred", "a\nb", "a'b\"c", "a%2Fb", "A%2fb",
    "run=1", "run_id=2", "*?[x]", " lead", "trail ", "_runs", "_locks", "NULL", "nan", "True",
    "1e5", "0x10", "007", "7", "20261129", "{a}", "$HOME", "a,b", "😀", "run", "RUN", "Run",
)  # fmt: skip


def test_hostile_names_are_kept_apart_and_inside_the_store(tmp_path: Path) -> None:
    log = write_log(tmp_path / "server.log", 1)
    store = tmp_path / "store"
    for name in HOSTILE:
        (done,) = ingest([log], run=name, store=store)
        assert done.run_id == name
    assert set(Store(store).manifests()) == set(HOSTILE)
    assert {p.name for p in tmp_path.iterdir()} == {"server.log", "store"}
    for path in store.rglob("*"):
        assert path.resolve().is_relative_to(store.resolve())
    answer = sql("SELECT run_id FROM runs", Reading(store=store))
    assert {r[0] for r in answer.rows} == set(HOSTILE)


def test_a_name_that_no_file_can_carry_is_refused(tmp_path: Path) -> None:
    log = write_log(tmp_path / "server.log", 1)
    with pytest.raises(UsageError):
        ingest([log], run="", store=tmp_path / "store")
    with pytest.raises(UsageError):
        ingest([log], run="  ", store=tmp_path / "store")
    with pytest.raises(UsageError):
        ingest([log], run="a\ud800b", store=tmp_path / "store")
    with pytest.raises(UsageError):
        ingest([log], run="a\0b", store=tmp_path / "store")


@given(st.text(min_size=1), st.text(min_size=1))
@example("a%2Fb", "a/b")
@example("a", "A")
@example("Run", "rUN")
@example("x" * 200, "x" * 201)
@example(".", "%2E")
@example("_x", "%5Fx")
@settings(max_examples=examples(300))
def test_different_names_give_different_safe_components(one: str, other: str) -> None:
    first, second = encode(one), encode(other)
    assert first == encode(one)
    for part in (first, second):
        assert part not in {"", ".", ".."}
        assert not part.startswith((".", "_"))
        assert not set(part) & set('/\\\0:*?"<>|\n')
        assert part.isascii()
        assert len(part) <= 160
    if one != other:
        assert first != second


def test_names_on_disk_that_are_no_text_are_written_out(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/ni\xffght"
    os.mkdir(folder)  # noqa: PTH102  a path of bytes
    Path(os.fsdecode(folder + b"/ser\xfever.log")).write_text(log_text(1), encoding="utf-8")
    store = tmp_path / "store"
    (done,) = ingest([Path(os.fsdecode(folder))], store=store)
    assert done.run_id == "ni\\xffght"
    answer = sql("SELECT source_id FROM sources", Reading(store=store))
    assert answer.rows == [("ser\\xfever.log",)]


def test_numbers_as_names_stay_text(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for name in ("007", "20261129", "1.50"):
        write_log(tmp_path / name / "server.log", 1)
        ingest([tmp_path / name], store=store)
    how = Reading(store=store)
    for view in ("runs", "request_events", "goodput", "batching"):
        answer = sql(f"SELECT DISTINCT run_id, typeof(run_id) FROM {view} ORDER BY 1", how)
        assert answer.rows == [(n, "VARCHAR") for n in ("007", "1.50", "20261129")]
    assert sql("SELECT count(*) FROM runs WHERE run_id = '007'", how).rows == [(1,)]
