"""The GPU's own busy time of the steps of a profile: the union of the kernels they launched.

The cost model needs some steps, not all: of a long profile slices of time are looked at, and of its
parts only the row groups that can hold them. A step may have launched graphs whose kernels are not
shown: its own kernels are what it took at least, with the spans of its graphs what it took at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trueput.attribution.gpu.profile.marks import (
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

_CALL = ("source_id", "process_key", "thread_key", "correlation_id", "start_at_ns", "api")
_KERNEL = ("source_id", "process_key", "device_key", "kind", "class", "quality",
           "correlation_id", "start_at_ns", "end_at_ns")  # fmt: skip

Span = tuple[int, int]


@dataclass(frozen=True)
class _Calls:
    """The launching calls of one process inside its steps, by correlation id."""

    ids: Ints
    step: Ints
    is_graph: Bools
    shown: Bools
    """Filled in: whether an operation of the call was seen, other than a graph's span."""
    spanned: Bools
    """Filled in: whether the span of a graph was seen."""

    def hidden(self) -> Bools:
        """Return which calls launched a graph of which no operation was seen."""
        found: Bools = (self.is_graph | self.spanned) & ~self.shown
        return found


@dataclass(frozen=True)
class Busy:
    """The steps looked at that ran something; arrays with an entry for each."""

    step: Ints
    ns: Ints
    """The union of compute kernels, the mean over the devices that ran some."""
    most_ns: Ints
    """The same with the spans of graphs whose operations are not shown."""
    kernels: Ints
    """How many compute kernels it ran, on all its devices."""
    is_hidden: Bools
    """Whether it launched such a graph."""
    is_spanned: Bools
    """Whether all of those have spans."""
    hidden_share: float
    """Of the steps looked at that launched anything, those that launched such a graph."""

    def of(self, which: Bools) -> Busy:
        """Return some of the steps."""
        names = [field.name for field in fields(self) if field.name != "hidden_share"]
        return replace(self, **{name: getattr(self, name)[which] for name in names})


@dataclass(frozen=True)
class _Ran:
    """Kernels, or spans of graphs: the step that launched each, its device, start and end."""

    step: Ints
    device: Ints
    start_ns: Ints
    end_ns: Ints

    def of(self, which: Bools) -> _Ran:
        """Return some of them."""
        return _Ran(*(getattr(self, name)[which] for name in _RAN))


_RAN: Final = ("step", "device", "start_ns", "end_ns")


def busy_by_step(parts: Mapping[str, Sequence[Path]], marks: Marks) -> Busy:
    """Return the steps looked at and how long each was busy."""
    operations, launches = parts.get("gpu_ops", ()), parts.get("gpu_launches", ())
    spans = _spans(marks, sum(pq.read_metadata(p).num_rows for p in operations))
    calls, ranges = _calls(launches, marks, spans)
    ran: list[_Ran] = []
    graphs: list[tuple[_Calls, Ints, _Ran]] = []
    if calls:
        for mine, at, piece, is_span in _operations(operations, calls, spans, ranges):
            if is_span:
                graphs.append((mine, at, piece))
            else:
                ran.append(piece)
    # a graph whose kernels are shown is known by them
    hiding = [piece.of(mine.hidden()[at]) for mine, at, piece in graphs]
    step, most_ns = _mean_of_devices([*ran, *hiding])
    own, own_ns = _mean_of_devices(ran)
    ns: Ints = np.zeros(step.size, np.int64)
    ns[np.searchsorted(step, own)] = own_ns
    kernels = np.bincount(np.concatenate([step[:0], *(piece.step for piece in ran)]))
    launched = _steps([mine.step for mine in calls.values()])
    hidden = _steps([mine.step[mine.hidden()] for mine in calls.values()])
    untold = _steps([mine.step[mine.hidden() & ~mine.spanned] for mine in calls.values()])
    share = hidden.size / max(launched.size, 1)
    of_step: Ints = np.append(kernels, 0)[np.minimum(step, kernels.size)].astype(np.int64)
    return Busy(step, ns, most_ns, of_step, np.isin(step, hidden), ~np.isin(step, untold), share)


