"""What reading an export needs of the thing that holds its tables, and of Arrow columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trueput.scan import Damage

Ints: TypeAlias = "npt.NDArray[np.int64]"
Flags: TypeAlias = "npt.NDArray[np.bool_]"
Column: TypeAlias = "pa.Array[Any]"


FAR_NS: Final = 2**61
LONGEST_TEXT: Final = 2048
"""Characters of a string that are kept."""
_FEW_PAIRS: Final = 65_536


@dataclass(frozen=True)
class Query:
    """Columns of one table: whole numbers, texts, and perhaps the only values of a column."""

    table: str
    numbers: tuple[str, ...]
    texts: tuple[str, ...] = ()
    only: tuple[str, tuple[int, ...]] | None = None


class Tables(Protocol):
    """The tables of one export."""

    def columns(self, table: str) -> frozenset[str]:
        """Return the columns of a table; empty where the export has no such table."""

    def batches(self, query: Query) -> Iterator[pa.RecordBatch | Damage]:
        """Yield the rows in file order, every asked column in each batch.

        Numbers are int64, texts string (empty for NULL); a column that the table lacks is NULL
        (empty for texts). A last `Damage` says that the rest cannot be read.
        """

    def strings(self, ids: Iterable[int]) -> Mapping[int, str]:
        """Return the texts of StringIds by id, long ones cut; ids without a text are left out."""


def numbers_of(batch: pa.RecordBatch, name: str) -> Ints:
    """Return a column as whole numbers, 0 for NULL."""
    column: Any = batch.column(name)
    whole = pc.fill_null(column, 0) if column.null_count else column
    found: Ints = whole.to_numpy(zero_copy_only=False)
    return found


def sound_times(batch: pa.RecordBatch) -> Flags:
    """Return for each row whether it has a start and an end, in order, within 70 years of 0."""
    start, end = numbers_of(batch, "start"), numbers_of(batch, "end")
    good: Flags = (end >= start) & (start > -FAR_NS) & (end < FAR_NS)
    for name in ("start", "end"):
        if batch.column(name).null_count:
            good &= batch.column(name).is_valid().to_numpy(zero_copy_only=False)
    return good


def filtered(batch: pa.RecordBatch, keep: Flags) -> pa.RecordBatch:
    """Return the rows to keep; the batch itself where that is all of them."""
    return batch if keep.all() else batch.filter(pa.array(keep))


def without_zero(batch: pa.RecordBatch, name: str) -> Column:
    """Return a column with its zeros as NULL: fillers of exports that know no NULL."""
    column = batch.column(name)
    if column.null_count == len(column):
        return column
    zeros = pc.equal(column, pa.scalar(0, column.type))
    return without(column, zeros) if pc.any(zeros).as_py() else column


def without(column: Column, gone: Column) -> Column:
    """Return a column with NULL where `gone` is true."""
    compute: Any = pc
    found: Column = compute.if_else(gone, None, column)
    return found


@dataclass(frozen=True)
class Coded:
    """A column as positions in a short list of its different values."""

    codes: npt.NDArray[np.int32]
    values: list[Any]

    def text(self, texts: Sequence[str | None]) -> Column:
        """Return the column with each value replaced by its text."""
        return text_column(self.codes, texts)

    def numbers(self, numbers: Sequence[int | None]) -> Column:
        """Return the column with each value replaced by a number."""
        return pa.array(numbers, pa.int64()).take(pa.array(self.codes, pa.int32()))

    def flags(self, flags: Sequence[bool]) -> Flags:
        """Return for each row the flag of its value."""
        found: Flags = np.asarray(flags, dtype=np.bool_)[self.codes]
        return found


def text_column(codes: npt.NDArray[np.int32], texts: Sequence[str | None]) -> Column:
    """Return texts by position; None is NULL."""
    indices = pa.array(codes, pa.int32())
    if None in texts:
        missing = np.asarray([t is None for t in texts], dtype=np.bool_)[codes]
        indices = pa.array(codes, pa.int32(), mask=missing)
        texts = [t or "" for t in texts]
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


def coded(column: Column) -> Coded:
    """Return a column as codes; NULL is a value like any other."""
    found = column.dictionary_encode(null_encoding="encode")
    codes: npt.NDArray[np.int32] = found.indices.to_numpy(zero_copy_only=False)
    return Coded(codes, found.dictionary.to_pylist())


def paired(one: Coded, other: Coded) -> Coded:
    """Return the pairs of two columns that do occur, as one coded column of tuples."""
    width = len(other.values)
    if len(one.values) * width <= _FEW_PAIRS:
        flat = one.codes * np.int32(width) + other.codes
        used = np.bincount(flat, minlength=1).nonzero()[0]
        place = np.zeros(len(one.values) * width, np.int32)
        place[used] = np.arange(len(used), dtype=np.int32)
        codes = place[flat]
    else:
        wide = one.codes.astype(np.int64) * width + other.codes
        used, inverse = np.unique(wide, return_inverse=True)
        codes = inverse.astype(np.int32)
    pairs = [(one.values[u // width], other.values[u % width]) for u in used.tolist()]
    return Coded(codes, pairs)


class Names:
    """Texts by string id, remembered up to a bound, and what follows from a text."""

    _MOST = 20_000

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._known: dict[int | None, str | None] = {None: None}

    def of(self, ids: Sequence[int | None]) -> list[str | None]:
        """Return the text of each id, None where there is none."""
        missing = [i for i in ids if i is not None and i not in self._known]
        if missing:
            if len(self._known) > self._MOST:
                self._known = {None: None}
                missing = [i for i in ids if i is not None]
            found = self._tables.strings(missing)
            self._known.update({i: found.get(i) or None for i in missing})
        return [self._known[i] for i in ids]


def pid_of(process: int) -> int:
    """Return the process id inside a serialised global id."""
    return (process >> 24) & 0xFFFFFF
