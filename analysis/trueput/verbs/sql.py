"""sql, db and tables: the analyst's way in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from trueput.errors import QueryError, UsageError
from trueput.schema import Table, views
from trueput.schema import tables as ingested_tables
from trueput.verbs.opening import Reading, open_runs, selection
from trueput.warehouse.session import Answer, Warehouse, write_database


def sql(query: str, reading: Reading | None = None, runs: Sequence[str] | None = None) -> Answer:
    """Run SQL on the named runs of the store, on all of them without.

    Raises QueryError with the database's own message, ViewError where a view that the query reads
    cannot be computed, and UsageError where another statement than the last asks for an answer. The
    rows of a query that asks for no order are sorted, so that they are the same each time.
    """
    if not query.strip():
        raise UsageError("the query is empty", 'try `trueput sql "FROM goodput"`')
    with open_runs(runs or None, reading or Reading()) as warehouse:
        if _is_unordered(warehouse, query):
            body = query.strip().rstrip(";")
            with suppress(QueryError):  # the query as given has the better message
                return warehouse.query(f"SELECT * FROM (\n{body}\n) ORDER BY ALL")
        return warehouse.query(query)


def _is_unordered(warehouse: Warehouse, query: str) -> bool:
    """Whether the query is one SELECT without an order of its own, and without a limit.

    DESCRIBE, SHOW and SUMMARIZE have the database's order: that of the table's columns.
    """
    (tree,) = warehouse.ask("SELECT json_serialize_sql(?)", [query]).rows[0]
    statements = json.loads(tree).get("statements", [])
    if len(statements) != 1 or statements[0]["node"].get("modifiers"):
        return False
    return (statements[0]["node"].get("from_table") or {}).get("type") != "SHOW_REF"


def db(output: Path, reading: Reading | None = None) -> Path:
    """Write a DuckDB file with every table and view over the store; return its path.

    The file holds views, not rows: it stays small and reads the store's Parquet files where they
    are. An existing file of that name is replaced.
    """
    how = reading or Reading()
    made, _ = selection(how.open_store(), None, how)
    if output.exists() and output.is_dir():
        raise UsageError(f"`{output}` is a folder")
    if output.exists() and not _is_database(output):
        raise UsageError(
            f"`{output}` exists and is no DuckDB file; it is not replaced",
            "choose another name, such as `-o runs.duckdb`",
        )
    if not output.parent.is_dir():
        raise UsageError(f"`{output.parent}` is no folder, so `{output.name}` cannot be written")
    scratch = output.with_name(f".{output.name}.new")
    scratch.unlink(missing_ok=True)
    write_database(made, scratch)
    scratch.replace(output)
    return output


def _is_database(path: Path) -> bool:
    """Return whether a path is a regular file that DuckDB wrote."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(12)[8:] == b"DUCK"


def tables(name: str | None = None) -> list[Table]:
    """Return the documented tables and views, or the one named."""
    known = {**ingested_tables(), **views()}
    if name is None:
        return list(known.values())
    if name not in known:
        import difflib

        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean `{near[0]}`?" if near else "`trueput tables` lists them all"
        raise UsageError(f"no table or view is called `{name}`", hint)
    return [known[name]]
