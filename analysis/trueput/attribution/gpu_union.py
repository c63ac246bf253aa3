"""GPU operations of a run -> when each device was busy, and what each file saw of each device.

A union of intervals needs its operations in order of start, and a question about it would sort ten
million rows each time. Here it is worked out once: row groups are read in order of their earliest
start, which their statistics tell, so that at any moment all that is still to come begins at the
earliest start of the next one. What ended before it is final and leaves the memory. Files, kinds and
streams may interleave in any way; the more they do, the more stretches are held.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trueput.attribution.gpu_marks import Bools, numbers, words
from trueput.attribution.records import Ints
from trueput.attribution.run_io import Row
from trueput.attribution.stretches import SLICE, Cover, Stretches, united

KINDS: Final = ("kernel", "copy")
MAX_OPEN: Final = 64
"""So many parts are kept open: those of many ranks are read in turns."""

_WORDS: Final = ("source_id", "device_key", "process_key", "kind")
_COLUMNS: Final = (*_WORDS, "device", "start_at_ns", "end_at_ns")
_KERNEL, _COPY, _SPAN = 0, 1, 2
_CODES: Final = {"kernel": _KERNEL, "graph_span": _SPAN}
"""The kinds of operations that are no copies."""
_BOUNDS: Final = np.iinfo(np.int64)


@dataclass
class _Seen:
    """What one file holds of one device."""

    first_ns: int = _BOUNDS.max
    last_ns: int = _BOUNDS.min
    operations: int = 0
    graph_spans: int = 0
    device: int | None = None
    process_key: str | None = None

    def add(self, more: _Seen) -> None:
        """Add what other operations of the same say."""
        self.first_ns = min(self.first_ns, more.first_ns)
        self.last_ns = max(self.last_ns, more.last_ns)
        self.operations += more.operations
        self.graph_spans += more.graph_spans
        ordinals = [d for d in (self.device, more.device) if d is not None]
        self.device = min(ordinals, default=None)
        names = [p for p in (self.process_key, more.process_key) if p is not None]
        self.process_key = min(names, default=None)


class GpuUnion:
    """The operations of one run's parts, united device by device over all its files.

    The parts must be on one clock. `stretches` makes the rows of `gpu_busy` while it reads, and
    `totals` then gives the rows of `gpu_op_totals`.
    """

    def __init__(self, run_id: str, parts: Sequence[Path]) -> None:
        self._run_id = run_id
        self._parts = tuple(parts)
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._is_whole = False

    def stretches(self) -> Iterator[pa.Table]:
        """Yield the rows of `gpu_busy`; those of a device and kind in order of time."""
        self._seen, self._is_whole = {}, False
        covers: dict[str, Cover] = {}
        groups = _groups_by_start(self._parts)
        opened = _Opened(self._parts)
        try:
            for group, follower in zip_longest(groups, groups[1:]):
                next_ns = follower.first_ns if follower else None
                self._take(opened.read(group), covers)
                pieces = _Pieces(self._run_id)
                for device, cover in covers.items():
                    for kernels, copies in cover.settled(next_ns):
                        pieces.add(device, kernels, copies)
                        if pieces.rows >= SLICE:
                            yield pieces.table()
                            pieces = _Pieces(self._run_id)
                if pieces.rows:
                    yield pieces.table()
        finally:
            opened.close()
        self._is_whole = True

    def totals(self) -> list[Row]:
        """Return the rows of `gpu_op_totals`; none unless `stretches` came to its end."""
        if not self._is_whole:
            return []
        return [
            {
                "source_id": source,
                "device_key": device,
                "process_key": seen.process_key,
                "device": seen.device,
                "operations": seen.operations,
                "graph_spans": seen.graph_spans,
                "first_at_ns": seen.first_ns,
                "last_at_ns": seen.last_ns,
            }
            for (source, device), seen in sorted(self._seen.items())
        ]

    def _take(self, rows: pa.Table, covers: dict[str, Cover]) -> None:
        """Add the operations of a row group to what was seen and to the covers of their devices."""
        for at in _by_place(rows):
            known = self._seen.setdefault((at.source, at.device), _Seen())
            known.add(at.seen())
            covers.setdefault(at.device, Cover()).add(*at.stretches())


class _Group(NamedTuple):
    """A row group, by its earliest start."""

    first_ns: int
    part: int
    number: int


def _groups_by_start(parts: Sequence[Path]) -> list[_Group]:
    """Return all row groups, each with an instant before which none of its operations begins."""
    found = []
    for part, path in enumerate(parts):
        metadata = pq.read_metadata(path)
        column = metadata.schema.to_arrow_schema().get_field_index("start_at_ns")
        for number in range(metadata.num_row_groups):
            told = metadata.row_group(number).column(column).statistics
            known = told is not None and told.has_min_max
            first = int(told.min) if known else _BOUNDS.min
            found.append(_Group(first, part, number))
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
            file = pq.ParquetFile(self._parts[group.part], read_dictionary=list(_WORDS))
        self._files[group.part] = file
        rows: pa.Table = file.read_row_group(group.number, list(_COLUMNS), use_threads=False)
        return rows

    def close(self) -> None:
        """Close everything."""
        while self._files:
            self._files.popitem()[1].close()


@dataclass
class _Place:
    """Operations of one row group of one file on one device, in the order of the file."""

    source: str
    device: str
    process_keys: Any
    ordinals: Any
    start_ns: Ints
    end_ns: Ints
    kind: Any
    """One of _KERNEL, _COPY and _SPAN per operation."""

    def seen(self) -> _Seen:
        """Return what the operations say of their device."""
        ordinals = self.ordinals.drop_null().to_numpy() if self.ordinals.null_count else None
        ordinals = self.ordinals.to_numpy() if ordinals is None else ordinals
        return _Seen(
            int(self.start_ns.min()),
            int(self.end_ns.max()),
            operations=self.start_ns.size,
            graph_spans=int(np.count_nonzero(self.kind == _SPAN)),
            device=int(ordinals.min()) if ordinals.size else None,
            process_key=_least_word(self.process_keys),
        )

    def stretches(self) -> tuple[Stretches, Stretches]:
        """Return when kernels ran and when copies and memsets did."""
        lasts = self.end_ns > self.start_ns
        return self._united(lasts & (self.kind == _KERNEL)), self._united(
            lasts & (self.kind == _COPY)
        )

    def _united(self, which: Bools) -> Stretches:
        if which.all():
            return united(self.start_ns, self.end_ns)
        return united(self.start_ns[which], self.end_ns[which])


def _least_word(words_of_place: Any) -> str | None:
    """Return the first in order of the words that occur."""
    if len(words_of_place.dictionary) == 1 and not words_of_place.null_count:
        return str(words_of_place.dictionary[0].as_py())
    used = np.unique(words_of_place.indices.drop_null().to_numpy())
    names = words_of_place.dictionary.to_pylist()
    return min((names[code] for code in used.tolist()), default=None)


def _by_place(rows: pa.Table) -> Iterator[_Place]:
    """Divide a row group by file and device."""
    source, device, process, kind = (words(rows.column(name)) for name in _WORDS)
    width = len(device.dictionary)
    code = device.indices.to_numpy()
    if len(source.dictionary) > 1:
        code = source.indices.to_numpy().astype(np.int64) * width + code
    count = np.bincount(code)
    places = np.flatnonzero(count).tolist()
    start, end = numbers(rows.column("start_at_ns")), numbers(rows.column("end_at_ns"))
    kinds = np.array([_CODES.get(word, _COPY) for word in kind.dictionary.to_pylist()], np.int8)
    kind = kinds[kind.indices.to_numpy()]
    ordinal = rows.column("device").combine_chunks()
    if len(places) > 1:
        # of small numbers the stable order is cheap
        small = code.astype(np.uint16) if count.size <= 1 << 16 else code
        order = np.argsort(small, kind="stable")
        start, end, kind = start[order], end[order], kind[order]
        index = _array(order, pa.int64())
        ordinal = ordinal.take(index)
        if len(process.dictionary) > 1 or process.null_count:
            process = process.take(index)
    at = 0
    for place in places:
        which = slice(at, at + int(count[place]))
        at = which.stop
        yield _Place(
            source.dictionary[place // width].as_py(),
            device.dictionary[place % width].as_py(),
            process[which],
            ordinal[which],
            start[which],
            end[which],
            kind[which],
        )


def _array(values: Any, kind: pa.DataType) -> Any:
    """Return numbers as an Arrow array of the same bytes."""
    held: Any = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, values.size, [None, held])


@dataclass
class _Pieces:
    """Stretches that are final, of several devices, as rows of `gpu_busy`."""

    run_id: str
    devices: list[str] = field(default_factory=list)
    kept: list[tuple[int, Stretches, Any]] = field(default_factory=list)

    def add(self, device: str, kernels: Stretches, copies: Stretches) -> None:
        """Take the stretches of one device."""
        if not kernels.size and not copies.size:
            return
        if not self.devices or self.devices[-1] != device:
            self.devices.append(device)
        start = np.concatenate((kernels.start_ns, copies.start_ns))
        end = np.concatenate((kernels.end_ns, copies.end_ns))
        kind = np.repeat(np.array([_KERNEL, _COPY], np.int32), (kernels.size, copies.size))
        if kernels.size and copies.size:
            order = np.argsort(start, kind="stable")
            start, end, kind = start[order], end[order], kind[order]
        self.kept.append((len(self.devices) - 1, Stretches(start, end), kind))

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(found.size for _, found, _ in self.kept)

    def table(self) -> pa.Table:
        """Return the rows; those of a device by start."""
        sizes = [found.size for _, found, _ in self.kept]
        device = np.repeat(np.array([at for at, _, _ in self.kept], np.int32), sizes)
        coded = {
            "run_id": (np.zeros(device.size, np.int32), [self.run_id]),
            "device_key": (device, self.devices),
            "kind": (np.concatenate([kind for _, _, kind in self.kept]), list(KINDS)),
        }
        columns: dict[str, Any] = {
            name: pa.DictionaryArray.from_arrays(_array(codes, pa.int32()), pa.array(texts))
            for name, (codes, texts) in coded.items()
        }
        for name in ("start_ns", "end_ns"):
            values = np.concatenate([getattr(found, name) for _, found, _ in self.kept])
            columns[f"{name[:-3]}_at_ns"] = _array(values, pa.int64())
        return pa.table(columns)
