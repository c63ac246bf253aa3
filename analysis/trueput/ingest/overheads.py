"""Work of a profiler itself -> the devices that it held up, and how long each ran nothing.

A profiler that flushes its buffers or instruments a program keeps the host from launching. What a
device did not run then says little of the engine: such idle time is told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trueput.arrow import conform
from trueput.attribution.gpu.profile.idle_within import of_process
from trueput.attribution.gpu.profile.marks import has_word, numbers, row_groups
from trueput.attribution.gpu.profile.stretches import Stretches, united
from trueput.attribution.records import Ints
from trueput.ingest.read import FileResult, parquet_writer

TABLE = "gpu_overheads"


def place_overheads(
    result: FileResult, run_id: str, totals: Sequence[Path], busy: Sequence[Path]
) -> int:
    """Give the stretches of one file the devices of their process; return how many rows are left.

    `totals` and `busy` are parts of gpu_op_totals and gpu_busy, on the clock of the stretches.
    """
    part = result.parts[TABLE]
    told = list(row_groups([part], ("process_key", "start_at_ns", "end_at_ns")))
    pieces: list[pa.Table] = []
    for device, process in _devices(result.source_id, totals):
        mine = [of_process(rows, process) for rows in told]
        start, end = (
            np.concatenate([numbers(rows.column(n))[m] for rows, m in zip(told, mine, strict=True)])
            for n in ("start_at_ns", "end_at_ns")
        )
        found = united(start, end)
        if found.size:
            idle = found.end_ns - found.start_ns - busy_within(busy, device, found)
            pieces.append(_rows(process, device, found, idle if busy else None))
    if not pieces:
        return sum(len(rows) for rows in told)
    names = {"run_id": run_id, "source_id": result.source_id}
    rows = conform(TABLE, pa.concat_tables(pieces), names)
    scratch = part.with_suffix(".new")
    with parquet_writer(TABLE, scratch) as writer:
        writer.write_table(rows)
    scratch.replace(part)
    return len(rows)


def _devices(source: str, totals: Sequence[Path]) -> list[tuple[str, str | None]]:
    """Return the devices that a file saw operations of, with their process."""
    return [
        (row["device_key"], row["process_key"])
        for part in totals
        for row in pq.read_table(
            part, columns=["source_id", "device_key", "process_key"]
        ).to_pylist()
        if row["source_id"] == source
    ]


def busy_within(busy: Sequence[Path], device: str, stretches: Stretches) -> Ints:
    """Return for how long (ns) a device was busy inside each stretch.

    A device's rows in `busy` are disjoint; how long they are up to an instant is looked up at both
    ends of each stretch.
    """
    found: Ints = np.zeros(stretches.size, np.int64)
    for rows in row_groups(busy, ("device_key", "start_at_ns", "end_at_ns")):
        mine = has_word(rows.column("device_key"), device)
        start, end = (numbers(rows.column(n))[mine] for n in ("start_at_ns", "end_at_ns"))
        if start.size:
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
            found += _busy_until(start, end, stretches.end_ns)
            found -= _busy_until(start, end, stretches.start_ns)
    return found


def _busy_until(start: Ints, end: Ints, at: Ints) -> Ints:
    """Return how much of disjoint stretches lies before each instant."""
    whole = np.concatenate(([0], np.cumsum(end - start)))
    begun = np.searchsorted(start, at, "right")
    last = np.maximum(begun - 1, 0)
    over: Ints = np.where(begun > 0, np.maximum(end[last] - at, 0), 0)
    found: Ints = whole[begun] - over
    return found


def _rows(process: str | None, device: str, found: Stretches, idle: Ints | None) -> pa.Table:
    count = found.size
    return pa.table(
        {
            "process_key": pa.repeat(pa.scalar(process, pa.string()), count),
            "device_key": pa.repeat(pa.scalar(device, pa.string()), count),
            "start_at_ns": pa.array(found.start_ns, pa.int64()),
            "end_at_ns": pa.array(found.end_ns, pa.int64()),
            "idle_ns": pa.nulls(count, pa.int64()) if idle is None else pa.array(idle, pa.int64()),
        }
    )
