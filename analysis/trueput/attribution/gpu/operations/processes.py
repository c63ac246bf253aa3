"""Which process ran each operation of a trace that was merged of several processes.

Such operations tell no process, and correlation ids count from 1 in each. An id that one process
alone launched tells it. Else the device does: it belongs to the process that launched most of what
ran on it, and of processes with the same ids, as ranks that do the same work have them, each takes
a device of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from trueput.attribution.gpu.profile.marks import numbers, row_groups, words
from trueput.nsys_rows.keys import KeySet


@dataclass(frozen=True)
class Launchers:
    """The processes that launch, by number, and what they launched."""

    number: Mapping[str, int]
    called: KeySet
    of_device: Mapping[str, str]

    def names(self, rows: pa.Table) -> list[str]:
        """Return the process of each operation (device_key, correlation_id)."""
        ids = numbers(rows.column("correlation_id"))
        callers, only = np.zeros(ids.size, np.int64), np.zeros(ids.size, np.int64)
        for at in self.number.values():
            holds = self.called.holds(at, ids)
            callers += holds
            only[holds] = at
        order = list(self.number)
        devices = rows.column("device_key").to_pylist()
        return [
            order[at] if count == 1 else self.of_device[str(device)]
            for device, count, at in zip(devices, callers.tolist(), only.tolist(), strict=True)
        ]


def launchers(operations: Path, launches: Path) -> Launchers | None:
    """Return who launched what; None where launches are of one process, or the operations tell
    theirs."""
    number: dict[str, int] = {}
    for rows in row_groups([launches], ("process_key",)):
        for name in words(rows.column("process_key")).dictionary.to_pylist():
            number.setdefault(name, len(number))
    if len(number) < 2:
        return None
    called = KeySet()
    for rows in row_groups([launches], ("process_key", "correlation_id")):
        column, ids = words(rows.column("process_key")), numbers(rows.column("correlation_id"))
        codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        for code, name in enumerate(column.dictionary.to_pylist()):
            called.add(number[name], ids[codes == code])
    told: set[str | None] = set()
    hits: dict[str, Counter[str]] = {}
    for rows in row_groups([operations], ("process_key", "device_key", "correlation_id")):
        told.update(words(rows.column("process_key")).dictionary.to_pylist())
        column, ids = words(rows.column("device_key")), numbers(rows.column("correlation_id"))
        codes = column.indices.to_numpy(zero_copy_only=False)
        for code, device in enumerate(column.dictionary.to_pylist()):
            mine = ids[codes == code]
            for name, at in number.items():
                hits.setdefault(device, Counter())[name] += int(np.sum(called.holds(at, mine)))
    return None if len(told) > 1 else Launchers(number, called, _of_devices(hits, list(number)))


def _of_devices(hits: Mapping[str, Counter[str]], names: Sequence[str]) -> dict[str, str]:
    """Return the process of each device by how much of what ran on it each launched."""
    best = {d: [n for n in names if c[n] == max(c.values())] for d, c in sorted(hits.items())}
    found: dict[str, str] = {}
    for device, most in sorted(best.items(), key=lambda item: len(item[1])):
        free = [name for name in most if name not in found.values()]
        found[device] = (free or most)[0]
    return found
