"""Iterations of the log that lie between annotated steps of a profile and have no annotation.

Either the annotation alone is missing, and what the iteration launched is there, outside of every
annotation; or the iteration ran unseen. Of equal iterations in a row nobody can tell which one has
none: launches count wherever they are among such. With fewer launches than iterations of their
kind, with prefill or without, need at least, some ran unseen: in the longest pauses between
annotations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trueput.attribution.gpu.losses.unseen import is_compute_launch
from trueput.attribution.gpu.profile.idle_within import of_process
from trueput.attribution.gpu.profile.marks import (
    COMPOSITION,
    Bools,
    has_word,
    numbers,
    row_groups,
    set_aside,
)
from trueput.attribution.records import Ints

FEW: Final = 3
"""Of fewer steps that are found in the log nothing is concluded."""
_FAR: Final = np.iinfo(np.int64)
_OPERATION: Final = ("process_key", "kind", "quality", "start_at_ns")
_LAUNCH: Final = ("process_key", "api", "start_at_ns")


@dataclass(frozen=True)
class Steps:
    """The annotated steps of one process in order of start, and their iterations."""

    process: str | None
    start_ns: Ints
    end_ns: Ints
    """When this step and all before it have ended."""
    at: Ints
    """Position in the log's iterations, -1 without one."""


@dataclass(frozen=True)
class Gone:
    """How many iterations ran unseen, of how many, and the pauses that they ran in."""

    lost: int
    iterations: int
    low_ns: Ints
    high_ns: Ints


@dataclass(frozen=True)
class _Windows:
    """Stretches of steps among which iterations have no annotation; an entry for each."""

    before: Ints
    """The last step before it, -1 where it reaches to the first one."""
    after: Ints
    """The first step behind it."""
    prefills: Ints
    others: Ints
    """How many have none, that prefill and that do not."""

    @property
    def missing(self) -> Ints:
        both: Ints = self.prefills + self.others
        return both


def gone_between(
    operations: Path, launches: Path | None, steps: Steps, iterations: pa.Table
) -> Gone | None:
    """Return the iterations that ran unseen between the steps of a process.

    None where too few steps are found in the log. The parts are those of one file.
    """
    matched = np.flatnonzero(steps.at >= 0)
    if matched.size < FEW:
        return None
    prefills, computes = _kinds(iterations)
    place = steps.at[matched]
    count = int(computes[place[0] : place[-1] + 1].sum())
    windows = _windows(steps, matched, iterations, prefills, computes)
    none: Ints = np.zeros(0, np.int64)
    if not windows.before.size:
        return Gone(0, count, none, none)
    low, high = _bounds(steps, windows)
    kind: Bools = np.zeros(steps.at.size, np.bool_)
    kind[matched] = prefills[place]
    in_steps, outside = _counted(_launched(launches, steps.process), steps, low, high)
    of_steps = not in_steps.any()
    if of_steps:
        low = np.where(windows.before >= 0, steps.start_ns[np.maximum(windows.before, 0)], low)
        in_steps, outside = _begun(_ran(operations, steps.process), steps, low, high)
    least = [_least(in_steps[matched][kind[matched]]), _least(in_steps[matched][~kind[matched]])]
    if of_steps:
        # kernels run after the annotation of their step: that of the one before as well
        own = np.concatenate(([0], np.cumsum(np.where(kind, *least))))
        outside = outside - own[windows.after] + own[np.maximum(windows.before, 0)]
    gone = np.flatnonzero(outside < windows.prefills * least[0] + windows.others * least[1])
    explained = np.maximum(outside[gone], 0) // max(least)
    lost = windows.missing[gone] - np.minimum(explained, windows.missing[gone] - 1)
    pauses = [
        _longest(steps, first, last, number)
        for first, last, number in zip(
            windows.before[gone].tolist(), windows.after[gone].tolist(), lost.tolist(), strict=True
        )
    ]
    at = np.concatenate([none, *pauses])
    return Gone(int(lost.sum()), count, steps.end_ns[at], _behind(steps, at))


def _kinds(iterations: pa.Table) -> tuple[Bools, Bools]:
    """Return whether each iteration prefills, and whether it computes at all."""
    context = numbers(iterations.column("context_tokens"))
    prefills: Bools = context > 0
    computes: Bools = context + numbers(iterations.column("generation_tokens")) > 0
    return prefills, computes


