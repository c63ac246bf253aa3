"""The queues of a profile: the streams of its devices, on each of which work runs in turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from trueput.attribution.gpu_marks import Bools, numbers, words
from trueput.attribution.records import Ints

Queue: TypeAlias = tuple[str | None, int]
"""A device and a stream."""
QUEUE: Final = ("device_key", "stream")
"""The columns of gpu_ops that tell it."""
NEVER: Final = np.iinfo(np.int64).max // 2
"""What follows the last start of a queue."""


def by_queue(rows: Any, which: Bools) -> Iterator[tuple[Queue, Ints]]:
    """Yield the chosen rows of each queue, as positions."""
    keys = words(rows.column("device_key"))
    device, stream = keys.indices.to_numpy(), numbers(rows.column("stream"))
    chosen = np.flatnonzero(which)
    pairs = np.stack((device[chosen], stream[chosen]), axis=1)
    for code, number in np.unique(pairs, axis=0).tolist():
        here = chosen[(device[chosen] == code) & (stream[chosen] == number)]
        yield (keys.dictionary[code].as_py(), number), here


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
