"""Idle time beside and inside replays of a graph that lack operations: there they may have run.

The nodes of a replay run one after the other, behind what was launched before it and before what
was launched after it. What it lacks ran between the operation before its first and the one behind
its last: on its device, the idle time there is what the loss can have hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from trueput.attribution.gpu.profile.idle_within import idle_within
from trueput.attribution.gpu.profile.marks import Bools, numbers, row_groups, set_aside, words
from trueput.attribution.records import Ints

_FAR: Final = np.iinfo(np.int64)
_COLUMNS: Final = (
    "process_key", "device_key", "quality", "correlation_id", "start_at_ns", "end_at_ns",
)  # fmt: skip


@dataclass
class _Near:
    """Replays of one process on one device: when they ran, and what ran next to them (ns)."""

    first_ns: Ints
    last_ns: Ints
    before_ns: Ints
    after_ns: Ints

    @classmethod
    def of(cls, size: int) -> _Near:
        return cls(*(np.full(size, far, np.int64) for far in (_FAR.max, _FAR.min) * 2))

    @property
    def ran(self) -> Bools:
        """Whether each replay ran something here."""
        found: Bools = self.first_ns <= self.last_ns
        return found

    def stretches(self) -> tuple[Ints, Ints]:
        """Return from when to when each replay can have run."""
        low = np.where(self.after_ns == _FAR.min, self.first_ns, self.after_ns)
        high = np.where(self.before_ns == _FAR.max, self.last_ns, self.before_ns)
        low, high = np.minimum(low, self.first_ns), np.maximum(high, self.last_ns)
        return low[self.ran], high[self.ran]


def idle_beside_replays(operations: Path, partial: Mapping[str | None, Ints]) -> int:
    """Return the idle time (ns) that replays can have filled, on the device with most of it.

    `partial` holds the launches of replays that lack operations: sorted ids by process.
    """
    found: dict[tuple[str | None, str], _Near] = {}
    for process, key, ids, start, end in _rows(operations, partial):
        near = found.setdefault((process, key), _Near.of(partial[process].size))
        at = np.minimum(np.searchsorted(partial[process], ids), partial[process].size - 1)
        own = partial[process][at] == ids
        np.minimum.at(near.first_ns, at[own], start[own])
        np.maximum.at(near.last_ns, at[own], end[own])
    for process, key, _, start, end in _rows(operations, partial):
        if (one := found.get((process, key))) is not None:
            _look_beside(one, start, end)
    most: dict[str, int] = {}
    for (process, key), near in found.items():
        if near.ran.any():
            idle = idle_within(operations, process, *near.stretches(), device=key)
            most[key] = most.get(key, 0) + idle
    return max(most.values(), default=0)


def _look_beside(near: _Near, start: Ints, end: Ints) -> None:
    """Find the latest end before each replay (`after_ns`), and the first start behind it."""
    order = np.argsort(start, kind="stable")
    start, reached = start[order], np.maximum.accumulate(end[order])
    ran = np.flatnonzero(near.ran)
    at = np.searchsorted(start, near.first_ns[ran], "left")
    which = ran[at > 0]
    near.after_ns[which] = np.maximum(near.after_ns[which], reached[at[at > 0] - 1])
    at = np.searchsorted(start, near.last_ns[ran], "left")
    which = ran[at < start.size]
    near.before_ns[which] = np.minimum(near.before_ns[which], start[at[at < start.size]])


def _rows(operations: Path, partial: Mapping[str | None, Ints]) -> Any:
    """Yield the operations by process and device: launch ids, starts and ends."""
    for rows in row_groups([operations], _COLUMNS):
        process, device = words(rows.column("process_key")), words(rows.column("device_key"))
        start, end = numbers(rows.column("start_at_ns")), numbers(rows.column("end_at_ns"))
        ids, counted = numbers(rows.column("correlation_id")), ~set_aside(rows.column("quality"))
        names = [*process.dictionary.to_pylist(), None]
        owner = process.indices.fill_null(len(names) - 1).to_numpy(zero_copy_only=False)
        place = device.indices.to_numpy(zero_copy_only=False)
        for name in partial.keys() & set(names):
            for key in device.dictionary.to_pylist():
                mine = counted & (owner == names.index(name))
                mine &= place == device.dictionary.to_pylist().index(key)
                if mine.any():
                    yield name, key, ids[mine], start[mine], end[mine]
