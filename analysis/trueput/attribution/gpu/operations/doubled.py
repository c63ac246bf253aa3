"""Records that stand twice in one file: alike in every column, to the nanosecond.

Looked for in order of time, as `union` does: row groups are read by their earliest instant, and
what is older than all that is still to come leaves the memory. A first look takes instants and
lengths alone, which almost never agree by chance; only rows that do are compared as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trueput.attribution.gpu.profile.marks import Bools, numbers, words
from trueput.attribution.records import Ints

MOST_HELD: Final = 524_288
"""A file that is so far from order of time is not looked through."""
_SALT: Final = 0x9E37_79B9_7F4A_7C15
_NULL: Final = 0x5851_F42D_4C95_7F2D
_KEY_BITS: Final = 62
_MOST_BITS: Final = 20


@dataclass(frozen=True)
class Alike:
    """What makes two rows of a table one record."""

    instant: str
    """The column by which rows are ordered; a row without it is no copy."""
    other: str
    """A second number, which seldom agrees by chance."""
    columns: Sequence[str]
    """All others that must agree."""
    needs: Sequence[str] = ()
    """Columns that must agree too, and without which a row is no copy."""


@dataclass
class Doubled:
    """The rows of a part that another of its rows says already, by row group."""

    rows: dict[int, Bools] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(int(which.sum()) for which in self.rows.values())


Look: TypeAlias = Callable[[int, Ints, Ints], None]
"""What is shown each row group: its number, the instants and the second numbers of its rows."""


def doubled_rows(part: Path, alike: Alike, look: Look | None = None) -> Doubled:
    """Return the rows of a part that stand in it twice; all but one of each.

    `look` is shown what is read.
    """
    with pq.ParquetFile(part, pre_buffer=False) as file:
        order = _Order.of(file, alike)
        if order is None:
            return Doubled()
        suspects = order.suspects(look)
        if suspects is None or not suspects.size:
            return Doubled()
    texts = [f.name for f in file.schema_arrow if f.type == pa.string()]
    with pq.ParquetFile(part, read_dictionary=texts, pre_buffer=False) as file:
        again = _Order.of(file, alike)
        assert again is not None
        return again.doubled(suspects)


@dataclass
class _Order:
    """The row groups of a part by their earliest instant, and how rows become sortable keys."""

    file: Any
    alike: Alike
    groups: list[tuple[int, int]]
    """First instant and number of each."""
    base_ns: int
    bits: int
    """Low bits of a key that are of the second number."""

    @classmethod
    def of(cls, file: Any, alike: Alike) -> _Order | None:
        """Return the order of a file; None where its statistics do not tell one."""
        at = file.schema_arrow.get_field_index(alike.instant)
        groups, last = [], None
        for number in range(file.num_row_groups):
            told = file.metadata.row_group(number).column(at).statistics
            if told is None:
                return None
            if told.has_min_max:
                groups.append((int(told.min), number))
                last = int(told.max) if last is None else max(last, int(told.max))
        if last is None:
            return None
        groups.sort()
        bits = _KEY_BITS - (last - groups[0][0]).bit_length()
        return None if bits < 0 else cls(file, alike, groups, groups[0][0], min(bits, _MOST_BITS))

    def _pieces(self) -> Iterator[tuple[int, int | None]]:
        """Yield the number of each row group, and the least key of those still to come."""
        for group, follower in zip_longest(self.groups, self.groups[1:]):
            yield group[1], None if follower is None else self._least(follower[0])

    def _least(self, at_ns: int) -> int:
        return (at_ns - self.base_ns) << self.bits

    def _keys(self, rows: Any) -> Ints:
        """Return sortable keys: by the instant, then by the second number."""
        instant, other = numbers(rows.column(self.alike.instant)), rows.column(self.alike.other)
        second = _whole(other) - (instant if other.type == pa.int64() else 0)
        found: Ints = (instant - self.base_ns) << self.bits
        if self.bits:
            mixed = second.view(np.uint64) * np.uint64(_SALT)
            mixed >>= np.uint64(64 - self.bits)
            found |= mixed.view(np.int64)
        return found

    def _known(self, rows: Any) -> Bools:
        known: Bools = np.ones(rows.num_rows, np.bool_)
        for name in (self.alike.instant, *self.alike.needs):
            if name in rows.column_names and rows.column(name).null_count:
                known &= rows.column(name).is_valid().to_numpy()
        return known

    def suspects(self, look: Look | None = None) -> Ints | None:
        """Return the keys that occur twice, in order; None where too much had to be held."""
        held: Ints = np.zeros(0, np.int64)
        found: list[Ints] = []
        for number, least in self._pieces():
            columns = [self.alike.instant, self.alike.other]
            rows = self.file.read_row_group(number, columns, use_threads=False)
            if look is not None:
                look(number, *(numbers(rows.column(name)) for name in columns))
            keys = self._keys(rows)[self._known(rows)]
            keys = np.sort(np.concatenate((held, keys)) if held.size else keys)
            twice = keys[1:] == keys[:-1]
            if twice.any():
                found.append(np.unique(keys[1:][twice]))
            held = keys[np.searchsorted(keys, least) :].copy() if least is not None else keys[:0]
            if held.size > MOST_HELD:
                return None
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def doubled(self, suspects: Ints) -> Doubled:
        """Return the rows with such keys that are alike as a whole."""
        found = Doubled()
        held = np.zeros((2, 0), np.int64)
        alike = self.alike
        names = list(dict.fromkeys((alike.instant, alike.other, *alike.columns, *alike.needs)))
        for number, least in self._pieces():
            times = self.file.read_row_group(number, names[:2], use_threads=False)
            keys = self._keys(times)
            near = np.minimum(np.searchsorted(suspects, keys), suspects.size - 1)
            which = np.flatnonzero(suspects[near] == keys)
            if which.size:
                rows = self.file.read_row_group(number, names, use_threads=False)
                which = which[self._known(rows)[which]]
                now = np.stack((keys[which], _hashes(rows, names[1:])[which]))
                every = np.concatenate((held, now), axis=1)
                order = np.lexsort((every[1], every[0]))
                same = (every[:, order][:, 1:] == every[:, order][:, :-1]).all(axis=0)
                again: Bools = np.zeros(every.shape[1], np.bool_)
                again[order[1:][same]] = True
                if again[held.shape[1] :].any():
                    marked: Bools = np.zeros(keys.size, np.bool_)
                    marked[which[again[held.shape[1] :]]] = True
                    found.rows[number] = marked
                held = every[:, ~again]
            if least is not None:
                held = held[:, held[0] >= least]
        return found


def _whole(column: Any) -> Ints:
    """Return a column of numbers as whole ones that differ where it differs; NULL is one value."""
    if column.type == pa.float64():
        values = pc.fill_null(column, float("nan")).to_numpy()
        found: Ints = np.ascontiguousarray(values).view(np.int64)
        return found
    return numbers(column)


def _hashes(rows: Any, names: Sequence[str]) -> Ints:
    """Return a number of 64 bits for each row, of all columns named."""
    found = np.zeros(rows.num_rows, np.uint64)
    for name in names:
        column = rows.column(name)
        if pa.types.is_dictionary(column.type):
            array = words(column)
            texts = np.array([hash(t) for t in array.dictionary.to_pylist()] + [0], np.int64)
            values = texts[array.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)]
        else:
            values = _whole(column)
        mixed = values.astype(np.uint64)
        if column.null_count:
            mixed[~column.is_valid().to_numpy()] = np.uint64(_NULL)
        found = (found ^ mixed) * np.uint64(_SALT)
        found ^= found >> np.uint64(29)
    return found.astype(np.int64)
