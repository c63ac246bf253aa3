"""One file of a run -> Parquet parts on the file's own clock. Pure and picklable per file."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trueput.arrow import InvalidRowsError, arrow_schema, coded_schema, conform, word_columns
from trueput.clock import ClockKind
from trueput.source_api import Batch, Clock, Fact, Item, Problem, ReadOptions, Severity
from trueput.sources import all_sources

ROW_GROUP_ROWS = 65_536


def parquet_writer(table: str, path: Path, *, coded: bool = False) -> pq.ParquetWriter:
    """Return a writer of one part; with `coded`, of rows with the table's coded schema.

    Both write the same file: words as dictionaries, and the table's own schema for its readers.
    """
    schema = arrow_schema(table)
    words: Any = list(word_columns(table))
    numbers = [f.name for f in schema if f.type == pa.int64()]
    # a filter such as vantage = 'engine' then passes over row groups without such rows, and a
    # column that holds a single value throughout is not read at all
    scalars = [f.name for f in schema if not pa.types.is_list(f.type)]
    writer = pq.ParquetWriter(
        path,
        coded_schema(table) if coded else schema,
        compression="lz4",
        use_dictionary=words,
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        write_statistics=scalars,
        store_schema=not coded,
    )
    if coded:
        own = base64.b64encode(schema.serialize().to_pybytes()).decode()
        metadata: Any = {**(schema.metadata or {}), "ARROW:schema": own}
        writer.add_key_value_metadata(metadata)
    return writer


@dataclass(frozen=True)
class FileTask:
    """What is needed to read one file in another process."""

    path: Path
    source_name: str
    run_id: str
    source_id: str
    options: ReadOptions
    targets: dict[str, Path]
    """Table name -> path of the part that this file may write."""


@dataclass
class FileResult:
    """What came of one file."""

    source_id: str
    source_name: str
    rows: dict[str, int] = field(default_factory=dict)
    parts: dict[str, Path] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    clock: Clock = field(default_factory=lambda: Clock(ClockKind.NONE))
    moved_ns: int = 0
    """What was added to every instant while writing: the parts are in UTC where it is not 0."""
    is_read: bool = False
    """Whether the source stated a clock: one file may speak for others, which state none."""

    @property
    def says_nothing(self) -> bool:
        """Whether the file was read and neither a record nor a problem came of it."""
        of_itself = ("gpu_captures", "gpu_overheads")
        records = any(count for table, count in self.rows.items() if table not in of_itself)
        return self.is_read and not (records or self.facts or self.problems)


class PartWriter:
    """Writes the rows of one table to one Parquet file, in row groups of bounded size."""

    def __init__(self, table: str, path: Path) -> None:
        self._table = table
        self._path = path
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.Table] = []
        self._held_rows = 0
        self.rows = 0

    def add(self, rows: pa.Table) -> None:
        """Take rows that already have the table's schema, plain or coded."""
        if rows.schema != coded_schema(self._table):
            rows = conform(self._table, rows, {}, coded=True)
        self._held.append(rows)
        self._held_rows += rows.num_rows
        self.rows += rows.num_rows
        if self._held_rows >= ROW_GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = parquet_writer(self._table, self._path, coded=True)
        if self._held:
            # One dictionary for a row group: with several the writer gives up dictionaries.
            rows = pa.concat_tables(self._held).unify_dictionaries()
            self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._held, self._held_rows = [], 0

    def close(self) -> bool:
        """Finish the file; return whether one was written."""
        if self._held:
            self._flush()
        if self._writer is not None:
            self._writer.close()
        return self._writer is not None


def read_file(task: FileTask) -> FileResult:
    """Read one file with its source and write its parts. A failing source becomes a problem."""
    source = next(s for s in all_sources() if s.name == task.source_name)
    result = FileResult(task.source_id, source.name)
    writers: dict[str, PartWriter] = {}
    constants = {"run_id": task.run_id, "source_id": task.source_id}
    try:
        for item in _guarded(source.read(task.path, task.options)):
            if isinstance(item, Batch):
                _write(item, task, constants, writers, result.moved_ns)
            elif isinstance(item, Problem):
                result.problems.append(item)
            elif isinstance(item, Fact):
                result.facts.append(item)
            else:
                result.clock, result.is_read = item, True
                if not writers and item.kind is not ClockKind.UTC:
                    result.moved_ns = item.offset_ns or 0
    finally:
        for table, writer in writers.items():
            if writer.close():
                result.parts[table] = task.targets[table]
                result.rows[table] = writer.rows
    return result


def _write(
    item: Batch,
    task: FileTask,
    constants: dict[str, Any],
    writers: dict[str, PartWriter],
    moved_ns: int,
) -> None:
    names = set(arrow_schema(item.table).names)
    known = {k: v for k, v in constants.items() if k in names}
    rows = conform(item.table, item.rows, known, coded=True)
    rows = _moved(rows, item.table, moved_ns)
    if item.table not in writers:
        writers[item.table] = PartWriter(item.table, task.targets[item.table])
    writers[item.table].add(rows)


def _guarded(items: Iterator[Item]) -> Iterator[Item]:
    """Turn a crash of a source into a problem, so that what was read before it is kept."""
    try:
        yield from items
    except InvalidRowsError:
        raise
    except Exception as error:  # noqa: BLE001  a source must not take the run down with it
        text = f"the reader failed here: {type(error).__name__}; what came before is kept"
        yield Problem("INGEST001", Severity.ERROR, text)


def _moved(rows: pa.Table, table: str, offset_ns: int) -> pa.Table:
    """Return the rows with `offset_ns` added to every instant."""
    if offset_ns == 0:
        return rows
    for at, column in enumerate(arrow_schema(table)):
        if (column.metadata or {}).get(b"type") == b"time":
            moved = pc.add(rows.column(at), pa.scalar(offset_ns, pa.int64()))
            rows = rows.set_column(at, column, moved)
    return rows


def shift_instants(path: Path, table: str, offset_ns: int) -> None:
    """Add `offset_ns` to every instant of a part, so that the part is in UTC. Streams."""
    schema = arrow_schema(table)
    columns = [f.name for f in schema if (f.metadata or {}).get(b"type") == b"time"]
    if not columns or offset_ns == 0:
        return

    def shifted(rows: pa.Table) -> pa.Table:
        for name in columns:
            at = schema.get_field_index(name)
            moved = pc.add(rows.column(name), pa.scalar(offset_ns, pa.int64()))
            rows = rows.set_column(at, schema.field(at), moved)
        return rows

    rewrite(path, table, shifted)


def rewrite(path: Path, table: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Let each row group of a part be what `change` makes of it. Streams."""
    scratch = path.with_suffix(".new")
    with pq.ParquetFile(path) as source, parquet_writer(table, scratch) as writer:
        for index in range(source.num_row_groups):
            writer.write_table(change(source.read_row_group(index)))
    scratch.replace(path)


def counted(problems: list[Problem]) -> dict[str, int]:
    """Return how often each code occurs."""
    totals: dict[str, int] = defaultdict(int)
    for problem in problems:
        totals[problem.code] += problem.count
    return dict(totals)
