"""Operations that were launched, and began long after although nothing is shown to run meanwhile.

A device that has nothing to do begins what it is given within microseconds (at most 0.14 ms in
recorded traces that are whole). Where an operation begins a gap's length after its launch returned,
and no device of its process was busy, something ran that the file does not show: the gap is not
known to be idle. Host functions that were put between operations explain a wait as well: of a
file that shows their launches nothing is said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from trueput.attribution.gpu.losses.lost_steps import LostSteps
from trueput.attribution.gpu.profile.marks import numbers, row_groups, set_aside, words
from trueput.attribution.gpu.profile.stretches import Stretches, united
from trueput.attribution.gpu.time.axis import source_of
from trueput.attribution.records import Ints

WAIT_NS: Final = 1_000_000
"""Longer than a launch takes to begin on an idle device."""
MOST_GAPS: Final = 1_000_000
"""Of more gaps than these, on a device, nothing is said of those that come later."""
_FAR: Final = np.iinfo(np.int64)
_OPERATION: Final = ("process_key", "quality", "correlation_id", "start_at_ns")
_LAUNCH: Final = ("process_key", "api", "correlation_id", "start_at_ns", "end_at_ns")


@dataclass
class _Device:
    """The gaps of a device that are long enough, from its first operation on."""

    first_ns: int = _FAR.max
    reached_ns: int = _FAR.min
    gaps: list[Stretches] = field(default_factory=list)
    count: int = 0

    def add(self, start_ns: Ints, end_ns: Ints) -> None:
        """Take the next busy stretches, in order and apart."""
        if not start_ns.size or self.count > MOST_GAPS:
            return
        self.first_ns = min(self.first_ns, int(start_ns[0]))
        reached = np.concatenate(([max(self.reached_ns, _FAR.min + WAIT_NS)], end_ns[:-1]))
        if self.reached_ns == _FAR.min:
            reached[0] = start_ns[0]
        long = start_ns - reached > WAIT_NS
        self.gaps.append(Stretches(reached[long], start_ns[long]))
        self.count += int(long.sum())
        self.reached_ns = int(end_ns[-1])

    def busy(self) -> Stretches:
        """Return the stretches between the gaps."""
        low = np.concatenate([np.zeros(0, np.int64), *(g.start_ns for g in self.gaps)])
        high = np.concatenate([np.zeros(0, np.int64), *(g.end_ns for g in self.gaps)])
        return Stretches(np.append(self.first_ns, high), np.append(low, self.reached_ns))


def waited(
    busy: Path, operations: Sequence[Path], launches: Sequence[Path], aside: Collection[str]
) -> list[LostSteps]:
    """Return the waits of each file; files of `aside` are not looked at.

    `busy` holds the stretches of the devices (gpu_busy); all parts are on one clock.
    """
    devices = _devices(busy)
    calls = {source_of(part): part for part in launches}
    found: list[LostSteps] = []
    for part in operations:
        source = source_of(part)
        if source is None or source in aside or (called := calls.get(source)) is None:
            continue
        count = idle = ends = 0
        span = _FAR.max, _FAR.min
        for process, keys in _processes(part).items():
            mine = [devices[key] for key in keys if key in devices]
            if not mine:
                continue
            span = (
                min(span[0], *(d.first_ns for d in mine)),
                max(span[1], *(d.reached_ns for d in mine)),
            )
            gaps = _gaps(mine)
            ends += gaps.size
            waits = _waits(part, called, process, gaps) if gaps.size else np.zeros(0, np.int64)
            count += waits.size
            idle = max(idle, int(waits.sum()))
        if count:
            what = "gaps of over 1 ms end with an operation launched before them, which waited"
            found.append(
                LostSteps(source, count, ends, what, idle, span[1] - span[0], by_time=True)
            )
    return found


def _devices(busy: Path) -> Mapping[str, _Device]:
    found: dict[str, _Device] = {}
    for rows in row_groups([busy], ("device_key", "start_at_ns", "end_at_ns")):
        start, end = numbers(rows.column("start_at_ns")), numbers(rows.column("end_at_ns"))
        column = words(rows.column("device_key"))
        codes = column.indices.to_numpy(zero_copy_only=False)
        for code, name in enumerate(column.dictionary.to_pylist()):
            mine = slice(None) if len(column.dictionary) == 1 else codes == code
            found.setdefault(name, _Device()).add(start[mine], end[mine])
    return found


def _processes(part: Path) -> Mapping[str | None, set[str]]:
    """Return the devices that each process of a file used."""
    found: dict[str | None, set[str]] = {}
    for rows in row_groups([part], ("process_key", "device_key")):
        process, device = words(rows.column("process_key")), words(rows.column("device_key"))
        names, keys = process.dictionary.to_pylist(), device.dictionary.to_pylist()
        pairs = _codes(process) * len(keys) + _codes(device)
        for pair in np.flatnonzero(np.bincount(pairs)).tolist():
            at, key = divmod(pair, len(keys))
            found.setdefault([*names, None][at], set()).add(keys[key])
    return found


def _codes(column: Any) -> Ints:
    filled = column.indices.fill_null(len(column.dictionary))
    found: Ints = filled.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _gaps(devices: Sequence[_Device]) -> Stretches:
    """Return the stretches in which no device of a process was busy."""
    pieces = [device.busy() for device in devices]
    whole = united(
        np.concatenate([p.start_ns for p in pieces]), np.concatenate([p.end_ns for p in pieces])
    )
    low, high = whole.end_ns[:-1], whole.start_ns[1:]
    long = high - low > WAIT_NS
    return Stretches(low[long], high[long])


def _waits(operations: Path, launches: Path, process: str | None, gaps: Stretches) -> Ints:
    """Return how long in each gap the operation that ends it waited for nothing, where it did."""
    pieces = list(_ending(operations, process, gaps.end_ns))
    ids = np.concatenate([np.zeros(0, np.int64), *(p[0] for p in pieces)])
    gap = np.concatenate([np.zeros(0, np.int64), *(p[1] for p in pieces)])
    order = np.argsort(ids, kind="stable")
    ids, gap = ids[order], gap[order]
    called: Ints = np.full(ids.size, _FAR.max, np.int64)
    for rows in row_groups([launches], _LAUNCH):
        names = words(rows.column("process_key"))
        mine = np.array([n == process for n in [*names.dictionary.to_pylist(), None]])[
            _codes(names)
        ]
        apis = words(rows.column("api"))
        if any("HostFunc" in (api or "") for api in apis.dictionary.to_pylist()):
            return np.zeros(0, np.int64)
        own = numbers(rows.column("correlation_id"))
        at = np.flatnonzero(mine & np.isin(own, ids))
        ended = np.maximum(numbers(rows.column("end_at_ns")), numbers(rows.column("start_at_ns")))
        first, last = np.searchsorted(ids, own[at], "left"), np.searchsorted(ids, own[at], "right")
        for row, low, high in zip(at.tolist(), first.tolist(), last.tolist(), strict=True):
            known = called[low:high] != _FAR.max
            latest = np.maximum(called[low:high], ended[row])
            called[low:high] = np.where(known, latest, ended[row])
    wait: Ints = np.zeros(gaps.size, np.int64)
    known = called != _FAR.max
    gap, called = gap[known], called[known]
    np.maximum.at(wait, gap, gaps.end_ns[gap] - np.maximum(gaps.start_ns[gap], called))
    return wait[wait > WAIT_NS]


def _ending(operations: Path, process: str | None, ends: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield launch ids of operations that begin where a gap ends, with the gap's number."""
    for rows in row_groups([operations], _OPERATION):
        start, ids = numbers(rows.column("start_at_ns")), numbers(rows.column("correlation_id"))
        at = np.minimum(np.searchsorted(ends, start), ends.size - 1)
        found = np.flatnonzero((ends[at] == start) & (ids > 0))
        if not found.size:
            continue
        names = words(rows.column("process_key"))
        mine = np.array([n == process for n in [*names.dictionary.to_pylist(), None]])
        found = found[mine[_codes(names)[found]] & ~set_aside(rows.column("quality"))[found]]
        yield ids[found], at[found]
