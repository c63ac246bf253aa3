"""The queues of a profile: the streams of its devices, on each of which work runs in turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from trueput.attribution.gpu.profile.marks import Bools, numbers, words
from trueput.attribution.records import Ints

Queue: TypeAlias = tuple[str, str | None, int]
"""A device, a process and one of its streams."""
QUEUE: Final = ("device_key", "process_key", "stream")
"""The columns of gpu_ops that tell it."""
NEVER: Final = np.iinfo(np.int64).max // 2
"""What follows the last start of a queue."""
_FEW: Final = 1 << 16


def by_queue(rows: Any, which: Bools) -> Iterator[tuple[Queue, Ints]]:
    """Yield the chosen rows of each queue, as positions; texts must be dictionaries."""
    devices, processes = words(rows.column("device_key")), words(rows.column("process_key"))
    names = [*processes.dictionary.to_pylist(), None]
    chosen = np.flatnonzero(which)
    if not chosen.size:
        return
    device = devices.indices.to_numpy()[chosen].astype(np.int64)
    process = processes.indices.fill_null(len(names) - 1).to_numpy()[chosen]
    streams, stream = _ranked(numbers(rows.column("stream"))[chosen])
    queue = (device * len(names) + process) * streams.size + stream
    order = np.argsort(_narrow(queue), kind="stable")
    edges = np.flatnonzero(np.diff(queue[order])) + 1
    for mine in np.split(order, edges):
        at = mine[0]
        key = (devices.dictionary[int(device[at])].as_py(), names[int(process[at])])
        yield (*key, int(streams[stream[at]])), chosen[mine]


def _ranked(values: Ints) -> tuple[Ints, Ints]:
    """The distinct values in order, and the place of each value among them."""
    least, most = int(values.min()), int(values.max())
    if most - least < _FEW:
        there = np.bincount(values - least) > 0
        return np.flatnonzero(there) + least, (np.cumsum(there) - 1)[values - least]
    found = np.unique(values, return_inverse=True)
    return found[0], found[1]


def _narrow(values: Ints) -> Ints:
    """The same numbers, in 16 bits where they fit: those are sorted by their digits."""
    return values.astype(np.uint16) if int(values.max()) < _FEW else values


def next_starts(
    starts: Mapping[Queue, Ints], later: Iterable[tuple[Queue, Ints]]
) -> dict[Queue, Ints]:
    """Return for each of `starts` (ns, in order) the first of its queue in `later` behind it.

    `later` may tell starts in any order; NEVER stands where none lies behind.
    """
    found = {q: np.full(s.size, NEVER, np.int64) for q, s in starts.items()}
    for queue, told in later:
        if queue not in starts:
            continue
        ordered = np.unique(told)
        at = np.searchsorted(ordered, starts[queue], side="right")
        some = at < ordered.size
        following = found[queue]
        following[some] = np.minimum(following[some], ordered[at[some]])
    return found
