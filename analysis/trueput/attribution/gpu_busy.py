"""The GPU's own busy time of the steps of a profile: the union of the kernels they launched.

The cost model needs some steps, not all: of a long profile slices of time are looked at, and of its
parts only the row groups that can hold them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.parquet as pq

from trueput.attribution.gpu_marks import (
    Bools,
    Marks,
    Place,
    Places,
    has_word,
    numbers,
    row_groups,
    set_aside,
    words,
)
from trueput.attribution.records import Ints

MAX_OPERATIONS: Final = 100_000
"""Of more operations than this, slices of time are looked at for the fit; shares need none."""
MAX_LOOKED_AT: Final = 240_000
"""About so many operations lie in all slices together."""
SLICES: Final = 8
LEAST_STEPS, SLICE_STEPS = 16, 250
LATEST_NS: Final = 10_000_000_000
"""A kernel that starts later after its launch than this is not looked for in a slice."""

_CALL = ("source_id", "process_key", "thread_key", "correlation_id", "start_at_ns")
_KERNEL = ("source_id", "process_key", "device_key", "kind", "class", "quality",
           "correlation_id", "start_at_ns", "end_at_ns")  # fmt: skip

Span = tuple[int, int]


@dataclass(frozen=True)
class _Calls:
    """The launching calls of one process inside its steps, by correlation id."""

    ids: Ints
    step: Ints


@dataclass(frozen=True)
class _Ran:
    """Kernels: the step that launched each, its device, start and end."""

    step: Ints
    device: Ints
    start_ns: Ints
    end_ns: Ints


def busy_by_step(parts: Mapping[str, Sequence[Path]], marks: Marks) -> tuple[Ints, Ints]:
    """Return the steps looked at, by number, and the busy ns of each.

    Busy is the union of compute kernels, the mean over the devices that ran some.
    """
    operations, launches = parts.get("gpu_ops", ()), parts.get("gpu_launches", ())
    spans = _spans(marks, sum(pq.read_metadata(p).num_rows for p in operations))
    calls, ranges = _calls(launches, marks, spans)
    none: Ints = np.zeros(0, np.int64)
    if not calls:
        return none, none
    pieces = list(_kernels(operations, calls, spans, ranges))
    if not pieces:
        return none, none
    return _mean_of_devices(
        _Ran(
            *(
                np.concatenate([getattr(piece, name) for piece in pieces])
                for name in ("step", "device", "start_ns", "end_ns")
            )
        )
    )


def _spans(marks: Marks, operations: int) -> list[Span]:
    """The stretches of host time whose steps are looked at for the fit."""
    starts, ends = np.sort(marks.start_ns), np.sort(marks.end_ns)
    if operations <= MAX_OPERATIONS:
        return [(int(starts[0]), int(ends[-1]))]
    wanted = MAX_LOOKED_AT * starts.size // (operations * SLICES)
    steps = min(max(wanted, LEAST_STEPS), SLICE_STEPS)
    firsts = np.linspace(0, max(0, starts.size - steps), SLICES).astype(int)
    return [(int(starts[i]), int(ends[min(i + steps, ends.size) - 1])) for i in firsts.tolist()]


def _inside(times: Ints, spans: Sequence[Span]) -> Bools:
    found: Bools = np.zeros(times.size, np.bool_)
    for low, high in spans:
        found |= (times >= low) & (times <= high)
    return found


def _calls(
    paths: Sequence[Path], marks: Marks, spans: Sequence[Span]
) -> tuple[dict[Place, _Calls], list[Span]]:
    """The calls inside the steps looked at by process, and ranges that hold all their ids."""
    at_place = {
        place: np.flatnonzero(marks.place == code)
        for code, place in enumerate(marks.places)
        if None not in place
    }
    found: dict[Place, list[tuple[Ints, Ints]]] = {}
    ranges: list[Span] = []
    places = Places()
    for rows in row_groups(paths, _CALL, {"start_at_ns": spans}):
        called = numbers(rows.column("start_at_ns"))
        known = rows.column("correlation_id").is_valid().to_numpy()
        keep = np.flatnonzero(_inside(called, spans) & known)
        if not keep.size:
            continue
        code = places.codes([words(rows.column(c)) for c in _CALL[:3]])[keep]
        names = list(places.known)
        called, ids = called[keep], numbers(rows.column("correlation_id"))[keep]
        for number in np.unique(code).tolist():
            steps = at_place.get(names[number])
            if steps is None:
                continue
            mine = code == number
            ids_here, step = _held(ids[mine], called[mine], steps, marks)
            if ids_here.size:
                found.setdefault(names[number][:2], []).append((ids_here, step))
                ranges.append((int(ids_here.min()), int(ids_here.max())))
    return {process: _by_id(pieces) for process, pieces in found.items()}, ranges


def _held(ids: Ints, called: Ints, steps: Ints, marks: Marks) -> tuple[Ints, Ints]:
    """The calls that lie in a step of their thread, with it: the last that began before."""
    last = np.searchsorted(marks.start_ns[steps], called, side="right") - 1
    step = steps[np.maximum(last, 0)]
    inside = (last >= 0) & (called <= marks.end_ns[step])
    return ids[inside], step[inside]


def _by_id(pieces: Sequence[tuple[Ints, Ints]]) -> _Calls:
    ids = np.concatenate([piece[0] for piece in pieces])
    order = np.argsort(ids, kind="stable")
    return _Calls(ids[order], np.concatenate([piece[1] for piece in pieces])[order])


def _kernels(
    paths: Sequence[Path],
    calls: Mapping[Place, _Calls],
    spans: Sequence[Span],
    ranges: Sequence[Span],
) -> Iterator[_Ran]:
    """Yield the compute kernels that the calls launched."""
    late = [(low, high + LATEST_NS) for low, high in spans]
    processes, devices = Places(), Places()
    for rows in row_groups(paths, _KERNEL, {"start_at_ns": late, "correlation_id": ranges}):
        wanted = has_word(rows.column("kind"), "kernel") & has_word(rows.column("class"), "compute")
        wanted &= ~set_aside(rows.column("quality"))
        wanted &= _inside(numbers(rows.column("start_at_ns")), late)
        wanted &= rows.column("correlation_id").is_valid().to_numpy()
        process = processes.codes([words(rows.column(c)) for c in _KERNEL[:2]])
        device = devices.codes([words(rows.column("device_key"))])
        ids, start, end = (numbers(rows.column(c)) for c in _KERNEL[-3:])
        names = list(processes.known)
        for number in np.unique(process).tolist():
            mine = calls.get(names[number])
            if mine is None:
                continue
            here = np.flatnonzero(wanted & (process == number))
            first = np.searchsorted(mine.ids, ids[here], side="left")
            count = np.searchsorted(mine.ids, ids[here], side="right") - first
            here, first, count = here[count > 0], first[count > 0], count[count > 0]
            if not here.size:
                continue
            # one id may be of several calls: the kernel then counts for each
            more = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            step = mine.step[np.repeat(first, count) + more]
            here = np.repeat(here, count)
            yield _Ran(step, device[here], start[here], end[here])


def _mean_of_devices(ran: _Ran) -> tuple[Ints, Ints]:
    """Return the steps that ran something and the busy ns of each, the mean of its devices."""
    steps, at = np.unique(ran.step, return_inverse=True)
    total, devices = np.zeros(steps.size, np.int64), np.zeros(steps.size, np.int64)
    for number in np.unique(ran.device).tolist():
        here = np.flatnonzero(ran.device == number)
        here = here[np.lexsort((ran.end_ns[here], ran.start_ns[here]))]
        start, end = ran.start_ns[here], ran.end_ns[here]
        reached = np.maximum.accumulate(end)
        before = np.concatenate((start[:1], reached[:-1]))
        np.add.at(total, at[here], np.maximum(end - np.maximum(start, before), 0))
        devices[np.unique(at[here])] += 1
    return steps, np.round(total / devices).astype(np.int64)
