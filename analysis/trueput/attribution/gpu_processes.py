"""Which process ran on which device, in a trace that was merged of several processes.

Its operations tell no process, and correlation ids count from 1 in each. A device belongs to the
process that launched most of what ran on it; of processes with the same ids, as ranks that do the
same work have them, each takes a device of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from trueput.attribution.gpu_marks import numbers, row_groups, words
from trueput.nsys_rows.keys import KeySet


def process_of_device(operations: Path, launches: Path) -> Mapping[str, str]:
    """Return the process of each device key; empty where launches are of one process, or the
    operations tell theirs."""
    number: dict[str, int] = {}
    for rows in row_groups([launches], ("process_key",)):
        for name in words(rows.column("process_key")).dictionary.to_pylist():
            number.setdefault(name, len(number))
    if len(number) < 2:
        return {}
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
    if len(told) > 1:
        return {}
    best = {d: [n for n in number if c[n] == max(c.values())] for d, c in sorted(hits.items())}
    found: dict[str, str] = {}
    for device, names in sorted(best.items(), key=lambda item: len(item[1])):
        free = [name for name in names if name not in found.values()]
        found[device] = (free or names)[0]
    return found
