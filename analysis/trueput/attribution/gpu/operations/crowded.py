"""Streams whose operations overlap so much that their lengths cannot be.

A stream runs its kernels in turn, and its copies. Some may overlap: one that is let in before its
predecessor ends, branches of a graph that are all told as of the stream it was launched on, packets
without a barrier on a queue of an AMD device. But not eight all the time: then the lengths are in
another unit, or ends are of another clock. In turn, the lengths of all but the last fit between the
first start and the last, as they do in every recorded profile; here they may take `MOST_AT_ONCE`
times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow.parquet as pq

from trueput.attribution.gpu.profile.marks import Bools, has_word, numbers, row_groups, set_aside
from trueput.attribution.gpu.profile.queues import Queue, by_queue
from trueput.attribution.records import Ints

Place: TypeAlias = tuple[Queue, bool]
"""A queue, and whether kernels are meant or copies."""
MOST_AT_ONCE: Final = 8
"""On average, over a stream's whole time."""
FEWEST: Final = 50
"""Fewer may all run at once."""
_GROUPS: Final = 4
_TOLD: Final = ("kind", "quality", "device_key", "process_key")
_COLUMNS: Final = (*_TOLD, "stream", "start_at_ns", "end_at_ns")


@dataclass
class _Queue:
    operations: int = 0
    first_ns: int = np.iinfo(np.int64).max
    last_ns: int = np.iinfo(np.int64).min
    """The last start."""
    total_ns: float = 0.0
    longest_ns: int = 0

    @property
    def at_once(self) -> float:
        """How many ran at once on average, at least."""
        if self.operations < FEWEST:
            return 0.0
        return (self.total_ns - self.longest_ns) / max(1, self.last_ns - self.first_ns)


def crowded_places(part: Path) -> dict[Place, int]:
    """Return where operations of a part of gpu_ops cannot be so long, and how many ran at once
    there; {} where its statistics show no sign of it, which is all that is read then."""
    if not _is_suspect(part):
        return {}
    found: dict[Place, _Queue] = {}
    for rows in row_groups([part], _COLUMNS):
        start, end = numbers(rows.column("start_at_ns")), numbers(rows.column("end_at_ns"))
        for key, here in _by_place(rows):
            queue, length = found.setdefault(key, _Queue()), end[here] - start[here]
            queue.operations += here.size
            queue.first_ns = min(queue.first_ns, int(start[here].min()))
            queue.last_ns = max(queue.last_ns, int(start[here].max()))
            queue.total_ns += float(length.astype(np.float64).sum())
            queue.longest_ns = max(queue.longest_ns, int(length.max()))
    return {key: int(q.at_once) for key, q in found.items() if q.at_once > MOST_AT_ONCE}


def of_places(rows: Any, places: Mapping[Place, int]) -> Bools:
    """Return for each row of gpu_ops whether it ran in one of the places."""
    found: Bools = np.zeros(rows.num_rows, np.bool_)
    for name in _TOLD:
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, name, rows.column(at).dictionary_encode())
    for key, here in _by_place(rows):
        found[here] = key in places
    return found


def _by_place(rows: Any) -> Iterator[tuple[Place, Ints]]:
    """Yield the rows that count of each place, as positions; streams that are not told are none."""
    known: Bools = rows.column("stream").is_valid().to_numpy()
    doubt = rows.column("quality")
    if doubt.null_count < len(doubt):
        known = known & ~set_aside(doubt)
    kernel, span = (has_word(rows.column("kind"), word) for word in ("kernel", "graph_span"))
    for is_kernel, mine in ((True, kernel), (False, ~(kernel | span))):
        for queue, here in by_queue(rows, known & mine):
            yield (queue, is_kernel), here


def _is_suspect(part: Path) -> bool:
    """Say whether many operations run at the end of a fair share of the row groups."""
    metadata: Any = pq.read_metadata(part)
    schema = metadata.schema.to_arrow_schema()
    at = [schema.get_field_index(name) for name in ("start_at_ns", "end_at_ns", "device")]
    suspect = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        start, end, device = (group.column(i).statistics for i in at)
        if start is None or end is None or not (start.has_min_max and end.has_min_max):
            return True
        spacing = (start.max - start.min) / max(1, group.num_rows - 1)
        devices = device.max - device.min + 1 if device is not None and device.has_min_max else 1
        suspect += end.max - start.max > MOST_AT_ONCE * devices * spacing
    return bool(suspect * _GROUPS >= metadata.num_row_groups > 0)
