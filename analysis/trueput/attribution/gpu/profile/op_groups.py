"""Row groups of gpu_ops in order of their earliest start, divided by file, device and kind."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trueput.attribution.gpu.profile.marks import numbers, set_aside, words
from trueput.attribution.records import Ints

MAX_OPEN: Final = 64
"""So many parts are kept open: those of many ranks are read in turns."""
FEW_CODES: Final = 24
"""Up to here a search for each code costs less than sorting by it."""
_KINDS: Final = 3
KERNEL, COPY, SPAN = range(_KINDS)
"""Kernels; copies and memsets; whole-graph spans."""

_CLASSES: Final = {"kernel": KERNEL, "graph_span": SPAN}
_WORDS: Final = ("source_id", "device_key", "process_key", "kind")
_COLUMNS: Final = (*_WORDS, "quality", "device", "start_at_ns", "end_at_ns")
_LEAST: Final = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class Place:
    """Operations of one row group, file, device and kind, in the order of the file."""

    source: str
    device: str
    kind: int
    """KERNEL, COPY or SPAN."""
    start_ns: Ints
    end_ns: Ints
    ordinals: Ints
    """Those that are told, in any order."""
    process_keys: Any
    """A dictionary array."""

    def least_process(self) -> str | None:
        """Return the first in order of the process keys; None where none is told."""
        names = self.process_keys.dictionary.to_pylist()
        if len(names) == 1 and not self.process_keys.null_count:
            return str(names[0])
        used = np.unique(self.process_keys.indices.drop_null().to_numpy())
        return min((names[code] for code in used.tolist()), default=None)


def groups_by_start(parts: Sequence[Path]) -> Iterator[tuple[list[Place], int | None]]:
    """Yield the row groups of parts in order of their earliest start, as their statistics tell it.

    Each comes with an instant before which nothing begins that is still to come; the last with
    None. The parts must be on one clock.
    """
    groups = _groups(parts)
    opened = _Opened(parts)
    try:
        for group, follower in zip_longest(groups, groups[1:]):
            yield list(_by_place(opened.read(group))), follower.first_ns if follower else None
    finally:
        opened.close()


class _Group(NamedTuple):
    """A row group, by its earliest start."""

    first_ns: int
    part: int
    number: int


def _groups(parts: Sequence[Path]) -> list[_Group]:
    found = []
    for part, path in enumerate(parts):
        metadata = pq.read_metadata(path)
        column = metadata.schema.to_arrow_schema().get_field_index("start_at_ns")
        for number in range(metadata.num_row_groups):
            told: Any = metadata.row_group(number).column(column).statistics
            known = told is not None and told.has_min_max
            found.append(_Group(int(told.min) if known else _LEAST, part, number))
    return sorted(found)


class _Opened:
    """Parts that are read in turns; the one not read for longest is closed for another."""

    def __init__(self, parts: Sequence[Path]) -> None:
        self._parts = parts
        self._files: OrderedDict[int, Any] = OrderedDict()

    def read(self, group: _Group) -> pa.Table:
        """Return a row group, texts as dictionaries."""
        file = self._files.pop(group.part, None)
        if file is None:
            if len(self._files) >= MAX_OPEN:
                self._files.popitem(last=False)[1].close()
            file = pq.ParquetFile(
                self._parts[group.part], read_dictionary=[*_WORDS, "quality"], pre_buffer=False
            )
        self._files[group.part] = file
        rows: pa.Table = file.read_row_group(group.number, list(_COLUMNS), use_threads=False)
        return rows

    def close(self) -> None:
        """Close everything."""
        while self._files:
            self._files.popitem()[1].close()


def _by_place(rows: pa.Table) -> Iterator[Place]:
    """Divide the rows that count of a row group by file, device and kind."""
    doubt = rows.column("quality")
    if doubt.null_count < len(doubt) and (broken := set_aside(doubt)).any():
        rows = rows.filter(pa.array(~broken))
    if not rows.num_rows:
        return
    source, device, process, kind = (words(rows.column(name)) for name in _WORDS)
    names = source.dictionary.to_pylist(), device.dictionary.to_pylist()
    code = _codes((source, len(names[0])), (device, len(names[1])))
    classes = [_CLASSES.get(word, COPY) for word in kind.dictionary.to_pylist()]
    width = 1 if len(classes) == 1 else _KINDS
    if width > 1:
        code = code * width + np.array(classes, np.int32)[kind.indices.to_numpy()]
    start, end = numbers(rows.column("start_at_ns")), numbers(rows.column("end_at_ns"))
    ordinal, ordinals = rows.column("device"), numbers(rows.column("device"))
    told = ordinal.is_valid().to_numpy() if ordinal.null_count else None
    one_process = len(process.dictionary) == 1 and not process.null_count
    for place, which in _rows_of(code, len(names[0]) * len(names[1]) * width):
        source_at, device_at = divmod(place // width, len(names[1]))
        yield Place(
            source=names[0][source_at],
            device=names[1][device_at],
            kind=classes[0] if width == 1 else place % width,
            start_ns=start[which],
            end_ns=end[which],
            ordinals=ordinals[which] if told is None else ordinals[which][told[which]],
            process_keys=process[:1] if one_process else _chosen(process, which),
        )


def _chosen(process: Any, which: Any) -> Any:
    return process[which] if isinstance(which, slice) else process.take(pa.array(which))


def _rows_of(code: Any, codes: int) -> Iterator[tuple[int, Any]]:
    """Yield every code that occurs, of `codes` that may, with its rows in the order of the file."""
    if codes <= FEW_CODES:
        small = code.astype(np.uint8)
        for one in range(codes):
            found = np.flatnonzero(small == one)
            if found.size == small.size:
                yield one, slice(None)
            elif found.size:
                yield one, found
        return
    # of small numbers the stable order is cheap
    order = np.argsort(code.astype(np.uint16) if codes <= 1 << 16 else code, kind="stable")
    ordered = code[order]
    for found in np.split(order, np.flatnonzero(ordered[1:] != ordered[:-1]) + 1):
        yield int(code[found[0]]), found


def _codes(first: tuple[Any, int], second: tuple[Any, int]) -> Any:
    """Return one number per row for the pairs of two dictionary columns without NULL."""
    (outer, outer_size), (inner, inner_size) = first, second
    if outer_size == 1:
        return inner.indices.to_numpy()
    return outer.indices.to_numpy().astype(np.int64) * inner_size + inner.indices.to_numpy()
