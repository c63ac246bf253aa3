"""Opening a store: the Parquet files of chosen runs under the documented table and view names."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from trueput.errors import UsageError
from trueput.schema import Table, tables, views
from trueput.slo import Slo, SloClass
from trueput.units import to_bytes, to_ns
from trueput.warehouse.constants import constants
from trueput.warehouse.failures import damaged_columns, damaged_file, damaged_inside
from trueput.warehouse.models import in_order, macros, models
from trueput.warehouse.sql_types import SQL_TYPES

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True)
class Window:
    """The window rule in force: all, steady, or fixed with offsets (ns) from the first send."""

    rule: str = "all"
    from_ns: int | None = None
    to_ns: int | None = None


@dataclass(frozen=True)
class Selection:
    """Which files to open: table -> absolute Parquet paths, and how requests are to be judged."""

    files: Mapping[str, Sequence[Path]]
    slo: Slo | None = None
    slo_origin: str = "command"
    judging: tuple[str, bool] | None = None
    """Without `slo`: where latencies start and whether an undefined metric passes, else the
    objective that each run's files record, as they record it."""
    window: Window = field(default_factory=Window)
    mixed: bool = False
    """Some files were written by another version of trueput, and may lack columns."""


def parse_window(text: str) -> Window:
    """Return the window of `all`, `steady` or `fixed:FROM..TO` (times such as `10s`, `500ms`)."""
    if text in {"all", "steady"}:
        return Window(text)
    rule, _, span = text.partition(":")
    first, dots, last = span.partition("..")
    ends = [_offset(part) for part in (first, last)]
    if rule != "fixed" or not dots or None in ends:
        raise UsageError(
            f"--window: `{text}` is none of all, steady, fixed:FROM..TO",
            "write for example `--window fixed:10s..60s`; offsets count from the first send",
        )
    if ends[1] is None or ends[0] is None or ends[1] <= ends[0]:
        raise UsageError(f"--window: `{text}` ends before it begins")
    return Window("fixed", ends[0], ends[1])


def _offset(text: str) -> int | None:
    for unit in ("ns", "us", "ms", "s"):
        number = text.strip().removesuffix(unit)
        if text.strip().endswith(unit) and number.replace(".", "", 1).isdigit():
            return to_ns(number, unit)
    return None


