"""Operations whose times cannot be: found file by file, so that none of them stretches a run.

A damaged field, or a counter that was printed before it was set, gives an operation of centuries or
one that lies decades from all others. Nothing is dropped: such operations are marked, and views
count them nowhere. Two rules, both against the rest of the same file:

**Length.** No profile is a day long, so no operation is. Where others are there to compare with, an
operation may last a minute, or a thousand times as long as all the usual ones together span: a
collective that hangs until its time-out does.

**Place.** The median start is where the capture is, as long as most operations are sound. An
operation may lie a day from it, or a thousand times the median distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from trueput.attribution.gpu.profile.marks import Bools, numbers, row_groups
from trueput.attribution.records import Ints

LONGEST_NS: Final = 86_400 * 10**9
"""A day: longer than a profile."""
USUAL_NS: Final = 60 * 10**9
"""A minute: longer than almost any operation, and than most profiles."""
FACTOR: Final = 1_000
"""Three orders of magnitude beyond the rest."""
MOST_SAMPLED: Final = 1_000_000
"""So many starts are enough for a median."""

_TIMES: Final = ("start_at_ns", "end_at_ns")


@dataclass(frozen=True)
class Bounds:
    """What the operations of one file can be: where they start, and how long they last (ns)."""

    middle_ns: float
    distance_ns: float
    length_ns: float

    def broken_by(self, start_ns: Ints, end_ns: Ints) -> Bools:
        """Return for each operation whether it cannot be."""
        start, end = start_ns.astype(np.float64), end_ns.astype(np.float64)
        found: Bools = np.abs(start - self.middle_ns) > self.distance_ns
        found |= end - start > self.length_ns
        return found

    def is_broken_in(self, part: Path) -> bool:
        """Return whether an operation of a part cannot be."""
        groups = row_groups([part], _TIMES)
        return any(self.broken_by(*(numbers(g.column(c)) for c in _TIMES)).any() for g in groups)


def bounds_of(part: Path) -> Bounds | None:
    """Return the bounds of the operations in a part of gpu_ops; None where all are sound.

    A part whose operations all lie within a minute is told by its statistics alone.
    """
    first_ns, last_ns, rows = span_of(part)
    if first_ns is not None and last_ns is not None and last_ns - first_ns <= USUAL_NS:
        return None
    middle, distance = _middle(part, max(1, rows // MOST_SAMPLED))
    near = max(float(LONGEST_NS), FACTOR * distance)
    low, high = np.inf, -np.inf
    for group in row_groups([part], _TIMES):
        start, end = (numbers(group.column(c)).astype(np.float64) for c in _TIMES)
        usual = (np.abs(start - middle) <= near) & (end - start <= USUAL_NS)
        if usual.any():
            low = min(low, float(start[usual].min()))
            high = max(high, float(end[usual].max()))
    length = float(LONGEST_NS)
    if high > low:
        length = min(length, max(float(USUAL_NS), FACTOR * (high - low)))
    return Bounds(middle, near, length)


def span_of(part: Path) -> tuple[int | None, int | None, int]:
    """Return the first start, the last end and the rows of a part, by its statistics."""
    metadata: Any = pq.read_metadata(part)
    at = [metadata.schema.to_arrow_schema().get_field_index(c) for c in _TIMES]
    ends: list[tuple[int, int]] = []
    for number in range(metadata.num_row_groups):
        told = [metadata.row_group(number).column(i).statistics for i in at]
        if any(t is None or not t.has_min_max for t in told):
            return None, None, metadata.num_rows
        ends.append((int(told[0].min), int(told[1].max)))
    if not ends:
        return None, None, metadata.num_rows
    return min(e[0] for e in ends), max(e[1] for e in ends), metadata.num_rows


def _middle(part: Path, every: int) -> tuple[float, float]:
    """Return the median start and the median distance from it, of every so many rows."""
    taken = [
        numbers(group.column("start_at_ns"))[::every].astype(np.float64)
        for group in row_groups([part], ("start_at_ns",))
    ]
    starts = np.concatenate(taken) if taken else np.zeros(1)
    middle = float(np.median(starts))
    return middle, float(np.median(np.abs(starts - middle)))
