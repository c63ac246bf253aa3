"""Profiles that hold nearly the same operations as others: counted once, or told.

A merged trace beside those of its ranks, a copy from which a few kernels are gone, a recording that
was stopped and saved again: not equal, so `copies` leaves them. Two GPUs never run the same
kernels at the same nanoseconds for as long, so devices that do are one device. A sample of each
device's operations is compared: those whose start, scattered by a multiplication, falls lowest, so
that the samples of two copies hold the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from trueput.attribution.records import Ints

SAMPLE: Final = 4_096
"""About so many operations of a device are compared."""
FEWEST: Final = 20
"""Fewer agree by chance, where a format has whole microseconds."""
NEARLY_ALL: Final = 0.99
"""A device with so much in another file has nothing of its own."""
MANY: Final = 0.1
"""So much in common is told."""
_SCATTER: Final = np.uint64(0x9E3779B97F4A7C15)
_ALL: Final = np.uint64(2**64 - 1)


@dataclass
class Sample:
    """Some operations of a device: all whose start is scattered up to `limit`."""

    limit: np.uint64 = _ALL
    rows: Any = field(default_factory=lambda: np.zeros((3, 0), np.uint64))
    """Scattered start, length, and a number for ordinal, stream and call."""

    def add(self, start_ns: Ints, length_ns: Ints, call: Ints) -> None:
        """Look at operations, on the clock that files share."""
        scattered = start_ns.astype(np.uint64) * _SCATTER
        low = scattered <= self.limit
        more = [scattered[low], length_ns[low].astype(np.uint64), call[low].astype(np.uint64)]
        self.rows = np.concatenate((self.rows, np.stack(more)), axis=1)
        if self.rows.shape[1] > 2 * SAMPLE:
            self.limit = np.partition(self.rows[0], SAMPLE)[SAMPLE]
            self.rows = self.rows[:, self.rows[0] <= self.limit]

    def told(self, limit: np.uint64, *, with_calls: bool) -> Any:
        """Return a number for each operation up to a limit."""
        start, length, call = self.rows[:, self.rows[0] <= limit]
        return start ^ (length * _SCATTER) ^ (call if with_calls else np.uint64(0))


def share_in(mine: Sample, theirs: Sample, *, with_calls: bool) -> float:
    """Return how much of one device's operations another holds; 0 where too few tell."""
    limit = min(mine.limit, theirs.limit)
    some = mine.told(limit, with_calls=with_calls)
    if some.size < FEWEST:
        return 0.0
    return float(np.isin(some, theirs.told(limit, with_calls=with_calls)).mean())


@dataclass(frozen=True)
class Sampled:
    """A file with a sample of each of its devices."""

    source: str
    format: str
    samples: dict[str, Sample]


@dataclass(frozen=True)
class Alike:
    """A file whose operations stand in others, too."""

    source: str
    others: tuple[str, ...]
    share: float
    """How much of its operations."""
    is_copy: bool
    """Whether no device of it has anything of its own."""


def alike(files: Sequence[Sampled]) -> list[Alike]:
    """Return the files that nearly stand in others, or have much in common with them.

    The files come in order of preference: the last is asked first, and one that has nothing of its
    own vouches for no other. Files of one format must agree in ordinals and calls, too: the ranks
    of a load that is simulated in step look alike but for these.
    """
    found: list[Alike] = []
    left = list(files)
    for this in reversed(files):
        near: list[tuple[float, str]] = []
        for device, mine in this.samples.items():
            shares = [
                (share_in(mine, theirs, with_calls=this.format == other.format),
                 name == device, other.source)
                for other in left
                if other is not this
                for name, theirs in other.samples.items()
            ]  # fmt: skip
            share, is_named, source = max(shares, default=(0.0, True, ""))
            # of one device under one name, the union counts each operation once
            near.append((0.0, "") if is_named else (share, source))
        others = tuple(sorted({source for share, source in near if share >= MANY}))
        if not others:
            continue
        is_copy = all(share >= NEARLY_ALL for share, _ in near)
        sizes = [float(sample.rows.shape[1]) for sample in this.samples.values()]
        share = float(np.average([share for share, _ in near], weights=sizes))
        found.append(Alike(this.source, others, share, is_copy))
        if is_copy:
            left.remove(this)
    return found
