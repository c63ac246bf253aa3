"""Idle time beside launches that lost their operation: there it may have run.

A launch that lost its operation ran after it was called, and near the operations of the launches
just before and after it: those with the next correlation ids, which a process counts up. The idle
time between them, on the device where there is most of it, is what the loss can have hidden. Of
several streams a few launches on each side are looked at, so that one on a stream that was free
does not end the stretch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from trueput.attribution.gpu.profile.marks import numbers, row_groups, set_aside, words
from trueput.attribution.records import Ints

BESIDE: Final = 4
"""So many launches on each side are looked at."""
_PIECE: Final = 16_384
_FAR: Final = np.iinfo(np.int64)
_COLUMNS: Final = (
    "process_key", "device_key", "quality", "correlation_id", "start_at_ns", "end_at_ns",
)  # fmt: skip


@dataclass
class Reach:
    """From when to when something was (ns)."""

    first_ns: int = _FAR.max
    last_ns: int = _FAR.min

    def add(self, at_ns: Ints) -> None:
        """Widen it so that it holds all of these."""
        if not at_ns.size:
            return
        self.first_ns = min(self.first_ns, int(at_ns.min()))
        self.last_ns = max(self.last_ns, int(at_ns.max()))


@dataclass
class Lost:
    """Launches of one process without an operation: correlation ids and starts (ns)."""

    ids: list[Ints] = field(default_factory=list)
    start_ns: list[Ints] = field(default_factory=list)

    def add(self, ids: Ints, start_ns: Ints) -> None:
        """Add some."""
        self.ids.append(ids)
        self.start_ns.append(start_ns)


@dataclass
class _Side:
    """The nearest launches on one side of each lost one: ids, first start and last end."""

    ids: Ints
    start_ns: Ints
    end_ns: Ints

    @classmethod
    def empty(cls, rows: int, no_id: int) -> _Side:
        """Return a side on which nothing was seen yet: an operation of no time at the end."""
        shape = (rows, BESIDE)
        return cls(
            np.full(shape, no_id, np.int64),
            np.full(shape, _FAR.max, np.int64),
            np.full(shape, _FAR.min, np.int64),
        )

    def merge(self, which: Any, more: _Side, *, later: bool) -> None:
        """Keep the nearest of what was seen and of `more`, for some of the lost launches."""
        ids = np.concatenate((self.ids[which], more.ids), axis=1)
        order = np.argsort(ids if later else -ids, axis=1, kind="stable")[:, :BESIDE]
        for name in ("ids", "start_ns", "end_ns"):
            own: Ints = getattr(self, name)
            both = np.concatenate((own[which], getattr(more, name)), axis=1)
            own[which] = np.take_along_axis(both, order, axis=1)


@dataclass
class _Beside:
    """The lost launches of one process, by id, and what ran beside them on one device."""

    ids: Ints
    called_ns: Ints
    before: _Side
    after: _Side

    def see(self, ids: Ints, start_ns: Ints, end_ns: Ints) -> None:
        """Take operations: different launch ids in order, with first start and last end."""
        at = np.searchsorted(ids, self.ids)
        for later, side in ((True, self.after), (False, self.before)):
            places = at[:, None] + (np.arange(BESIDE) if later else -1 - np.arange(BESIDE))
            known = (places >= 0) & (places < ids.size)
            places = np.where(known, places, 0)
            last = side.ids[:, -1]
            nearest = ids[places[:, 0]]
            which = np.flatnonzero(known[:, 0] & ((nearest < last) if later else (nearest > last)))
            if which.size:
                inside = known[which]
                more = _Side(
                    np.where(inside, ids[places[which]], _FAR.max if later else -1),
                    np.where(inside, start_ns[places[which]], _FAR.max),
                    np.where(inside, end_ns[places[which]], _FAR.min),
                )
                side.merge(which, more, later=later)

    def idle_ns(self, until_ns: int) -> int:
        """Return the idle time in which the lost ones may have run, each instant once."""
        found = [
            self._gaps(slice(at, at + _PIECE), until_ns) for at in range(0, self.ids.size, _PIECE)
        ]
        low = np.concatenate([f[0] for f in found])
        high = np.concatenate([f[1] for f in found])
        order = np.argsort(low, kind="stable")
        low, high = low[order], high[order]
        reached = np.maximum.accumulate(high)
        before = np.concatenate((low[:1], reached[:-1]))
        return int(np.maximum(high - np.maximum(low, before), 0).sum())

    def _gaps(self, which: slice, until_ns: int) -> tuple[Ints, Ints]:
        """Return start and end of each idle stretch beside some of the lost ones."""
        called = self.called_ns[which, None]
        before, after = self.before, self.after
        first = before.start_ns[which].min(axis=1, keepdims=True)
        begin = np.maximum(called, np.where(first == _FAR.max, _FAR.min, first))
        known = after.ids[which] != _FAR.max
        last = np.where(known, after.start_ns[which], _FAR.min).max(axis=1, keepdims=True)
        end = np.maximum(np.where(known.any(axis=1, keepdims=True), last, until_ns), begin)
        start = np.concatenate((before.start_ns[which], after.start_ns[which]), axis=1)
        stop = np.concatenate((before.end_ns[which], after.end_ns[which]), axis=1)
        order = np.argsort(start, axis=1, kind="stable")
        start = np.clip(np.take_along_axis(start, order, axis=1), begin, end)
        stop = np.clip(np.take_along_axis(stop, order, axis=1), begin, end)
        reached = np.maximum.accumulate(np.concatenate((begin, stop), axis=1), axis=1)
        until = np.concatenate((start, end), axis=1)
        gap = until > reached
        return reached[gap], until[gap]


def idle_beside(
    operations: Path, processes: Mapping[str | None, int], lost: Mapping[int, Lost], until_ns: int
) -> int:
    """Return the idle time (ns) that the lost launches can have filled, all processes together.

    `processes` gives the numbers by which `lost` knows those of the part; a device is watched
    until `until_ns`.
    """
    found: dict[tuple[int, str], _Beside] = {}
    for rows in row_groups([operations], _COLUMNS):
        process, device = words(rows.column("process_key")), words(rows.column("device_key"))
        ids = numbers(rows.column("correlation_id"))
        start, end = numbers(rows.column("start_at_ns")), numbers(rows.column("end_at_ns"))
        counted = ~set_aside(rows.column("quality")) & (ids > 0)
        for name, number in processes.items():
            for key in device.dictionary.to_pylist():
                mine = np.flatnonzero(counted & _is(process, name) & _is(device, key))
                if not mine.size:
                    continue
                place = number, key
                if place not in found:
                    found[place] = _beside(lost[number])
                found[place].see(*_by_launch(ids[mine], start[mine], end[mine]))
    most: dict[int, int] = {}
    for (number, _), beside in found.items():
        most[number] = max(most.get(number, 0), beside.idle_ns(until_ns))
    return sum(most.values())


def _beside(lost: Lost) -> _Beside:
    ids = np.concatenate(lost.ids)
    order = np.argsort(ids, kind="stable")
    size = ids.size
    return _Beside(
        ids[order],
        np.concatenate(lost.start_ns)[order],
        _Side.empty(size, -1),
        _Side.empty(size, _FAR.max),
    )


def _by_launch(ids: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the different ids in order, with the first start and the last end of each."""
    order = np.argsort(ids, kind="stable")
    ids, start, end = ids[order], start[order], end[order]
    first = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    return ids[first], np.minimum.reduceat(start, first), np.maximum.reduceat(end, first)


def _is(array: Any, word: str | None) -> Any:
    """Return for each row of a dictionary column whether it is the word."""
    texts = array.dictionary.to_pylist()
    if word is None or word not in texts:
        return np.zeros(len(array), np.bool_)
    return array.indices.fill_null(-1).to_numpy(zero_copy_only=False) == texts.index(word)
