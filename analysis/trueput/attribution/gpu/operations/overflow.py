"""Kernels of AMD devices that seem to run on for long into their successors on the same queue.

ROCm is known to report such ends. Overlap on a queue is legal, so that a kernel is cut only where
it ends more than `OVERFLOW_NS` after the next later start on its queue: there it then ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from trueput.attribution.gpu.profile.marks import Bools, has_word, numbers, row_groups
from trueput.attribution.gpu.profile.queues import QUEUE, Queue, by_queue, next_starts
from trueput.attribution.records import Ints
from trueput.rocm_rows import OVERFLOW_NS

MOST_HELD: Final = 100_000
"""More kernels of such a length are no exception, and stay as they are."""

_COLUMNS: Final = (*QUEUE, "kind", "start_at_ns", "end_at_ns")


@dataclass
class Cuts:
    """Where kernels are to end: by queue, the starts that are looked at, and the next start."""

    starts: dict[Queue, Ints]
    following: dict[Queue, Ints]

    def ends_of(self, rows: Any) -> tuple[Ints, Bools]:
        """Return the end of each row, and whether it was cut."""
        for name in ("device_key", "process_key", "kind"):
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, name, rows.column(at).dictionary_encode())
        end = numbers(rows.column("end_at_ns")).copy()
        start = numbers(rows.column("start_at_ns"))
        cut: Bools = np.zeros(end.size, np.bool_)
        for queue, here in _long_by_queue(rows):
            if queue not in self.starts:
                continue
            next_ns = self.following[queue][np.searchsorted(self.starts[queue], start[here])]
            over = end[here] - OVERFLOW_NS > next_ns
            end[here[over]] = next_ns[over]
            cut[here[over]] = True
        return end, cut


def overflows(part: Path) -> Cuts | None:
    """Return where kernels of a part of gpu_ops are to be cut; None where none is long enough."""
    found: dict[Queue, list[Ints]] = {}
    held = 0
    for rows in row_groups([part], _COLUMNS):
        start = numbers(rows.column("start_at_ns"))
        for queue, here in _long_by_queue(rows):
            found.setdefault(queue, []).append(start[here])
            held += here.size
        if held > MOST_HELD:
            return None
    if not found:
        return None
    starts = {queue: np.unique(np.concatenate(pieces)) for queue, pieces in found.items()}
    return Cuts(starts, next_starts(starts, _kernel_starts(part)))


def _kernel_starts(part: Path) -> Iterator[tuple[Queue, Ints]]:
    for rows in row_groups([part], _COLUMNS):
        start = numbers(rows.column("start_at_ns"))
        for queue, here in by_queue(rows, has_word(rows.column("kind"), "kernel")):
            yield queue, start[here]


def _long_by_queue(rows: Any) -> Iterator[tuple[Queue, Ints]]:
    length = numbers(rows.column("end_at_ns")) - numbers(rows.column("start_at_ns"))
    long: Bools = length > OVERFLOW_NS
    if long.any():
        yield from by_queue(rows, long & has_word(rows.column("kind"), "kernel"))
