"""The SQL files of the package: found by listing, ordered by parsing what each one reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LAYERS = ("staging", "intermediate", "marts", "checks")


@dataclass(frozen=True)
class Model:
    """One view: its name, layer, SQL body (a bare SELECT) and header comment."""

    name: str
    layer: str
    sql: str

    @property
    def is_inner(self) -> bool:
        """Whether it is a step on the way to the documented views, not one of them."""
        return self.layer in {"staging", "intermediate"}

    @property
    def is_computed_once(self) -> bool:
        """Whether its header says so: for some runs of a large selection it is a table.

        What reads it more than once then finds it computed.
        """
        return "\nComputed once." in f"\n{self.header}"

    @property
    def header(self) -> str:
        """The comment lines at the top of the file, as one text."""
        lines = []
        for line in self.sql.splitlines():
            if not line.startswith("--"):
                break
            lines.append(line[2:].strip())
        return "\n".join(lines)


@cache
def macros() -> dict[str, str]:
    """Return the macro files by name."""
    folder = files("trueput").joinpath("sql", "macros")
    found = {f.name[:-4]: f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith(".sql")}
    return dict(sorted(found.items()))


@cache
def models() -> dict[str, Model]:
    """Return all views by name."""
    found = {}
    for layer in LAYERS:
        for file in files("trueput").joinpath("sql", layer).iterdir():
            if file.name.endswith(".sql"):
                name = file.name[:-4]
                found[name] = Model(name, layer, file.read_text("utf-8").strip().rstrip(";"))
    return dict(sorted(found.items()))


def _tables_in(node: Any, ctes: set[str], out: set[tuple[str, str]]) -> None:
    if isinstance(node, dict):
        if node.get("type") == "BASE_TABLE":
            out.add((node.get("schema_name") or "main", node["table_name"]))
        if node.get("type") == "SHOW_REF" and node.get("show_type") == "SHOW":
            out.add((node.get("schema_name") or "main", node["table_name"]))
        for entry in (node.get("cte_map") or {}).get("map", []):
            ctes.add(entry["key"])
        for value in node.values():
            _tables_in(value, ctes, out)
    elif isinstance(node, list):
        for value in node:
            _tables_in(value, ctes, out)


_MOST_KEPT = 1000
_kept: dict[str, frozenset[tuple[str, str]]] = {}
"""What texts read, kept: the views are asked for by every question."""


def reads(connection: DuckDBPyConnection, sql: str) -> frozenset[tuple[str, str]]:
    """Return the (schema, table) pairs that a SELECT reads, without its own CTEs."""
    found = _kept.get(sql)
    if found is None:
        found = _parsed(connection, sql)
        if len(_kept) < _MOST_KEPT:
            _kept[sql] = found
    return found


def reads_nothing(connection: DuckDBPyConnection, sql: str) -> bool:
    """Whether a SELECT computes from constants alone: it names no table, catalogue or function.

    What only looks like a SELECT (SHOW TABLES) and table functions read what they do not name.
    """
    kinds: set[str] = set()
    todo: list[Any] = [_tree(connection, sql)]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            kinds.add(str(node.get("type")))
            todo += node.values()
        elif isinstance(node, list):
            todo += node
    return not kinds & _READING


_READING = {"BASE_TABLE", "TABLE_FUNCTION", "SHOW_REF", "FUNCTION", "DELIM_GET"}
"""Kinds of a parsed SELECT's nodes that may read; scalar functions can ask the catalogue too."""


def describes(connection: DuckDBPyConnection, sql: str) -> bool:
    """Whether a SELECT is a DESCRIBE or SHOW, which asks for the columns of what it names."""
    return _shown_as(connection, sql) in {"DESCRIBE", "SHOW"}


def lists_names(connection: DuckDBPyConnection, sql: str) -> bool:
    """Whether a SELECT is a SHOW TABLES or the like, which asks for all that has a name."""
    return _shown_as(connection, sql) in {"SHOW_SPECIAL", "SHOW_FROM"}


def _shown_as(connection: DuckDBPyConnection, sql: str) -> str | None:
    """Return the kind of a DESCRIBE, SHOW or SUMMARIZE; None of anything else."""
    statements = _tree(connection, sql)["statements"]
    source = statements[0]["node"].get("from_table") or {} if len(statements) == 1 else {}
    return source["show_type"] if source.get("type") == "SHOW_REF" else None


def _tree(connection: DuckDBPyConnection, sql: str) -> dict[str, Any]:
    row = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    assert row is not None
    tree: dict[str, Any] = json.loads(row[0])
    if tree.get("error"):
        raise ValueError(f"cannot be parsed: {tree.get('error_message')}")
    return tree


def _parsed(connection: DuckDBPyConnection, sql: str) -> frozenset[tuple[str, str]]:
    tree = _tree(connection, sql)
    ctes: set[str] = set()
    out: set[tuple[str, str]] = set()
    _tables_in(tree, ctes, out)
    return frozenset((s, name) for s, name in out if s != "main" or name not in ctes)


def models_below(connection: DuckDBPyConnection, names: Iterable[str]) -> set[str]:
    """Return those of the names that are models, and all models that they read, at any depth."""
    known = models()
    found: set[str] = set()
    todo = [n for n in names if n in known]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            read = reads(connection, known[name].sql)
            todo += [t for s, t in read if s == "main" and t in known]
    return found


def in_order(connection: DuckDBPyConnection, names: Iterable[str] | None = None) -> list[Model]:
    """Return views, and all that they read, so that each comes after those it reads.

    Without names all views. Only what is returned is parsed, and parsing is what costs.
    """
    known = models()
    chosen = models_below(connection, known if names is None else names)
    graph = {
        name: {t for s, t in reads(connection, known[name].sql) if s == "main" and t in known}
        - {name}
        for name in sorted(chosen)
    }
    return [known[name] for name in TopologicalSorter(graph).static_order()]
