"""The tables of an SQLite export: Arrow batches by ADBC, and row by row where that fails.

The driver guesses a column's type from its first batch and loses a batch that it cannot read to
its end. Where a batch is not of whole numbers, or reading fails, the rest of the table is read by
the slow and careful way: other types become NULL, and every row before a damage is kept.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import adbc_driver_manager
import adbc_driver_sqlite
import pyarrow as pa

from trueput.nsys_rows.tables import LONGEST_TEXT, Query
from trueput.scan import Damage, sqlite_uri
from trueput.source_api import BATCH_ROWS

_LEAST_ROW_BYTES: Final = 3
_CAREFUL_ROWS: Final = 8192
_TEXT_ROWS: Final = BATCH_ROWS // 4
"""Annotations have a text each, most of them their own."""
_TABLES: Final = "SELECT name, type, sql FROM sqlite_master"
_READ_ANYWAY: Final = "PRAGMA writable_schema=ON"
BROKEN: Final = (sqlite3.Error, UnicodeError)
"""What reading a damaged database raises: names that are no text among it."""
_FAILURES = (adbc_driver_manager.Error, pa.ArrowException, sqlite3.Error, OSError, ValueError)


class _UnfitBatchError(ValueError):
    """A batch whose columns are not of the asked types."""


class Database:
    """An open export. Raises one of BROKEN where the file is no database."""

    def __init__(self, path: Path) -> None:
        self._uri = sqlite_uri(path)
        self._most_rows = path.stat().st_size // _LEAST_ROW_BYTES
        self._connection = sqlite3.connect(self._uri, uri=True)
        self._connection.text_factory = lambda b: b.decode("utf-8", "replace")
        self._columns: dict[str, frozenset[str]] = {}
        self.is_cut = False
        try:
            self.names = self._tables()
        except BROKEN:
            self.close()
            raise

    def _tables(self) -> frozenset[str]:
        try:
            rows = self._connection.execute(_TABLES).fetchall()
        except BROKEN:
            # SQLite refuses a file shorter than its header says, unless told that this is known.
            self._connection.execute(_READ_ANYWAY)
            rows = self._connection.execute(_TABLES).fetchall()
            self.is_cut = True
        return frozenset(
            str(name)
            for name, kind, sql in rows
            if kind == "table" and str(sql).upper().startswith("CREATE TABLE")
        )

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def columns(self, table: str) -> frozenset[str]:
        """Return the columns of a table; empty where there is none."""
        if table not in self.names:
            return frozenset()
        if table not in self._columns:
            try:
                rows = self._connection.execute(f"PRAGMA table_info({_quoted(table)})").fetchall()
            except BROKEN:
                rows = []
            self._columns[table] = frozenset(str(row[1]) for row in rows)
        return self._columns[table]

    def strings(self, ids: Iterable[int]) -> Mapping[int, str]:
        """Return the texts of StringIds by id, long ones cut."""
        found: dict[int, str] = {}
        wanted = list(ids)
        if not {"id", "value"} <= self.columns("StringIds"):
            return found
        for at in range(0, len(wanted), 500):
            some = wanted[at : at + 500]
            marks = ",".join("?" * len(some))
            sql = (
                f"SELECT id, substr(value, 1, {LONGEST_TEXT}) FROM StringIds WHERE id IN ({marks})"
            )
            try:
                for number, text in self._connection.execute(sql, some):
                    if isinstance(text, str):
                        found[number] = text
            except BROKEN:
                continue
        return found

    def batches(self, query: Query) -> Iterator[pa.RecordBatch | Damage]:
        """Yield the rows of a table in file order; see `Tables.batches`."""
        here = self.columns(query.table)
        asked = [c for c in (*query.numbers, *query.texts) if c in here]
        if not asked or (query.only and query.only[0] not in here):
            return
        given = 0
        try:
            for batch in self._fast(query, asked):
                given += len(batch)
                if given > self._most_rows:
                    yield Damage("more rows than the file can hold")
                    return
                yield _shaped(batch, query)
        except _FAILURES:
            yield from self._careful(query, asked, given)

    def _fast(self, query: Query, asked: Sequence[str]) -> Iterator[pa.RecordBatch]:
        parts = [f"coalesce({_quoted(c)}, '')" if c in query.texts else _quoted(c) for c in asked]
        with (
            closing(adbc_driver_sqlite.connect(self._uri)) as database,
            closing(adbc_driver_manager.AdbcConnection(database)) as connection,
            closing(adbc_driver_manager.AdbcStatement(connection)) as statement,
        ):
            if self.is_cut:
                statement.set_sql_query(_READ_ANYWAY)
                statement.execute_update()
            rows = _TEXT_ROWS if query.texts else BATCH_ROWS
            statement.set_options(**{"adbc.sqlite.query.batch_rows": str(rows)})
            statement.set_sql_query(_select(query, parts))
            handle, _ = statement.execute_query()
            with pa.RecordBatchReader.from_stream(handle) as reader:
                for batch in reader:
                    named = pa.RecordBatch.from_arrays(batch.columns, names=list(asked))
                    if len(named):
                        yield _checked(named, query)

    def _careful(
        self, query: Query, asked: Sequence[str], given: int
    ) -> Iterator[pa.RecordBatch | Damage]:
        parts = [_text_of(c) if c in query.texts else _number_of(c) for c in asked]
        sql = f"{_select(query, parts)} LIMIT {max(self._most_rows - given, 0)} OFFSET {given}"
        held: list[tuple[Any, ...]] = []
        damage: Damage | None = None
        try:
            for row in self._connection.execute(sql):
                held.append(row)
                if len(held) == _CAREFUL_ROWS:
                    yield _built(held, asked, query)
                    held = []
        except BROKEN as error:
            damage = Damage(f"{type(error).__name__}: {error}"[:200])
        if held:
            yield _built(held, asked, query)
        if damage is not None:
            yield damage


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _number_of(column: str) -> str:
    name = _quoted(column)
    return (
        f"CASE typeof({name}) WHEN 'integer' THEN {name}"
        f" WHEN 'real' THEN CAST({name} AS INTEGER) END"
    )


def _text_of(column: str) -> str:
    name = _quoted(column)
    return f"CASE typeof({name}) WHEN 'text' THEN {name} ELSE '' END"


def _select(query: Query, parts: Sequence[str]) -> str:
    where = ""
    if query.only is not None:
        column, values = query.only
        where = f" WHERE {_quoted(column)} IN ({','.join(str(int(v)) for v in values)})"
    return f"SELECT {', '.join(parts)} FROM {_quoted(query.table)}{where}"


def _checked(batch: pa.RecordBatch, query: Query) -> pa.RecordBatch:
    for name in batch.schema.names:
        wanted = pa.string() if name in query.texts else pa.int64()
        if batch.schema.field(name).type != wanted:
            raise _UnfitBatchError(name)
    if query.texts:
        batch.validate(full=True)
    return batch


def _built(rows: list[tuple[Any, ...]], asked: Sequence[str], query: Query) -> pa.RecordBatch:
    columns = dict(zip(asked, zip(*rows, strict=True), strict=True))
    arrays = [
        pa.array(v, pa.string() if n in query.texts else pa.int64()) for n, v in columns.items()
    ]
    return _shaped(pa.RecordBatch.from_arrays(arrays, names=list(asked)), query)


def _shaped(batch: pa.RecordBatch, query: Query) -> pa.RecordBatch:
    """Return the batch with every asked column, those that the table lacks NULL or empty."""
    here = set(batch.schema.names)
    arrays: dict[str, Any] = {}
    for name in query.numbers:
        arrays[name] = batch.column(name) if name in here else pa.nulls(len(batch), pa.int64())
    for name in query.texts:
        arrays[name] = batch.column(name) if name in here else pa.repeat("", len(batch))
    return pa.RecordBatch.from_pydict(arrays)
