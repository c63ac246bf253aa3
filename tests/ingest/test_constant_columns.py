"""What the footers of Parquet files say of columns that hold one value only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trueput.arrow import arrow_schema
from trueput.ingest.read import parquet_writer
from trueput.schema import tables
from trueput.warehouse import constants as module
from trueput.warehouse.connect import open_raw
from trueput.warehouse.constants import constants

Row = dict[str, Any]
WORDS = ("", "a", "it's", "NULL", "é", "tab\there", "x" * 5000, "-1")
"""Among them one that would have to be escaped, one that is not printable, and a long one."""
COLUMNS = {
    "session": st.none() | st.sampled_from(WORDS),
    "prompt_tokens": st.none() | st.sampled_from((0, -1, 7, 2**63 - 1, -(2**63))),
    "ignore_eos": st.none() | st.booleans(),
    "gaps_ns": st.none() | st.lists(st.sampled_from((1, 2)), max_size=2),
    "status": st.sampled_from(("ok", "refused")),
}
ROWS = st.lists(st.fixed_dictionaries(COLUMNS), max_size=3)
FILES = st.lists(st.lists(ROWS, min_size=1, max_size=2), min_size=1, max_size=2)
"""Rows of row groups of files. Few values, so that often one is the only one."""


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        made.execute("CREATE SCHEMA raw")
        yield made


def _write(path: Path, groups: Sequence[Sequence[Row]]) -> Path:
    full = {"run_id": "r", "source_id": "f", "vantage": "client", "traffic": "load"}
    schema = arrow_schema("requests")
    with parquet_writer("requests", path) as writer:
        for rows in groups:
            writer.write_table(pa.Table.from_pylist([full | row for row in rows], schema=schema))
    return path


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(files=FILES)
def test_a_column_that_is_named_holds_this_value_only(
    files: list[list[list[Row]]],
    tmp_path: Path,
    connection: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LEAST_BYTES", 0)
    paths = [_write(tmp_path / f"{i}.parquet", groups) for i, groups in enumerate(files)]
    rows = [row for groups in files for group in groups for row in group]
    found = constants(connection, paths)
    for name in COLUMNS:
        values = [row[name] for row in rows]
        if name in found:
            said = found[name]
            assert [None if v is None else str(v).lower() for v in values] == [
                None if said is None else said.lower()
            ] * len(rows), name
        elif name != "gaps_ns" and rows:
            only = values[0]
            is_plain = only is None or (str(only).isprintable() and len(str(only)) < 100)
            assert any(v != only for v in values) or not is_plain, name
    names = ", ".join(f'"{c.name}"' for c in tables()["requests"].columns)
    read = {}
    for folded in (False, True):
        open_raw(connection, "requests", paths, folded=folded)
        relation = connection.execute(f"SELECT {names} FROM raw.requests")
        types = [str(column[1]) for column in relation.description or ()]
        read[folded] = types, relation.fetchall()
    assert read[True] == read[False]


def test_a_small_or_damaged_file_names_nothing(
    tmp_path: Path, connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _write(tmp_path / "a.parquet", [[{"status": "ok"}]])
    assert constants(connection, [path]) == {}
    monkeypatch.setattr(module, "LEAST_BYTES", 0)
    assert constants(connection, [path])["status"] == "ok"
    path.write_bytes(path.read_bytes()[:-20])
    assert constants(connection, [path]) == {}
    assert constants(connection, [tmp_path / "none.parquet"]) == {}
