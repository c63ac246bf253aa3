"""How SQL files have to look: headers, layers, one place for divisions, nothing that reads files.

Layers and functions are judged on the parsed SQL (DuckDB's own parser), not on its text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import duckdb
import pytest
from sql.case_store import read_by

from trueput.schema import tables
from trueput.warehouse.models import Model, macros, models

MODELS = sorted(models().values(), key=lambda m: m.name)
MAY_READ = {
    "staging": {"staging"},
    "intermediate": {"staging", "intermediate"},
    "marts": {"staging", "intermediate", "marts"},
    "checks": {"intermediate", "marts", "checks"},
}
POLICIES = {"slo_policy", "slo_classes", "window_policy"}
LONGEST = 160
each_model = pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)


@cache
def _tree(name: str) -> Any:
    with duckdb.connect() as connection:
        row = connection.execute("SELECT json_serialize_sql(?)", [models()[name].sql]).fetchone()
    assert row is not None
    return json.loads(row[0])


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from _nodes(value)
    elif isinstance(node, list):
        for value in node:
            yield from _nodes(value)


def _functions(name: str) -> set[str]:
    return {str(n["function_name"]).lower() for n in _nodes(_tree(name)) if "function_name" in n}


@each_model
def test_header_says_what_a_row_is(model: Model) -> None:
    assert model.header.startswith("One row per ")
    if model.layer == "checks":
        assert "Must be empty." in model.header


@each_model
def test_names_say_the_layer(model: Model) -> None:
    prefix = {"staging": "stg_", "intermediate": "int_", "checks": "check_"}.get(model.layer, "")
    assert model.name.startswith(prefix)
    assert re.fullmatch(r"[a-z0-9_]+", model.name)
    if not prefix:
        assert not model.name.startswith(("stg_", "int_", "check_"))


@each_model
def test_layers_read_downwards(model: Model) -> None:
    for schema, name in read_by()[model.name]:
        if schema == "raw":
            assert name in tables(), f"{model.name} reads raw.{name}, which no schema describes"
        elif name not in POLICIES:
            assert name in models(), f"{model.name} reads `{name}`, which does not exist"
            layer = models()[name].layer
            assert layer in MAY_READ[model.layer], f"{model.name} reads {name} of {layer}"
    if model.layer == "staging":
        assert POLICIES.isdisjoint(name for _, name in read_by()[model.name])


@each_model
def test_a_file_is_one_bare_select(model: Model) -> None:
    assert len(_tree(model.name)["statements"]) == 1
    banned = r"\b(CREATE|DROP|COPY|ATTACH|INSERT|UPDATE|DELETE|PRAGMA|SET|INSTALL|LOAD)\b"
    code = re.sub(r"--.*|'(?:[^']|'')*'", "", model.sql)
    assert not re.search(banned, code)


@each_model
def test_nothing_reads_files_or_tells_the_time(model: Model) -> None:
    names = _functions(model.name)
    outside = ("read_", "parquet_", "glob", "sniff_", "getenv", "http")
    assert not {n for n in names if n.startswith(outside) or n.endswith("_scan")}
    assert names.isdisjoint(
        {"now", "current_timestamp", "get_current_timestamp", "random", "today"}
    )


@each_model
def test_quotients_come_from_the_macros(model: Model) -> None:
    """`/` is banned but by a constant; `//` on integers is exact and allowed."""
    for node in _nodes(_tree(model.name)):
        if node.get("function_name") == "/":
            divisor = node["arguments"][1]["expression"]
            assert divisor.get("class") == "CONSTANT", f"{model.name} divides: use ratio()"


@each_model
def test_a_cut_does_not_lose_null(model: Model) -> None:
    """least and greatest skip NULL: a bound on a single figure needs part_within, not_negative."""
    assert not re.search(r"least\(1\.0, ratio|greatest\(0(\.0)?, ratio", model.sql)


@each_model
def test_stars_only_widen_a_row(model: Model) -> None:
    """`SELECT *` passes a CTE's row on with more columns; it never ends a public view."""
    if model.layer not in {"marts", "checks"}:
        return
    statement = _tree(model.name)["statements"][0]["node"]
    last = [n for n in (statement, statement.get("left"), statement.get("right")) if n]
    for node in last:
        for item in node.get("select_list", []):
            assert item.get("class") != "STAR", f"{model.name} ends with a `*`"


@each_model
def test_lines_fit(model: Model) -> None:
    for number, line in enumerate(model.sql.splitlines(), 1):
        assert len(line) <= LONGEST, f"{model.name}.sql:{number} has {len(line)} characters"
        assert "\t" not in line
        assert line == line.rstrip(), f"{model.name}.sql:{number} ends with blanks"


@pytest.mark.parametrize("name", sorted(macros()))
def test_a_macro_says_what_it_is_for(name: str) -> None:
    text = macros()[name]
    assert text.startswith("-- ")
    assert f"CREATE OR REPLACE MACRO {name}(" in text
    used = any(re.search(rf"\b{name}\(", m.sql) for m in MODELS)
    assert used, f"no view uses {name}"
