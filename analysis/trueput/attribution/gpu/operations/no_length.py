"""Operations without a length: what ran is known to have begun, and not how long it ran.

A kernel takes about a microsecond at least, and no profiler's clock is coarser: one that ends as
it starts lost its end. It may have run until the next operation of its stream began: what a
device was not seen to do in that time is not known to be idle.

A copy or memset may be that short. One of no bytes moved nothing. Where the lengths of a file are
whole microseconds, one that shows none took less than one. And none takes longer than
`SETTLING_NS` and `SLOWEST_NS` a byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from trueput.attribution.gpu.profile.marks import (
    Bools,
    has_word,
    numbers,
    row_groups,
    set_aside,
    words,
)
from trueput.attribution.gpu.profile.queues import QUEUE, Queue, by_queue, next_starts
from trueput.attribution.gpu.profile.stretches import Stretches, united
from trueput.attribution.gpu.time.union import GpuUnion
from trueput.attribution.records import Ints

ZERO_DURATION: Final = "zero_duration"
"""Word of gpu_ops.quality for an operation that ends as it starts."""
SLOWEST_NS: Final = 10
"""No copy or memset takes longer for a byte (100 MB/s) ..."""
SETTLING_NS: Final = 100_000
"""... beyond the time that it takes to begin and end."""
_MICROSECOND: Final = 1_000
_FEW: Final = 10
"""Fewer lengths may be whole microseconds by chance."""
_ENDLESS: Final = np.iinfo(np.int64).max // 4
_KINDS: Final = {"kernel": "kernels", "graph_span": "spans of graphs"}
_COLUMNS: Final = ("kind", "quality", *QUEUE, "bytes", "start_at_ns", "end_at_ns")


@dataclass
class NoLength:
    """The operations of one file that have no length."""

    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By what people call them: how many kernels and graph spans have none, and of how many."""
    copies: int = 0
    """Copies and memsets that have none, and may have taken some time."""
    idle_ns: int = 0
    """Time in which such operations may have run, and nothing else did; of the device with most."""
    span_ns: int = 0
    """From the first start to the last end of the file."""


@dataclass
class _File:
    """What one pass over the operations of a file tells."""

    kinds: dict[str, tuple[int, int]]
    without: int
    """Operations without a length."""
    last_ns: int
    span_ns: int
    is_coarse: bool
    """Whether all lengths are whole microseconds."""


def without_length(part: Path) -> NoLength | None:
    """Return what is told of operations without a length in a part of gpu_ops; None without any.

    A part none of whose rows has a quality is told by its statistics alone.
    """
    told = _looked_over(part) if _has_some(part) else None
    if told is None or not told.without:
        return None
    found = NoLength(told.kinds, span_ns=told.span_ns)
    found.copies, found.idle_ns = _unseen(part, told)
    return found if found.idle_ns or any(lost for lost, _ in told.kinds.values()) else None


def _has_some(part: Path) -> bool:
    metadata: Any = pq.read_metadata(part)
    at = metadata.schema.to_arrow_schema().get_field_index("quality")
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        told = group.column(at).statistics
        if told is None or not told.has_null_count or told.null_count < group.num_rows:
            return True
    return False


def _looked_over(part: Path) -> _File:
    kinds = dict.fromkeys(_KINDS.values(), (0, 0))
    first, last, coarse, fine, without = _ENDLESS, -_ENDLESS, 0, 0, 0
    for rows in row_groups([part], _COLUMNS):
        counted, none = _which(rows)
        start, end = numbers(rows.column("start_at_ns")), numbers(rows.column("end_at_ns"))
        for word, name in _KINDS.items():
            mine = has_word(rows.column("kind"), word) & counted
            lost, whole = kinds[name]
            kinds[name] = lost + int((mine & none).sum()), whole + int(mine.sum())
        if counted.any():
            first = min(first, int(start[counted].min()))
            last = max(last, int(end[counted].max()))
            without += int(none.sum())
            length = (end - start)[counted & ~none]
            fine += int((length % _MICROSECOND > 0).sum())
            coarse += length.size
    is_coarse = not fine and coarse >= _FEW
    return _File(kinds, without, last, max(0, last - first), is_coarse)


