"""How long the devices of a process were idle inside some stretches of time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trueput.attribution.gpu.profile.marks import Bools, numbers, row_groups, set_aside, words
from trueput.attribution.gpu.profile.stretches import united
from trueput.attribution.records import Ints

_COLUMNS = ("process_key", "device_key", "quality", "start_at_ns", "end_at_ns")


def idle_within(
    operations: Path,
    process: str | None,
    low_ns: Ints,
    high_ns: Ints,
    device: str | None = None,
) -> int:
    """Return the idle time (ns) of a process inside stretches, on its device with most of it.

    An operation that tells no process is of every one. With `device`, on that one.
    """
    low, high = united(low_ns, high_ns)
    whole = int((high - low).sum())
    found: dict[str, list[tuple[Ints, Ints]]] = {}
    for rows in row_groups([operations], _COLUMNS):
        start, end = numbers(rows.column("start_at_ns")), numbers(rows.column("end_at_ns"))
        first, last = np.searchsorted(high, start, "right"), np.searchsorted(low, end, "left")
        column = words(rows.column("device_key"))
        codes = column.indices.to_numpy(zero_copy_only=False)
        mine = of_process(rows, process) & ~set_aside(rows.column("quality"))
        for code in np.unique(codes[mine]).tolist():
            if device is not None and column.dictionary[code].as_py() != device:
                continue
            which = mine & (codes == code) & (last > first)
            pieces = found.setdefault(column.dictionary[code].as_py(), [])
            if which.any():
                count = (last - first)[which]
                more = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
                at = np.repeat(first[which], count) + more
                pieces.append((
                    np.maximum(np.repeat(start[which], count), low[at]),
                    np.minimum(np.repeat(end[which], count), high[at]),
                ))  # fmt: skip
    most = 0
    for pieces in found.values():
        begun, ended = united(*_joined(pieces))
        most = max(most, whole - int((ended - begun).sum()))
    return most


def of_process(rows: object, process: str | None) -> Bools:
    """Return for each row of a row group whether it is of a process, or tells none."""
    column = words(rows.column("process_key"))  # type: ignore[attr-defined]
    names = [name is None or process is None or name == process
             for name in [*column.dictionary.to_pylist(), None]]  # fmt: skip
    indices = column.indices.fill_null(len(names) - 1) if column.null_count else column.indices
    found: Bools = np.array(names)[indices.to_numpy(zero_copy_only=False)]
    return found


def _joined(pieces: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    none: Ints = np.zeros(0, np.int64)
    return (
        np.concatenate([none, *(p[0] for p in pieces)]),
        np.concatenate([none, *(p[1] for p in pieces)]),
    )
