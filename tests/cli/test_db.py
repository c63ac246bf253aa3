"""`trueput db`: a file that any DuckDB client opens, with every table and view in schema main."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from cli.program import Program

from trueput.schema import tables, views
from trueput.verbs.opening import Reading
from trueput.verbs.sql import sql


@pytest.fixture(scope="module")
def file(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("db") / "runs.duckdb"
    done = Program(store)("db", "-o", str(path))
    assert (done.code, done.stdout) == (0, "")
    assert str(path) in done.stderr
    return path


def ask(file: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(file), read_only=True) as plain:
        return plain.execute(query).fetchall()


def test_all_tables_and_views_are_ordinary_views_of_main(file: Path) -> None:
    found = ask(
        file,
        "SELECT view_name, comment, temporary FROM duckdb_views() "
        "WHERE schema_name = 'main' AND NOT internal",
    )
    assert {**tables(), **views()}.keys() <= {name for name, _, _ in found}
    comments = {name: comment for name, comment, _ in found}
    for name, table in {**tables(), **views()}.items():
        assert comments[name] == table.doc
    assert not any(temporary for _, _, temporary in found)


def test_columns_have_comments_and_documented_types(file: Path) -> None:
    found = ask(
        file,
        "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE schema_name = 'main'",
    )
    comments = {(table, column): comment for table, column, comment in found}
    for name, table in {**tables(), **views()}.items():
        for column in table.columns:
            assert (comments[name, column.name] or "").startswith(column.doc)


@pytest.mark.parametrize("view", ["goodput", "runs"])
def test_it_says_what_trueput_sql_says(file: Path, store: Path, view: str) -> None:
    assert ask(file, f"FROM {view} ORDER BY ALL") == sql(f"FROM {view}", Reading(store=store)).rows


@pytest.mark.long
def test_a_second_time_replaces_and_an_objective_goes_along(
    file: Path, store: Path, tmp_path: Path
) -> None:
    path = tmp_path / "runs.duckdb"
    shutil.copyfile(file, path)
    assert Program(store)("db", "-o", str(path), "--slo", "ttft=1ms").code == 0
    assert [p.name for p in tmp_path.iterdir()] == ["runs.duckdb"]
    assert ask(path, "SELECT DISTINCT slo, good_requests FROM goodput") == [("ttft=1ms", 0)]


def test_a_folder_is_no_file(store: Path, tmp_path: Path) -> None:
    assert Program(store)("db", "-o", str(tmp_path)).code == 2
    missing = Program(store)("db", "-o", str(tmp_path / "no" / "runs.duckdb"))
    assert missing.code == 2