def _which(rows: Any) -> tuple[Bools, Bools]:
    """Return for each row whether it counts, and whether it counts and has no length."""
    doubt = rows.column("quality")
    if doubt.null_count == len(doubt):
        return np.ones(len(doubt), np.bool_), np.zeros(len(doubt), np.bool_)
    counted: Bools = ~set_aside(doubt)
    return counted, counted & has_word(doubt, ZERO_DURATION)


def _unseen(part: Path, told: _File) -> tuple[int, int]:
    """Return how many copies without a length may have run unseen, and for how long all such
    operations of a device may (ns)."""
    copies = 0
    held: dict[Queue, list[tuple[Ints, Ints]]] = {}
    for rows in row_groups([part], _COLUMNS):
        _, none = _which(rows)
        start = numbers(rows.column("start_at_ns"))
        most, computes = _most(rows, told)
        none &= most > 0
        copies += int((none & ~computes).sum())
        for queue, here in by_queue(rows, none):
            held.setdefault(queue, []).append((start[here], most[here]))
    starts = {q: np.unique(np.concatenate([p[0] for p in ps])) for q, ps in held.items()}
    following = next_starts(starts, _starts(part))
    pieces: dict[str, list[Stretches]] = {}
    for queue, some in held.items():
        begin, most = (np.concatenate([piece[at] for piece in some]) for at in (0, 1))
        until = np.minimum(following[queue][np.searchsorted(starts[queue], begin)], told.last_ns)
        until = np.minimum(until, begin + most)
        lasts = until > begin
        pieces.setdefault(queue[0], []).append(Stretches(begin[lasts], until[lasts]))
    windows = {
        device: united(*(np.concatenate(column) for column in zip(*some, strict=True)))
        for device, some in pieces.items()
    }
    free = _free(part, {device: found for device, found in windows.items() if found.size})
    return copies, max(free.values(), default=0)


def _most(rows: Any, told: _File) -> tuple[Ints, Bools]:
    """Return how long each operation of a row group may have run if it shows no length (ns), and
    whether it computes."""
    kind = words(rows.column("kind"))
    computes = has_word(rows.column("kind"), "kernel") | has_word(rows.column("kind"), "graph_span")
    most: Ints = np.full(len(kind), _ENDLESS, np.int64)
    size = rows.column("bytes")
    known = size.is_valid().to_numpy() & ~computes
    moved = np.minimum(numbers(size), _ENDLESS // (2 * SLOWEST_NS))
    most[known] = np.where(moved > 0, SETTLING_NS + SLOWEST_NS * moved, 0)[known]
    if told.is_coarse:
        most[~computes] = np.minimum(most[~computes], _MICROSECOND)
    return most, computes


def _starts(part: Path) -> Iterator[tuple[Queue, Ints]]:
    for rows in row_groups([part], ("quality", *QUEUE, "start_at_ns")):
        start = numbers(rows.column("start_at_ns"))
        for queue, here in by_queue(rows, _which(rows)[0]):
            yield queue, start[here]


def _free(part: Path, windows: Mapping[str, Stretches]) -> dict[str, int]:
    """Return for each device how much of its windows no operation fills (ns)."""
    free = {device: int((w.end_ns - w.start_ns).sum()) for device, w in windows.items()}
    for table in GpuUnion("", [part]).stretches() if any(free.values()) else ():
        device = words(table.column("device_key"))
        start, end = numbers(table.column("start_at_ns")), numbers(table.column("end_at_ns"))
        for code, name in enumerate(device.dictionary.to_pylist()):
            if name in windows:
                mine = device.indices.to_numpy() == code
                within = _before(windows[name], end[mine]) - _before(windows[name], start[mine])
                free[name] -= int(within.sum())
    return free


def _before(windows: Stretches, at_ns: Ints) -> Ints:
    """Return how much of sorted disjoint windows lies before each instant (ns)."""
    length = windows.end_ns - windows.start_ns
    ended = np.concatenate((np.zeros(1, np.int64), np.cumsum(length)))
    begun = np.searchsorted(windows.start_ns, at_ns, side="right")
    inside = np.minimum(at_ns, windows.end_ns[begun - 1]) - windows.start_ns[begun - 1]
    found: Ints = np.where(begun > 0, ended[begun - 1] + inside, 0)
    return found
