"""A warehouse: the views of some runs, built as far as a question needs them, and typed answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueput.errors import QueryError
from trueput.schema import tables, views
from trueput.warehouse.connect import Selection, connect, open_raw
from trueput.warehouse.models import Model, in_order, models, reads

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

MATERIALISE_BELOW_ROWS = 1_000_000
"""Below this many ingested rows the inner models are computed once; above, they stay views."""


PIECE_BYTES = 16 << 20
"""About as much Parquet of several runs is computed in one go where a model says computed once."""


@dataclass(frozen=True)
class Answer:
    """The result of a query: column names, their DuckDB types, and rows of Python values."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dicts, in order."""
        return [dict(zip(self.names, row, strict=True)) for row in self.rows]


class Warehouse:
    """The tables and views of the selected runs, open for questions.

    The inner models (staging and intermediate) are computed once per question for small selections
    and stay views for large ones, so that memory stays bounded.
    """

    def __init__(
        self, selection: Selection, input_rows: int = 0, memory_limit: str | None = None
    ) -> None:
        self._connection: DuckDBPyConnection = connect(
            selection, memory_limit=memory_limit, with_views=False
        )
        self._files = selection.files
        self._materialise = input_rows < MATERIALISE_BELOW_ROWS
        self._built: set[str] = set()
        self._order = in_order(self._connection)

    def __enter__(self) -> Warehouse:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the warehouse cannot be used after it."""
        self._connection.close()

    def _needed(self, names: set[str]) -> list[Model]:
        known = models()
        wanted: set[str] = set()
        open_names = [n for n in names if n in known]
        while open_names:
            name = open_names.pop()
            if name not in wanted:
                wanted.add(name)
                found = reads(self._connection, known[name].sql)
                open_names += [t for s, t in found if s == "main" and t in known]
        return [m for m in self._order if m.name in wanted and m.name not in self._built]

    def prepare(self, names: set[str] | None = None) -> None:
        """Build the named views and what they read; all of them without names."""
        for model in self._needed(set(models()) if names is None else names):
            if model.is_computed_once and not self._materialise:
                self._compute_by_runs(model)
            else:
                kind = "TABLE" if model.is_inner and self._materialise else "VIEW"
                self._connection.execute(f'CREATE {kind} "{model.name}" AS\n{model.sql}')
            self._built.add(model.name)

    def _compute_by_runs(self, model: Model) -> None:
        """Fill a table a few runs at a time: no row is made of two runs, and memory is bounded."""
        raw = self._raw_below(model)
        start = f'CREATE TABLE "{model.name}" AS'
        try:
            for runs in self._pieces(raw):
                for table in raw:
                    files = self._files.get(table, ())
                    open_raw(self._connection, table, [f for f in files if f.parent.name in runs])
                self._connection.execute(f"{start}\n{model.sql}")
                start = f'INSERT INTO "{model.name}"'
        finally:
            for table in raw:
                open_raw(self._connection, table, self._files.get(table, ()))

    def _raw_below(self, model: Model) -> list[str]:
        """Return the ingested tables that a model reads, at any depth."""
        found: set[str] = set()
        todo, done = [model.name], {""}
        while todo:
            name = todo.pop()
            if name not in done:
                done.add(name)
                for schema, table in reads(self._connection, models()[name].sql):
                    if schema == "raw":
                        found.add(table)
                    elif table in models():
                        todo.append(table)
        return sorted(found)

    def _pieces(self, raw: Sequence[str]) -> list[set[str]]:
        """Return the folders of the runs in groups; the files of a group are of a bounded size."""
        sizes: dict[str, int] = {}
        for path in (p for table in raw for p in self._files.get(table, ())):
            sizes[path.parent.name] = sizes.get(path.parent.name, 0) + path.stat().st_size
        pieces: list[set[str]] = [set()]
        room = PIECE_BYTES
        for run, size in sorted(sizes.items()):
            if pieces[-1] and size > room:
                pieces.append(set())
                room = PIECE_BYTES
            pieces[-1].add(run)
            room -= size
        return pieces

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> Answer:
        """Run one of trueput's own queries."""
        self.prepare({t for s, t in reads(self._connection, sql) if s == "main"})
        return self._answer(sql, parameters)

    def columns(self, sql: str) -> dict[str, NDArray[Any]]:
        """Run one of trueput's own queries; return its columns, none of which may hold a NULL."""
        self.prepare({t for s, t in reads(self._connection, sql) if s == "main"})
        found: dict[str, NDArray[Any]] = self._connection.execute(sql).fetchnumpy()
        return found

    def view(self, name: str, order: str = "") -> list[dict[str, Any]]:
        """Return the rows of a table or view, in the documented order of columns."""
        known = {**tables(), **views()}
        ordering = order or ", ".join(f'"{k}"' for k in known[name].key) if name in known else order
        tail = f" ORDER BY {ordering}" if ordering else ""
        return self.ask(f'SELECT * FROM "{name}"{tail}').dicts()

    def query(self, sql: str) -> Answer:
        """Run a user's SQL. Raises QueryError with the database's message."""
        import duckdb

        try:
            self.prepare({t for s, t in reads(self._connection, sql) if s == "main"})
            if any(s not in {"main", "raw"} for s, _ in reads(self._connection, sql)):
                self.prepare()
        except ValueError:
            self.prepare()
        try:
            return self._answer(sql, ())
        except duckdb.Error as error:
            raise QueryError(
                f"the query does not run: {error}", "`trueput tables` lists tables and columns"
            ) from error

    def _answer(self, sql: str, parameters: Sequence[Any]) -> Answer:
        cursor = self._connection.execute(sql, list(parameters))
        description = cursor.description or []
        names = tuple(str(column[0]) for column in description)
        types = tuple(str(column[1]) for column in description)
        return Answer(names, types, cursor.fetchall() if description else [])


def write_database(selection: Selection, path: Path) -> None:
    """Write a `.duckdb` file that holds every table and view as an ordinary view in main."""
    connect(selection, database=path).close()
