"""Kernels that seem to end after the next operation of their stream has begun: their ends are lost.

A stream runs in turn, so that what ends long after its successor began was given a wrong end. Only
what is long (`Long`) is looked at. What one launch started is no successor: the branches of a graph
are told as of one stream, and run at once. And a stream whose other operations overlap, too
(kernels that are let in before their predecessor ends, queues without barriers), tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from trueput.attribution.gpu.operations.early import Long
from trueput.attribution.gpu.profile.marks import Bools, has_word, numbers, row_groups, set_aside
from trueput.attribution.gpu.profile.queues import QUEUE, Queue, by_queue
from trueput.attribution.records import Ints

LATE_NS: Final = 1_000_000
"""So far into its successor no kernel runs on a stream that runs in turn; clocks are finer."""
MOST_LOOKED_AT: Final = 10_000
"""More long operations are no exception."""
FEWEST: Final = 10
"""Of fewer others it is not known whether a stream runs in turn."""
MOST_OVERLAPPING: Final = 0.01
"""Of the others, on a stream that runs in turn ..."""
GRAIN_NS: Final = 2_000
"""... by more than the coarsest clock of a profiler, twice."""
_COLUMNS: Final = ("kind", "quality", *QUEUE, "correlation_id", "start_at_ns", "end_at_ns")


@dataclass
class Late:
    """The kernels of a part whose ends are lost; arrays with an entry for each."""

    group: Ints
    row: Ints
    by_ns: int
    """How long after its successor the latest ends."""

    def of_group(self, number: int, rows: int) -> Bools:
        """Return for each row of a row group whether it is one of them."""
        found: Bools = np.zeros(rows, np.bool_)
        found[self.row[self.group == number]] = True
        return found


def late_ends(part: Path, long: Long) -> Late | None:
    """Return the long kernels of a part of gpu_ops that end after their successor began; None
    without any. Only row groups are read in which one of the long runs."""
    if not 0 < long.count <= MOST_LOOKED_AT:
        return None
    held: dict[Queue, list[Ints]] = {}
    for group, which, rows in _long_kernels(part, long):
        start, end = numbers(rows.column("start_at_ns")), numbers(rows.column("end_at_ns"))
        at = np.full(which.size, group, np.int64)
        told = np.stack((start, end, numbers(rows.column("correlation_id")), at, which))
        for queue, here in by_queue(rows, _runs(rows) & has_word(rows.column("kind"), "kernel")):
            held.setdefault(queue, []).append(told[:, here])
    candidates = {queue: np.concatenate(pieces, axis=1) for queue, pieces in held.items()}
    others = _others(part, candidates, long.least_ns) if candidates else {}
    found = []
    for queue, mine in candidates.items():
        there = others.get(queue)
        if there is not None and there.shape[1] >= FEWEST and _in_turn(there):
            late = mine[1] - _successors(mine, np.concatenate((there, mine[:3]), axis=1))
            found.append(np.concatenate((mine[3:], late[None]))[:, late > LATE_NS])
    if not found or not sum(f.shape[1] for f in found):
        return None
    group_of, row, by = np.concatenate(found, axis=1)
    return Late(group_of, row, int(by.max()))


def _long_kernels(part: Path, long: Long) -> Iterator[tuple[int, Ints, Any]]:
    texts = ["kind", "quality", "device_key", "process_key"]
    with pq.ParquetFile(part, read_dictionary=texts, pre_buffer=False) as file:
        for group, which in long.rows.items():
            rows = file.read_row_group(group, list(_COLUMNS), use_threads=False)
            yield group, which, rows.take(which).combine_chunks()


def _runs(rows: Any) -> Bools:
    """Return which rows count, and say their stream."""
    known: Bools = rows.column("stream").is_valid().to_numpy()
    found: Bools = known & ~set_aside(rows.column("quality"))
    return found & ~has_word(rows.column("kind"), "graph_span")


def _others(part: Path, candidates: dict[Queue, Ints], least_ns: int) -> dict[Queue, Ints]:
    """Return start, end and correlation of the shorter operations near the candidates, by queue."""
    ranges = [(int(s), int(e)) for mine in candidates.values() for s, e in mine[:2].T]
    found: dict[Queue, list[Ints]] = {}
    for rows in row_groups([part], _COLUMNS, {"start_at_ns": ranges}):
        start, end = numbers(rows.column("start_at_ns")), numbers(rows.column("end_at_ns"))
        told = np.stack((start, end, numbers(rows.column("correlation_id"))))
        for queue, here in by_queue(rows, _runs(rows) & (end - start <= least_ns)):
            if queue in candidates:
                found.setdefault(queue, []).append(told[:, here])
    return {queue: np.concatenate(pieces, axis=1) for queue, pieces in found.items()}


def _in_turn(operations: Ints) -> bool:
    """Return whether operations (start, end, correlation) follow each other."""
    start, end, launch = operations[:, np.argsort(operations[0], kind="stable")]
    ended = np.maximum.accumulate(end)
    over = (start[1:] < ended[:-1] - GRAIN_NS) & ((launch[1:] != launch[:-1]) | (launch[1:] == 0))
    return bool(over.sum() <= MOST_OVERLAPPING * start.size)


def _successors(mine: Ints, operations: Ints) -> Ints:
    """Return the first start behind each of `mine` that another launch made; its own end without
    one."""
    start, _, launch = operations[:, np.argsort(operations[0], kind="stable")]
    found: Ints = mine[1].copy()
    first = np.searchsorted(start, mine[0], "right")
    for at, (begin, own) in enumerate(zip(first.tolist(), mine[2].tolist(), strict=True)):
        for place in range(begin, start.size):
            if own == 0 or launch[place] != own:
                found[at] = start[place]
                break
    return found
