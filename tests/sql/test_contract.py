"""The built tables and views are what `schemas/` says: names, order, types, words, keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from sql.case_store import SQL_TYPES, closure, open_store, typed_rows

from trueput.schema import Table, tables, views
from trueput.warehouse.connect import Selection, connect
from trueput.warehouse.models import models

PUBLIC = sorted(m.name for m in models().values() if m.layer in {"marts", "checks"})
CLIENT = """
vantage, request_id, status,     sent_at_ns, ended_at_ns, e2e_ns, ttft_ns, output_tokens
client,  a,          ok,         0,          1000,        1000,   50,      5
client,  b,          http_error, 10,         20,          ,       ,        0
client,  c,          timeout,    10,         990,         ,       ,        0
"""
ENGINE = """
vantage, request_id, status,   replica, arrived_at_ns, queue_ns, prefill_ns, decode_ns, output_tokens
engine,  a,          finished, A,       10,            200,      300,        450,       5
engine,  x,          finished, A,       10,            200,      300,        450,       5
"""  # noqa: E501
STEPS = """
step_ix, logged_at_ns, elapsed_ns, context_requests, context_tokens, generation_requests
1,       0,            300,        2,                30,             0
2,       0,            100,        0,                0,              2
"""
CONTRACT = {**tables(), **views()}
TYPES = {**SQL_TYPES, "hugeint": "HUGEINT"}


@pytest.fixture(scope="module")
def empty() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect(Selection({})) as connection:
        yield connection


@pytest.mark.parametrize("name", sorted(CONTRACT))
def test_columns_are_as_documented(empty: duckdb.DuckDBPyConnection, name: str) -> None:
    found = [tuple(row[:2]) for row in empty.execute(f'DESCRIBE "{name}"').fetchall()]
    assert found == [(c.name, TYPES[c.storage]) for c in CONTRACT[name].columns]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_view_is_documented_once(name: str) -> None:
    assert (name in views()) != (name in tables())


def test_no_document_is_left_over() -> None:
    assert set(views()) <= set(models())


@pytest.mark.parametrize("table", CONTRACT.values(), ids=lambda t: t.name)
def test_documents_are_whole(table: Table) -> None:
    assert table.doc.startswith("One row per ")
    assert table.doc.endswith(".")
    names = [c.name for c in table.columns]
    assert set(table.key) <= set(names)
    assert len(names) == len(set(names))
    for column in table.columns:
        assert column.doc.endswith("."), column.name
        assert (column.type == "time") <= column.name.endswith("_at_ns") or column.name == "at_ns"
        if column.storage == "int64" and column.name.endswith("_ns"):
            assert column.shown_unit == "ns", column.name


def test_views_hold_only_documented_words() -> None:
    """Over one run with a bit of everything: no NULL and no word that the documents deny."""
    rows: dict[str, Any] = {
        "requests": typed_rows("requests", CLIENT) + typed_rows("requests", ENGINE),
        "engine_steps": typed_rows("engine_steps", STEPS),
    }
    names = [n for n in PUBLIC if models()[n].layer == "marts"]
    assert {m.name for m in closure(*names)} >= set(names)
    with open_store(rows, names, slo="ttft=100ns") as connection:
        for name in names:
            for column in CONTRACT[name].columns:
                query = f'SELECT DISTINCT "{column.name}" FROM "{name}"'
                values = {row[0] for row in connection.execute(query).fetchall()}
                assert column.null or None not in values, f"{name}.{column.name} is NULL"
                if column.enum:
                    assert values - {None} <= set(column.enum), f"{name}.{column.name}: {values}"
