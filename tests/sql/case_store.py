"""A warehouse over rows written by hand: raw tables in memory, and only the views a test needs."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import duckdb

from trueput.schema import Column, Table, tables
from trueput.slo import Slo, SloClass, parse_slo
from trueput.warehouse.connect import parse_window, slo_classes_body
from trueput.warehouse.models import Model, in_order, macros, models, reads

SQL_TYPES = {
    "string": "VARCHAR",
    "bool": "BOOLEAN",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "list<int64>": "BIGINT[]",
}
_USUAL = {
    "run_id": "r",
    "source_id": "f",
    "engine": "0",
    "covers_steps": 1,
    "usable": True,
    "basis": "inferred",
}
_BLANK = {"string": "", "bool": False, "int64": 0, "float64": 0.0}

Row = Mapping[str, Any]


@cache
def read_by() -> dict[str, frozenset[tuple[str, str]]]:
    """Return what each model reads, as (schema, name) pairs."""
    with duckdb.connect() as connection:
        return {n: frozenset(reads(connection, m.sql)) for n, m in models().items()}


@cache
def _ordered() -> tuple[Model, ...]:
    with duckdb.connect() as connection:
        return tuple(in_order(connection))


def closure(*views: str) -> list[Model]:
    """Return the models that these views need, each after what it reads."""
    wanted: set[str] = set()
    todo = list(views)
    while todo:
        name = todo.pop()
        if name in models() and name not in wanted:
            wanted.add(name)
            todo += [t for s, t in read_by()[name] if s == "main"]
    return [m for m in _ordered() if m.name in wanted]


def csv_rows(text: str) -> list[dict[str, str]]:
    """Return the rows of a CSV block; blanks around values do not count."""
    reader = csv.reader(io.StringIO(text.strip()), skipinitialspace=True)
    header, *body = [[cell.strip() for cell in row] for row in reader]
    for row in body:
        assert len(row) == len(header), f"{row} does not fit {header}"
    return [dict(zip(header, row, strict=True)) for row in body]


def _typed(column: Column, text: str) -> Any:
    if text == "":
        return None
    if column.storage == "int64":
        return int(text)
    if column.storage == "float64":
        return float(text)
    if column.storage == "bool":
        return {"true": True, "false": False}[text]
    if column.storage == "list<int64>":
        return [int(part) for part in text.split()]
    return text


def typed_rows(table: str, text: str) -> list[dict[str, Any]]:
    """Return the rows of a CSV block with the values of the table's types; empty is NULL."""
    definition = tables()[table]
    return [
        {name: _typed(definition.column(name), value) for name, value in row.items()}
        for row in csv_rows(text)
    ]


def _full(table: Table, row: Row) -> list[Any]:
    if unknown := set(row) - {c.name for c in table.columns}:
        raise KeyError(f"{table.name} has no {sorted(unknown)}")
    values = []
    for column in table.columns:
        value = row.get(column.name)
        if value is None and not column.null:
            value = _USUAL.get(column.name)
        if value is None and not column.null and column.name.endswith("_json"):
            value = "{}"
        if value is None and not column.null:
            value = next(iter(column.enum)) if column.enum else _BLANK[column.storage]
        values.append(value)
    return values


def slo_row(run_id: str, slo: str | None, policy: Row) -> dict[str, Any]:
    """Return the row of slo_policy for one run; `policy` overrides single columns."""
    limits = parse_slo(slo) if slo else Slo()
    return {
        "run_id": run_id,
        "slo": limits.text() if slo else None,
        **{f"{m}_limit_ns": getattr(limits, m) for m in ("ttft", "tpot", "itl_p99", "e2e")},
        "min_output_tokens": limits.min_output_tokens,
        "measured_from": "sent",
        "undefined_passes": True,
        "origin": "command" if slo else "none",
        **policy,
    }


def open_store(
    given: Mapping[str, Sequence[Row]],
    views: Sequence[str],
    slo: str | None = None,
    window: str = "all",
    policy: Row | None = None,
    classes: Sequence[Row] = (),
) -> duckdb.DuckDBPyConnection:
    """Return a connection with these rows and these views, the models below them as tables."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("CREATE SCHEMA raw")
    for text in macros().values():
        connection.execute(text)
    rows = {name: list(found) for name, found in given.items()}
    if "runs" not in rows:
        names = {str(r.get("run_id") or "r") for found in rows.values() for r in found} or {"r"}
        rows["runs"] = [{"run_id": n} for n in sorted(names)]
    rows.setdefault(
        "slo_policy", [slo_row(r["run_id"] or "r", slo, policy or {}) for r in rows["runs"]]
    )
    models_needed = closure(*views)
    needed = {t for m in models_needed for s, t in read_by()[m.name] if s == "raw"}
    for name in needed | set(rows) | {"slo_policy"}:
        table = tables()[name]
        columns = ", ".join(f'"{c.name}" {SQL_TYPES[c.storage]}' for c in table.columns)
        connection.execute(f'CREATE TABLE raw."{name}" ({columns})')
        if found := rows.get(name):
            marks = ", ".join("?" * len(table.columns))
            values = [_full(table, row) for row in found]
            connection.executemany(f'INSERT INTO raw."{name}" VALUES ({marks})', values)
    connection.execute("CREATE VIEW slo_policy AS SELECT * FROM raw.slo_policy")
    held = [
        SloClass(parse_slo(c["slo"]), c.get("label"), c.get("prompt_from"), c.get("prompt_to"))
        for c in classes
    ]
    connection.execute(f"CREATE VIEW slo_classes AS {slo_classes_body(held)}")
    chosen = parse_window(window)
    connection.execute(
        "CREATE TABLE window_policy AS SELECT ?::VARCHAR AS rule, ?::BIGINT AS from_ns, "
        "?::BIGINT AS to_ns",
        [chosen.rule, chosen.from_ns, chosen.to_ns],
    )
    connection.execute(f"CREATE MACRO window_is_all() AS {chosen.rule == 'all'}")
    for model in models_needed:
        connection.execute(f'CREATE TABLE "{model.name}" AS\n{model.sql}')
    return connection


def shown(value: Any) -> str:
    """Return a value as a case file writes it: empty for NULL, floats with six digits."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format(value, ".6g")
    return str(value)
