"""Large selections: what questions read is computed a few runs at a time, and only what they read.

No row of any model is made of two runs. So a model can be filled with the rows of some runs after
those of others, and the hash tables of a join or a grouping hold a few runs, not all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trueput.errors import TrueputError
from trueput.warehouse.connect import Selection, open_raw
from trueput.warehouse.failures import view_failure
from trueput.warehouse.models import Model, models, models_below, reads
from trueput.warehouse.plans import Question, scans_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PIECE_BYTES = 144 << 20
"""About as much Parquet of several runs is computed in one go."""


class ByRuns:
    """Models of a large selection, computed by runs for the questions that are asked.

    Schema `planned` holds an empty table for each model that was asked for, with all its columns:
    questions are planned over it. Schema `kept` holds the columns that questions read, filled.
    """

    def __init__(self, connection: DuckDBPyConnection, selection: Selection) -> None:
        self._connection = connection
        self._files = selection.files
        self._mixed = selection.mixed
        self._order: list[Model] = []
        self._types: dict[str, dict[str, str]] = {}
        self._kept: dict[str, set[str]] = {}
        self._standing: dict[str, str] = {}
        for schema in ("planned", "kept"):
            connection.execute(f"CREATE SCHEMA {schema}")

    def create(self, wanted: Sequence[Model]) -> None:
        """Create the views of models, in order; what they read stands.

        Those that are computed once show empty tables, which are cheap to plan over: `fill` or
        `restore` comes before any answer.
        """
        self._order += wanted
        for model in wanted:
            self._create_view(model.name, model.sql)
            if model.is_computed_once:
                self._describe(model.name)
                self._show(model.name, "planned", self._types[model.name])

    def fill(self, questions: Sequence[Question], names: set[str]) -> None:
        """Let the views `names` show tables that hold all that these questions read of them.

        `names`: the models that the questions read; their views stand. Raises the database's error
        where a question cannot be planned. Other views may show tables that are empty by now.
        """
        needed = self._needed(questions, names)
        todo = {n: c for n, c in needed.items() if not c <= self._kept.get(n, set())}
        if todo:
            self._compute(todo)
        for name in names:
            self._show(name, "kept", self._kept[name])

    def stream(self, question: Question, names: set[str]) -> bool:
        """Let the views `names` be computed while this one question reads them; return whether so.

        Not where it reads one of them more than once, or the runs are too many for one go. Raises
        the database's error where the question cannot be planned.
        """
        wanted = self._needed([question], names)
        scans = scans_of(self._connection, question, "planned", names)
        if any(len(scans[name]) != 1 for name in names):
            return False
        steps = self._shared_steps(wanted)
        raw = self._raw_below([*wanted, *steps])
        if len(self._pieces(raw)) > 1:
            return False
        for table in raw:
            self._open(table, self._files.get(table, ()), folded=True)
        for name, (_, sql) in steps.items():
            self._insert(name, sql)
        return True

    def _needed(self, questions: Iterable[Question], names: Iterable[str]) -> dict[str, set[str]]:
        """Return which columns of the models the questions read; of each at least one."""
        chosen = set(names)
        shared = self._plan_shared(chosen)
        for name in chosen - shared:
            self._describe(name)
            self._show(name, "planned", self._types[name])
        needed = self._read_by(questions, chosen)
        return {n: c or {next(iter(self._types[n]))} for n, c in needed.items()}

    def _plan_shared(self, wanted: Iterable[str]) -> set[str]:
        """Let the views of models that are computed once show empty tables; return the models.

        All others are what their files say: planned over those tables, because written into each
        other they would take minutes to plan.
        """
        below = models_below(self._connection, wanted)
        shared = {m.name for m in self._order if m.is_computed_once and m.name in below}
        for name in shared:
            self._show(name, "planned", self._types[name])
        self.restore(but=shared)
        return shared

    def _read_by(self, questions: Iterable[Question], names: Iterable[str]) -> dict[str, set[str]]:
        """Return which columns of the shown empty tables the questions read."""
        found: dict[str, set[str]] = {name: set() for name in names}
        for question in questions:
            for name, scans in scans_of(self._connection, question, "planned", found).items():
                found[name] |= set().union(*scans)
        return found

    def _describe(self, name: str) -> None:
        """Learn the columns of a model and their types, and make its empty table."""
        if name not in self._types:
            rows = self._connection.execute(f'DESCRIBE FROM "{name}"').fetchall()
            self._types[name] = {str(row[0]): str(row[1]) for row in rows}
            columns = ", ".join(f'"{c}" {t}' for c, t in self._types[name].items())
            self._connection.execute(f'CREATE TABLE planned."{name}" ({columns})')

    def _show(self, name: str, schema: str, columns: Iterable[str]) -> None:
        """Let a view show a table; whoever reads another column than these gets an error."""
        there = set(columns)
        shown = ", ".join(
            f'"{c}"' if c in there else f"""error('`{c}` was not computed')::{t} AS "{c}\""""
            for c, t in self._types[name].items()
        )
        self._create_view(name, f'SELECT {shown} FROM {schema}."{name}"')

    def restore(self, but: Collection[str] = ()) -> None:
        """Let every view be what its file says, but for the named ones.

        From the top down: what a view reads is then still a table, and cheap to plan.
        """
        for model in reversed(self._order):
            if model.name not in but:
                self._create_view(model.name, model.sql)

    def _create_view(self, name: str, sql: str) -> None:
        """Let a view be this query, unless it is."""
        if self._standing.get(name) != sql:
            self._connection.execute(f'CREATE OR REPLACE VIEW "{name}" AS\n{sql}')
            self._standing[name] = sql

    def _compute(self, wanted: Mapping[str, set[str]]) -> None:
        """Fill the tables of models, a few runs at a time."""
        steps = self._shared_steps(wanted)
        fills = {name: self._fill_of(name, columns) for name, columns in wanted.items()}
        for name, columns in wanted.items():
            self._make_empty(name, columns)
            self._kept[name] = columns
        raw = self._raw_below([*wanted, *steps])
        try:
            for runs in self._pieces(raw):
                for table in raw:
                    files = self._files.get(table, ())
                    part = [f for f in files if f.parent.name in runs]
                    self._open(table, part, folded=True)
                for name, (columns, sql) in steps.items():
                    self._make_empty(name, columns)
                    self._insert(name, sql)
                for name, sql in fills.items():
                    self._insert(name, sql)
        except TrueputError:
            for name in wanted:
                self._kept.pop(name, None)
            raise
        finally:
            for table in raw:
                self._open(table, self._files.get(table, ()))
            for name, (columns, _) in steps.items():
                self._make_empty(name, columns)

    def _insert(self, name: str, sql: str) -> None:
        """Add the rows of a query to a model's table. Raises ViewError or StoreError."""
        import duckdb

        try:
            self._connection.execute(f'INSERT INTO kept."{name}"\n{sql}')
        except (duckdb.Error, UnicodeDecodeError) as error:
            paths = {str(path) for files in self._files.values() for path in files}
            raise view_failure(name, error, paths) from error

    def _open(self, table: str, files: Sequence[Path], *, folded: bool = False) -> None:
        open_raw(self._connection, table, files, mixed=self._mixed, folded=folded)

    def _shared_steps(self, wanted: Mapping[str, set[str]]) -> dict[str, tuple[set[str], str]]:
        """Return the columns and the query of models that are computed once for all the wanted.

        In the order of computing. Their views show the tables to come.
        """
        shared = self._plan_shared(wanted) - set(wanted)
        names = [model.name for model in self._order if model.name in shared]
        needed = self._read_by(
            [Question(self._fill_of(name, columns)) for name, columns in wanted.items()], names
        )
        steps: dict[str, tuple[set[str], str]] = {}
        for name in reversed(names):
            columns = needed[name] or {next(iter(self._types[name]))}
            sql = self._fill_of(name, columns)
            for lower, read in self._read_by([Question(sql)], names).items():
                needed[lower] |= read
            steps[name] = columns, sql
        self.restore(but=steps)
        for name, (columns, _) in steps.items():
            self._kept.pop(name, None)
            self._make_empty(name, columns)
            self._show(name, "kept", columns)
        return dict(reversed(steps.items()))

    def _fill_of(self, name: str, columns: set[str]) -> str:
        """Return the query for these columns of a model."""
        return f"SELECT {self._list(name, columns)} FROM (\n{models()[name].sql}\n)"

    def _make_empty(self, name: str, columns: set[str]) -> None:
        """Let the table of a model be empty and have these columns."""
        chosen = self._list(name, columns)
        self._connection.execute(
            f'CREATE OR REPLACE TABLE kept."{name}" AS SELECT {chosen} FROM planned."{name}"'
        )

    def _list(self, name: str, columns: set[str]) -> str:
        """Return these columns in the model's order, as SQL."""
        return ", ".join(f'"{c}"' for c in self._types[name] if c in columns)

    def _raw_below(self, names: Iterable[str]) -> list[str]:
        """Return the ingested tables that models read, at any depth."""
        known = models()
        found: set[str] = set()
        for name in models_below(self._connection, names):
            read = reads(self._connection, known[name].sql)
            found |= {table for schema, table in read if schema == "raw"}
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
