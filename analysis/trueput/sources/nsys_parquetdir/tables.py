"""The tables of a parquetdir export: one Parquet file for each, read in bounded batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trueput.nsys_rows.tables import LONGEST_TEXT, Query
from trueput.scan import Damage
from trueput.source_api import BATCH_ROWS

_FAILURES = (pa.ArrowException, OSError, ValueError)


class ParquetTables:
    """The files of one export, by the name of their table."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files
        self.names = frozenset(files)
        self._columns: dict[str, frozenset[str]] = {}
        self._strings: dict[int, str] | None = None

    def columns(self, table: str) -> frozenset[str]:
        """Return the columns of a table; empty where there is none or it cannot be read."""
        if table not in self._columns:
            found: frozenset[str] = frozenset()
            if table in self._files:
                try:
                    with pq.ParquetFile(self._files[table]) as file:
                        found = frozenset(file.schema_arrow.names)
                except _FAILURES:
                    found = frozenset()
            self._columns[table] = found
        return self._columns[table]

    def unreadable(self) -> list[str]:
        """Return the tables whose files have no readable schema."""
        return [t for t in sorted(self._files) if not self.columns(t)]

    def strings(self, ids: Iterable[int]) -> Mapping[int, str]:
        """Return the texts of StringIds by id, long ones cut."""
        if self._strings is None:
            self._strings = {}
            for batch in self.batches(Query("StringIds", ("id",), ("value",))):
                if isinstance(batch, Damage):
                    break
                cut = pc.utf8_slice_codeunits(batch.column("value"), 0, LONGEST_TEXT)
                ids_here: list[Any] = batch.column("id").to_pylist()
                self._strings.update(zip(ids_here, map(str, cut.to_pylist()), strict=True))
        return {i: self._strings[i] for i in ids if i in self._strings}

    def batches(self, query: Query) -> Iterator[pa.RecordBatch | Damage]:
        """Yield the rows of a table in file order; see `Tables.batches`."""
        here = self.columns(query.table)
        asked = [c for c in (*query.numbers, *query.texts) if c in here]
        if not asked or (query.only and query.only[0] not in here):
            return
        more = [query.only[0]] if query.only and query.only[0] not in asked else []
        try:
            with pq.ParquetFile(self._files[query.table]) as file:
                for batch in file.iter_batches(BATCH_ROWS, columns=[*asked, *more]):
                    rows = _only(_shaped(batch, query, more), query)
                    if len(rows):
                        yield rows
        except _FAILURES as error:
            yield Damage(f"{type(error).__name__}: {error}"[:200])


def _shaped(batch: pa.RecordBatch, query: Query, more: list[str]) -> pa.RecordBatch:
    here = set(batch.schema.names)
    arrays: dict[str, Any] = {}
    for name in (*query.numbers, *more):
        arrays[name] = (
            _numbers(batch.column(name)) if name in here else pa.nulls(len(batch), pa.int64())
        )
    for name in query.texts:
        arrays[name] = _texts(batch.column(name)) if name in here else pa.repeat("", len(batch))
    return pa.RecordBatch.from_pydict(arrays)


def _numbers(column: Any) -> Any:
    """Return whole numbers; ids above 2**63 become negative, as SQLite has them."""
    if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
        raise ValueError("text where numbers were expected")
    return column.cast(pa.int64(), safe=False)


def _texts(column: Any) -> Any:
    return pc.fill_null(column.cast(pa.string()), "")


def _only(batch: pa.RecordBatch, query: Query) -> pa.RecordBatch:
    if query.only is None:
        return batch
    column, values = query.only
    kept = batch.filter(pc.is_in(batch.column(column), pa.array(values, pa.int64())))
    return kept.select([*query.numbers, *query.texts])