def _steps(pieces: Sequence[Ints]) -> Ints:
    """Return the different steps of some calls."""
    found: Ints = np.unique(np.concatenate([*pieces, np.zeros(0, np.int64)]))
    return found


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
    found: dict[Place, list[tuple[Ints, Ints, Bools]]] = {}
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
        graph = _launches_graph(rows.column("api"))[keep]
        for number in np.unique(code).tolist():
            steps = at_place.get(names[number])
            if steps is None:
                continue
            mine = code == number
            inside, step = _held(called[mine], steps, marks)
            ids_here = ids[mine][inside]
            if ids_here.size:
                pieces = found.setdefault(names[number][:2], [])
                pieces.append((ids_here, step, graph[mine][inside]))
                ranges.append((int(ids_here.min()), int(ids_here.max())))
    return {process: _by_id(pieces) for process, pieces in found.items()}, ranges


def _launches_graph(api: Any) -> Bools:
    """Return for each call whether it launches a graph."""
    names = words(api)
    wanted = np.array([*("GraphLaunch" in (n or "") for n in names.dictionary.to_pylist()), False])
    indices: Any = pc.fill_null(names.indices, len(names.dictionary))
    found: Bools = wanted[indices.to_numpy(zero_copy_only=False)]
    return found


def _held(called: Ints, steps: Ints, marks: Marks) -> tuple[Bools, Ints]:
    """Which calls lie in a step of their thread, and those steps: the last that began before."""
    last = np.searchsorted(marks.start_ns[steps], called, side="right") - 1
    step = steps[np.maximum(last, 0)]
    inside = (last >= 0) & (called <= marks.end_ns[step])
    return inside, step[inside]


def _by_id(pieces: Sequence[tuple[Ints, Ints, Bools]]) -> _Calls:
    ids = np.concatenate([piece[0] for piece in pieces])
    order = np.argsort(ids, kind="stable")
    step, graph = (np.concatenate([piece[at] for piece in pieces])[order] for at in (1, 2))
    return _Calls(ids[order], step, graph, *(np.zeros(ids.size, np.bool_) for _ in range(2)))


def _operations(
    paths: Sequence[Path],
    calls: Mapping[Place, _Calls],
    spans: Sequence[Span],
    ranges: Sequence[Span],
) -> Iterator[tuple[_Calls, Ints, _Ran, bool]]:
    """Yield the compute kernels that the calls launched and the spans of graphs, each with the
    calls of its process, the positions of its own, and whether these are spans.

    What was seen of a call is written down in it.
    """
    late = [(low, high + LATEST_NS) for low, high in spans]
    processes, devices = Places(), Places()
    for rows in row_groups(paths, _KERNEL, {"start_at_ns": late, "correlation_id": ranges}):
        span = has_word(rows.column("kind"), "graph_span")
        compute = has_word(rows.column("kind"), "kernel")
        compute &= has_word(rows.column("class"), "compute")
        wanted = ~set_aside(rows.column("quality"))
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
            at = np.repeat(first, count) + more
            here = np.repeat(here, count)
            mine.shown[at[~span[here]]] = True
            mine.spanned[at[span[here]]] = True
            for chosen, is_span in ((compute, False), (span, True)):
                of = here[chosen[here]]
                of_call = at[chosen[here]]
                if of.size:
                    ran = _Ran(mine.step[of_call], device[of], start[of], end[of])
                    yield mine, of_call, ran, is_span


def _mean_of_devices(pieces: Sequence[_Ran]) -> tuple[Ints, Ints]:
    """Return the steps that ran something and the busy ns of each, the mean of its devices."""
    if not pieces:
        none: Ints = np.zeros(0, np.int64)
        return none, none
    ran = _Ran(*(np.concatenate([getattr(piece, name) for piece in pieces]) for name in _RAN))
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