def _windows(
    steps: Steps, matched: Ints, iterations: pa.Table, prefills: Bools, computes: Bools
) -> _Windows:
    place = steps.at[matched]
    before = [np.concatenate(([0], np.cumsum(which))) for which in (prefills, computes & ~prefills)]
    between = [np.maximum(sums[place[1:]] - sums[place[:-1] + 1], 0) for sums in before]
    # annotated steps of no known iteration are some of them
    spare = np.diff(matched) - 1
    of_prefill = np.maximum(between[0] - spare, 0)
    of_others = np.maximum(between[1] - np.maximum(spare - between[0], 0), 0)
    gap = np.flatnonzero(of_prefill + of_others > 0)
    first, last = gap, gap + 1
    if (np.diff(place) > 0).all():
        begins, ends = _runs(iterations)
        first = np.searchsorted(place, begins[place[gap] + 1], "left") - 1
        last = np.searchsorted(place, ends[place[gap + 1] - 1], "right")
    low = np.where(first >= 0, matched[np.maximum(first, 0)], -1)
    high = np.where(last < matched.size, matched[np.minimum(last, matched.size - 1)], steps.at.size)
    reached = np.maximum.accumulate(high)
    new = np.flatnonzero(np.concatenate(([True], low[1:] >= reached[:-1]))[: gap.size])
    if not new.size:
        return _Windows(gap, gap, gap, gap)
    until = np.append(new[1:], gap.size) - 1
    return _Windows(
        low[new],
        reached[until],
        np.add.reduceat(of_prefill[gap], new),
        np.add.reduceat(of_others[gap], new),
    )


def _runs(iterations: pa.Table) -> tuple[Ints, Ints]:
    """Return for each iteration the first and the last one of its row of equal ones."""
    size = iterations.num_rows
    other = np.zeros(size, np.bool_)
    other[:1] = True
    for name in COMPOSITION:
        other[1:] |= np.diff(numbers(iterations.column(name))) != 0
    begins = np.flatnonzero(other)
    run = np.cumsum(other) - 1
    return begins[run], np.append(begins[1:], size)[run] - 1


def _bounds(steps: Steps, windows: _Windows) -> tuple[Ints, Ints]:
    """Return from when to when launches are in a window: between its neighbours' annotations."""
    size = steps.at.size
    low = np.where(windows.before >= 0, steps.end_ns[np.maximum(windows.before, 0)], _FAR.min)
    high = np.where(
        windows.after < size, steps.start_ns[np.minimum(windows.after, size - 1)], _FAR.max
    )
    return low, np.maximum(high, low)


def _counted(instants: Iterable[Ints], steps: Steps, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Return how many instants each annotation holds, and how many are in each window outside of
    every annotation."""
    in_steps: Ints = np.zeros(steps.at.size, np.int64)
    outside: Ints = np.zeros(low.size, np.int64)
    for some in instants:
        step = np.searchsorted(steps.start_ns, some, "right") - 1
        held = (step >= 0) & (some <= steps.end_ns[step])
        in_steps += np.bincount(step[held], minlength=in_steps.size)
        outside += _inside(some[~held], low, high)
    return in_steps, outside


def _begun(instants: Iterable[Ints], steps: Steps, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Return how many instants lie from each step's start to the next one's, and in each window."""
    in_steps: Ints = np.zeros(steps.at.size, np.int64)
    inside: Ints = np.zeros(low.size, np.int64)
    for some in instants:
        step = np.searchsorted(steps.start_ns, some, "right") - 1
        in_steps += np.bincount(step[step >= 0], minlength=in_steps.size)
        inside += _inside(some, low, high)
    in_steps[-1] = 0  # nothing ends it
    return in_steps, inside


def _inside(some: Ints, low: Ints, high: Ints) -> Ints:
    window = np.searchsorted(low, some, "left") - 1
    here = (window >= 0) & (some < high[window])
    found: Ints = np.bincount(window[here], minlength=low.size)
    return found


def _least(counts: Ints) -> int:
    """Return how many of them such a step has at least; 1 where none shows any."""
    some = counts[counts > 0]
    return int(some.min()) if some.size else 1


def _longest(steps: Steps, first: int, last: int, number: int) -> Ints:
    """Return the steps between two which the longest pauses follow."""
    at: Ints = np.arange(max(first, 0), min(last, steps.at.size - 1))
    length = _behind(steps, at) - steps.end_ns[at]
    return at[np.argsort(-length, kind="stable")[:number]]


def _behind(steps: Steps, at: Ints) -> Ints:
    """Return when the step after each begins, or itself has ended."""
    found: Ints = np.maximum(steps.start_ns[at + 1], steps.end_ns[at])
    return found


def _launched(launches: Path | None, process: str | None) -> Iterator[Ints]:
    """Yield when kernels and graphs were launched by a process."""
    for rows in row_groups([launches], _LAUNCH) if launches is not None else ():
        which = is_compute_launch(rows) & of_process(rows, process)
        yield numbers(rows.column("start_at_ns"))[which]


def _ran(operations: Path, process: str | None) -> Iterator[Ints]:
    """Yield when the kernels of a process began."""
    for rows in row_groups([operations], _OPERATION):
        yield numbers(rows.column("start_at_ns"))[is_kernel(rows, process)]


def is_kernel(rows: Any, process: str | None) -> Bools:
    """Return for each operation of a row group whether it is a kernel of a process, or a span."""
    kind = rows.column("kind")
    kernel = has_word(kind, "kernel") | has_word(kind, "graph_span")
    found: Bools = kernel & ~set_aside(rows.column("quality")) & of_process(rows, process)
    return found
