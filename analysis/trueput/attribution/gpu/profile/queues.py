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


def by_queue(rows: Any, which: Bools) -> Iterator[tuple[Queue, Ints]]:
    """Yield the chosen rows of each queue, as positions; texts must be dictionaries."""
    devices, processes = words(rows.column("device_key")), words(rows.column("process_key"))
    names = [*processes.dictionary.to_pylist(), None]
    chosen = np.flatnonzero(which)
    place = np.stack((
        devices.indices.to_numpy()[chosen],
        processes.indices.fill_null(len(names) - 1).to_numpy()[chosen],
        numbers(rows.column("stream"))[chosen],
    ), axis=1)  # fmt: skip
    for one in np.unique(place, axis=0):
        here = chosen[(place == one).all(axis=1)]
        device, process, stream = one.tolist()
        yield (devices.dictionary[device].as_py(), names[process], stream), here


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
