"""A warehouse: the views of some runs, built as far as a question needs them, and typed answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueput.errors import QueryError, TrueputError
from trueput.schema import tables, views
from trueput.warehouse.by_runs import ByRuns
from trueput.warehouse.connect import Selection, connect
from trueput.warehouse.failures import damaged_file, damaged_inside, view_failure
from trueput.warehouse.models import Model, describes, in_order, models, reads, reads_nothing
from trueput.warehouse.plans import Question
from trueput.warehouse.statements import expect_one_question, views_named

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

MATERIALISE_BELOW_ROWS = 1_000_000
"""Below this many ingested rows the inner models are computed once; above, by runs."""


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

    For small selections the inner models (staging and intermediate) are computed once, as tables.
    For large ones they stay views, and what questions read is computed a few runs at a time.
    """

    def __init__(
        self, selection: Selection, input_rows: int = 0, memory_limit: str | None = None
    ) -> None:
        self._connection: DuckDBPyConnection = connect(
            selection, memory_limit=memory_limit, with_views=False
        )
        self._materialise = input_rows < MATERIALISE_BELOW_ROWS
        self._built: set[str] = set()
        self._failed: dict[str, TrueputError] = {}
        self._paths = {str(path) for paths in selection.files.values() for path in paths}
        self._by_runs = ByRuns(self._connection, selection)

    def __enter__(self) -> Warehouse:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the warehouse cannot be used after it."""
        self._connection.close()

    def prepare(self, names: set[str] | None = None) -> None:
        """Build the named views and what they read; all of them that can be without names.

        Raises ViewError or StoreError where a named one cannot be computed.
        """
        self._build_all(names)
        self._by_runs.restore()

    def _build_all(self, names: set[str] | None = None) -> None:
        """Build the named views; of a large selection those that show tables are left so."""
        wanted = in_order(self._connection, names)
        failed = sorted({model.name for model in wanted} & set(self._failed))
        if failed and names is not None:
            raise self._failed[failed[0]]
        new = [m for m in wanted if m.name not in self._built and m.name not in self._failed]
        if not self._materialise:
            self._by_runs.create(new)
            self._built |= {model.name for model in new}
            return
        for model in new:
            self._build(model)
            if names is not None and model.name in self._failed:
                raise self._failed[model.name]

    def _build(self, model: Model) -> None:
        """Build one view whose inputs stand, or note why it cannot be."""
        import duckdb

        kind = "TABLE" if model.is_inner else "VIEW"
        for schema, name in reads(self._connection, model.sql):
            if schema == "main" and name in self._failed:
                self._failed[model.name] = self._failed[name]
                return
        try:
            self._connection.execute(f'CREATE {kind} "{model.name}" AS\n{model.sql}')
            self._built.add(model.name)
        except (duckdb.Error, UnicodeDecodeError) as error:
            self._failed[model.name] = view_failure(model.name, error, self._paths)

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> Answer:
        """Run one of trueput's own queries."""
        question = Question(sql, parameters)
        self._get_ready([question])
        return self._own_answer(question)

    def ask_all(self, queries: Mapping[str, str]) -> dict[str, Answer]:
        """Run several of trueput's own queries; return the answers under the same names.

        On a large selection that costs less than one after the other: what they have in common is
        computed once.
        """
        questions = {name: Question(sql) for name, sql in queries.items()}
        self._get_ready(list(questions.values()))
        return {name: self._own_answer(question) for name, question in questions.items()}

    def _get_ready(self, questions: Sequence[Question]) -> None:
        """Build the views that questions read, and fill them when the selection is large."""
        if direct := self._build_read(questions):
            self._by_runs.fill(questions, direct)

    def _build_read(self, questions: Sequence[Question]) -> set[str]:
        """Build the views that questions read; return those that are still to be filled."""
        read = {t for q in questions for s, t in reads(self._connection, q.sql) if s == "main"}
        self._build_all(read)
        return set() if self._materialise else read & set(models())

    def _streamed(self, question: Question) -> Answer | None:
        """Answer a question of a large selection without keeping what it reads, or return None.

        None also where that fails: whether a view or the question is at fault shows when the views
        are computed by themselves.
        """
        import duckdb

        direct = self._build_read([question])
        if not direct or not self._by_runs.stream(question, direct):
            return None
        try:
            return self._answer(question)
        except (duckdb.Error, UnicodeDecodeError):
            return None

    def columns(self, sql: str) -> dict[str, NDArray[Any]]:
        """Run one of trueput's own queries; return its columns, none of which may hold a NULL."""
        self.prepare({t for s, t in reads(self._connection, sql) if s == "main"})
        found: dict[str, NDArray[Any]] = self._connection.execute(sql).fetchnumpy()
        return found

    def view(self, name: str, order: str = "") -> list[dict[str, Any]]:
        """Return the rows of a table or view, in the documented order of columns."""
        return self.ask(_whole(name, order)).dicts()

    def views(self, names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of several tables or views, each in its documented order, by name."""
        found = self.ask_all({name: _whole(name) for name in names})
        return {name: answer.dicts() for name, answer in found.items()}

    def query(self, sql: str) -> Answer:
        """Run a user's SQL.

        Raises QueryError with the database's message, and UsageError where it asks several things.
        """
        import duckdb

        question = Question(sql)
        try:
            expect_one_question(self._connection, sql)  # no SQL at all reads nothing
            try:
                read = reads(self._connection, sql)
                # SHOW TABLES names nothing that it reads; the catalogue names everything
                is_named = bool(read) or reads_nothing(self._connection, sql)
                if not is_named or any(schema not in {"main", "raw"} for schema, _ in read):
                    self.prepare()
                elif describes(self._connection, sql):
                    self._build_all({name for schema, name in read if schema == "main"})
                    return self._answer(question)
                elif (answer := self._streamed(question)) is not None:
                    return answer
                self._get_ready([question])
            except ValueError:  # no SELECT: nothing says what it reads, but the names in it
                self.prepare(views_named(self._connection, sql))
            return self._answer(question)
        except (duckdb.Error, UnicodeDecodeError) as error:
            damaged = damaged_file(error, self._paths) or damaged_inside(error, self._paths)
            if damaged is not None:
                raise damaged from error
            raise QueryError(
                f"the query does not run: {error}", "`trueput tables` lists tables and columns"
            ) from error

    def _own_answer(self, question: Question) -> Answer:
        """Answer one of trueput's own queries; what fails is the view that it reads."""
        import duckdb

        try:
            return self._answer(question)
        except (duckdb.Error, UnicodeDecodeError) as error:
            read = {t for s, t in reads(self._connection, question.sql) if s == "main"}
            raise view_failure(", ".join(sorted(read)) or "query", error, self._paths) from error

    def _answer(self, question: Question) -> Answer:
        cursor = self._connection.execute(question.sql, list(question.parameters))
        description = cursor.description or []
        names = tuple(str(column[0]) for column in description)
        types = tuple(str(column[1]) for column in description)
        return Answer(names, types, cursor.fetchall() if description else [])


def _whole(name: str, order: str = "") -> str:
    """Return the query for all rows of a table or view, sorted by its key unless told otherwise."""
    known = {**tables(), **views()}
    key = known[name].key if name in known else ()
    ordering = order or ", ".join(f'"{column}"' for column in key)
    return f'SELECT * FROM "{name}"' + (f" ORDER BY {ordering}" if ordering else "")


def write_database(selection: Selection, path: Path) -> None:
    """Write a `.duckdb` file that holds every table and view as an ordinary view in main."""
    connect(selection, database=path).close()
