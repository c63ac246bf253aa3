"""What a query reads, by the database's own plan: the columns that it would scan of a table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_BLINDING = (
    "filter_pushdown,filter_pullup,statistics_propagation,empty_result_pullup,late_materialization"
)
"""Optimisers that take columns out of a plan: filters move into scans, empty tables fall away."""


@dataclass(frozen=True)
class Question:
    """A query and its parameters."""

    sql: str
    parameters: Sequence[Any] = ()


def scans_of(
    connection: DuckDBPyConnection, question: Question, schema: str, tables: Iterable[str]
) -> dict[str, list[set[str]]]:
    """Return for each of these tables of a schema the columns of every scan that a query makes.

    Raises the database's error where the query cannot be planned.
    """
    names = {f"{schema}.{name}": name for name in tables}
    found: dict[str, list[set[str]]] = {name: [] for name in names.values()}
    connection.execute(f"SET disabled_optimizers = '{_BLINDING}'")
    try:
        plan = f"EXPLAIN (FORMAT json) {question.sql}"
        rows = connection.execute(plan, list(question.parameters)).fetchall()
    finally:
        connection.execute("RESET disabled_optimizers")
    for table, columns in _scans(json.loads(rows[0][1])):
        name = names.get(table.partition(".")[2])
        if name is not None:
            found[name].append(set(columns))
    return found


def _scans(node: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield the table and the columns of every scan in a plan."""
    if isinstance(node, list):
        for inner in node:
            yield from _scans(inner)
        return
    said = node.get("extra_info") or {}
    if "Table" in said:
        columns = said.get("Projections") or []
        yield said["Table"], [columns] if isinstance(columns, str) else columns
    yield from _scans(node.get("children") or [])