def literal(value: Any) -> str:
    """Return a Python value as a SQL literal."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"


def literals(values: Iterable[Any]) -> str:
    """Return Python values as a SQL list."""
    return f"[{', '.join(literal(value) for value in values)}]"


def _empty(table: Table) -> str:
    columns = ", ".join(f'NULL::{SQL_TYPES[c.storage]} AS "{c.name}"' for c in table.columns)
    return f"SELECT {columns} WHERE false"


def _table_body(
    connection: DuckDBPyConnection,
    table: Table,
    paths: Sequence[Path],
    *,
    mixed: bool,
    folded: bool,
) -> str:
    if not paths:
        return _empty(table)
    names = ", ".join(literal(str(p)) for p in sorted(paths))
    if not mixed:
        known = constants(connection, paths) if folded else {}
        columns = [
            f'{literal(known[c.name])}::{SQL_TYPES[c.storage]} AS "{c.name}"'
            if c.name in known
            else f'"{c.name}"'
            for c in table.columns
        ]
        return (
            f"SELECT {', '.join(columns)} FROM read_parquet([{names}], hive_partitioning = false)"
        )
    rows = connection.execute(f"SELECT DISTINCT name FROM parquet_schema([{names}])").fetchall()
    there = {name for (name,) in rows}
    columns = [
        f'"{c.name}"' if c.name in there else f'NULL::{SQL_TYPES[c.storage]} AS "{c.name}"'
        for c in table.columns
    ]
    options = "hive_partitioning = false, union_by_name = true"
    return f"SELECT {', '.join(columns)} FROM read_parquet([{names}], {options})"


def _slo_body(selection: Selection) -> str:
    if selection.slo is not None:
        columns = _slo_columns(selection.slo, selection.slo_origin)
        return f"SELECT run_id, {columns} FROM raw.runs"
    if selection.judging is None:
        return "SELECT * FROM raw.slo_policy"
    measured_from, undefined_passes = selection.judging
    return (
        f"SELECT * REPLACE ({literal(measured_from)} AS measured_from, "
        f"{literal(undefined_passes)} AS undefined_passes) FROM raw.slo_policy"
    )


def _slo_columns(slo: Slo, origin: str) -> str:
    values: dict[str, tuple[Any, str]] = {
        "slo": (slo.text(), "VARCHAR"),
        "ttft_limit_ns": (slo.ttft, "BIGINT"),
        "tpot_limit_ns": (slo.tpot, "BIGINT"),
        "itl_p99_limit_ns": (slo.itl_p99, "BIGINT"),
        "e2e_limit_ns": (slo.e2e, "BIGINT"),
        "min_output_tokens": (slo.min_output_tokens, "BIGINT"),
        "measured_from": (slo.measured_from, "VARCHAR"),
        "undefined_passes": (slo.undefined_passes, "BOOLEAN"),
        "origin": (origin, "VARCHAR"),
    }
    return ", ".join(f"{literal(v)}::{t} AS {name}" for name, (v, t) in values.items())


def slo_classes_body(classes: Sequence[SloClass]) -> str:
    """Return a SELECT of one row for each class of the objective; no request is of two."""
    rows = []
    for held in classes or (SloClass(Slo()),):
        values: dict[str, tuple[Any, str]] = {
            "label": (held.label, "VARCHAR"),
            "prompt_from": (held.prompt_from, "BIGINT"),
            "prompt_to": (held.prompt_to, "BIGINT"),
            "ttft_limit_ns": (held.limits.ttft, "BIGINT"),
            "tpot_limit_ns": (held.limits.tpot, "BIGINT"),
            "itl_p99_limit_ns": (held.limits.itl_p99, "BIGINT"),
            "e2e_limit_ns": (held.limits.e2e, "BIGINT"),
        }
        columns = (f"{literal(v)}::{t} AS {name}" for name, (v, t) in values.items())
        rows.append(f"SELECT {', '.join(columns)}")
    return " UNION ALL ".join(rows) + ("" if classes else " WHERE false")


def open_raw(
    connection: DuckDBPyConnection,
    name: str,
    paths: Sequence[Path],
    *,
    mixed: bool = False,
    folded: bool = False,
) -> None:
    """Let the table `name` in schema `raw` be the rows of these Parquet files.

    With `mixed` some may lack columns, which are NULL then. With `folded` columns that hold one
    value only stand as literals; that looks through the files' footers.
    """
    body = _table_body(connection, tables()[name], paths, mixed=mixed, folded=folded)
    connection.execute(f'CREATE OR REPLACE VIEW raw."{name}" AS {body}')


def build_tables(connection: DuckDBPyConnection, selection: Selection) -> None:
    """Create the macros, the Parquet rows in schema `raw`, and the plain tables in `main`."""
    connection.execute("CREATE SCHEMA IF NOT EXISTS raw")
    for text in macros().values():
        connection.execute(text)
    for name in tables():
        open_raw(connection, name, selection.files.get(name, ()), mixed=selection.mixed)
    window = selection.window
    connection.execute(
        "CREATE OR REPLACE VIEW window_policy AS SELECT "
        f"{literal(window.rule)} AS rule, {literal(window.from_ns)}::BIGINT AS from_ns, "
        f"{literal(window.to_ns)}::BIGINT AS to_ns"
    )
    # a literal, so that what only other windows need falls away when a query is planned
    connection.execute(
        f"CREATE OR REPLACE MACRO window_is_all() AS {literal(window.rule == 'all')}"
    )
    connection.execute(f"CREATE OR REPLACE VIEW slo_policy AS {_slo_body(selection)}")
    classes = () if selection.slo is None else selection.slo.classes
    connection.execute(f"CREATE OR REPLACE VIEW slo_classes AS {slo_classes_body(classes)}")
    own = set(models()) | {"slo_policy"}
    for name in tables():
        if name not in own:
            connection.execute(f'CREATE OR REPLACE VIEW "{name}" AS SELECT * FROM raw."{name}"')


def build_views(connection: DuckDBPyConnection) -> None:
    """Create every documented view as an ordinary view in `main`, with its documentation.

    The inner models they read are computed once, as tables: DuckDB binds a nested view again at
    every mention, and views over views over views would take seconds to name.
    """
    for model in in_order(connection):
        kind = "TABLE" if model.is_inner else "VIEW"
        connection.execute(f'CREATE OR REPLACE {kind} "{model.name}" AS\n{model.sql}')
    _comment(connection)


def _comment(connection: DuckDBPyConnection) -> None:
    for name, table in {**tables(), **views()}.items():
        connection.execute(f'COMMENT ON VIEW "{name}" IS {literal(table.doc)}')
        for column in table.columns:
            text = column.doc if not column.null else f"{column.doc} NULL: {column.null_means}."
            connection.execute(f'COMMENT ON COLUMN "{name}"."{column.name}" IS {literal(text)}')


def _left_of(memory_limit: str) -> str:
    """Return what the database may take so that the whole process stays within the limit.

    The database keeps to its limit to a few percent, so 5 % stay free. At least half is its own:
    libraries that are loaded must not starve it.
    """
    limit = to_bytes(memory_limit)
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        held = pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return memory_limit  # not Linux
    return memory_limit if limit is None else f"{max(limit - limit // 20 - held, limit // 2)}B"


def connect(
    selection: Selection,
    database: Path | None = None,
    memory_limit: str | None = None,
    with_views: bool = True,
) -> DuckDBPyConnection:
    """Open a DuckDB connection on the selection; in memory, or building the file `database`.

    Raises StoreError where a file of the store is damaged.
    """
    import duckdb

    config: dict[str, Any] = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    if memory_limit is not None:
        config["memory_limit"] = _left_of(memory_limit)
    if database is None:  # what does not fit is laid aside, and not in the user's folder
        config["temp_directory"] = str(Path(tempfile.gettempdir()) / f"trueput-{uuid4().hex}")
    connection = duckdb.connect(str(database) if database else ":memory:", config=config)
    connection.execute("BEGIN")
    try:
        build_tables(connection, selection)
        if with_views:
            build_views(connection)
    except (duckdb.Error, UnicodeDecodeError) as error:
        connection.close()
        paths = {str(path) for files in selection.files.values() for path in files}
        damaged = damaged_file(error) or damaged_inside(error, paths) or damaged_columns(paths)
        if damaged is not None:
            raise damaged from error
        raise
    connection.execute("COMMIT")
    return connection
