"""Annotated steps of a profile in which no kernel was launched and none ran.

A step that computes tokens runs kernels. Where other steps of a process show some, one that shows
none lost them together with their launches: the device ran unseen. A step is looked at from its
start to the start of the next one of its thread: what it launched began before that, or the device
was busy with earlier work. Left out are steps that compute nothing, the first and the last of a
thread, and those that do not lie between the first and the last launch or operation of the process:
the ends of a capture cut them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from trueput.attribution.gpu.losses.holes import Reach
from trueput.attribution.gpu.losses.unseen import is_compute_launch
from trueput.attribution.gpu.profile.idle_within import idle_within, of_process
from trueput.attribution.gpu.profile.marks import (
    Bools,
    Marks,
    has_word,
    numbers,
    row_groups,
    set_aside,
)
from trueput.attribution.records import Ints

FEW: Final = 3
"""Of fewer steps with a kernel nothing is concluded."""
LEAST_SHOWN: Final = 0.05
"""A process of which fewer steps show a kernel annotates what another one launches."""
_LAUNCH: Final = ("process_key", "api", "start_at_ns")
_OPERATION: Final = ("process_key", "kind", "quality", "start_at_ns", "end_at_ns")


@dataclass
class Empty:
    """Steps of one file that compute, how many of them ran unseen, and the idle time there."""

    steps: int = 0
    empty: int = 0
    idle_ns: int = 0
    span_ns: int = 0
    """How long the file watched."""
    without_any: int = 0
    """Steps that compute, in a file that shows no kernel at all."""


@dataclass
class Thread:
    """The steps of one thread in order of start, and which of them show a kernel."""

    process: str | None
    start_ns: Ints
    end_ns: Ints
    computes: Bools
    until_ns: Ints = field(init=False)
    touched: Ints = field(init=False)
    """Differences: the sum up to a step counts the kernels and launches in it."""
    reach: Reach = field(default_factory=Reach)

    def __post_init__(self) -> None:
        following = np.append(self.start_ns[1:], self.end_ns[-1:])
        self.until_ns = np.maximum.accumulate(np.maximum(self.end_ns, following))
        self.touched = np.zeros(self.start_ns.size + 1, np.int64)

    def see(self, low_ns: Ints, high_ns: Ints) -> None:
        """Note stretches in which a kernel ran or was launched."""
        first = np.searchsorted(self.until_ns, low_ns, "left")
        last = np.searchsorted(self.start_ns, high_ns, "right")
        inside = last > first
        size = self.touched.size
        self.touched += np.bincount(first[inside], minlength=size)
        self.touched -= np.bincount(last[inside], minlength=size)

    @property
    def shown(self) -> Bools:
        """Whether each step shows a kernel."""
        found: Bools = np.cumsum(self.touched)[:-1] > 0
        return found

    @property
    def watched(self) -> Bools:
        """Whether each step computes, and no end of the capture can have cut it."""
        found = self.computes & (self.start_ns >= self.reach.first_ns)
        found &= self.end_ns <= self.reach.last_ns
        found[[0, -1]] = False
        return found


def computing(marks: Marks) -> Bools:
    """Return whether each step computes tokens, as far as its annotation tells."""
    told = marks.context_tokens.astype(np.int64) + marks.generation_tokens
    requests = marks.context_requests.astype(np.int64) + marks.generation_requests
    found: Bools = (told > 0) | ((marks.untold > 0) & (requests > 0))
    return found


def threads(marks: Marks) -> Iterator[Thread]:
    """Yield the steps of each thread of one file."""
    works = computing(marks)
    for code, place in enumerate(marks.places):
        mine = np.flatnonzero(marks.place == code)
        if mine.size:
            start, end = (x[mine].astype(np.int64) for x in (marks.start_ns, marks.end_ns))
            order = np.argsort(start, kind="stable")
            yield Thread(place[1], start[order], end[order], works[mine][order])


def empty_steps(operations: Path, launches: Path | None, marks: Marks) -> Empty:
    """Return how many steps of one file ran unseen; the parts and `marks` are those of the file."""
    found = list(threads(marks))
    for rows in row_groups([launches], _LAUNCH) if launches is not None else ():
        start, computes = numbers(rows.column("start_at_ns")), is_compute_launch(rows)
        for thread in found:
            mine = of_process(rows, thread.process)
            thread.reach.add(start[mine])
            thread.see(start[mine & computes], start[mine & computes])
    if any(bool((t.watched & ~t.shown).any()) or not t.shown.any() for t in found):
        see_kernels(operations, found)
    out = Empty()
    idle: dict[str | None, int] = {}
    if not any(t.shown.any() for t in found):
        out.without_any = max(int(t.watched.sum()) for t in found)
    for thread in found:
        shown, watched = thread.shown, thread.watched
        if int((shown & thread.computes).sum()) < max(FEW, LEAST_SHOWN * thread.computes.sum()):
            continue
        gone = watched & ~shown
        out.steps += int(watched.sum())
        out.empty += int(gone.sum())
        out.span_ns = max(out.span_ns, thread.reach.last_ns - thread.reach.first_ns)
        if gone.any():
            low, high = thread.start_ns[gone], thread.until_ns[gone]
            high = first_after(operations, thread.process, high, thread.reach.last_ns)
            more = idle_within(operations, thread.process, low, high)
            idle[thread.process] = idle.get(thread.process, 0) + more
            out.idle_ns = max(idle.values())
    return out


def see_kernels(operations: Path, found: list[Thread]) -> None:
    """Note the kernels and whole-graph spans of a file in the steps of its threads."""
    for rows in row_groups([operations], _OPERATION):
        kernel, start, end = _kernels(rows)
        for thread in found:
            mine = of_process(rows, thread.process)
            thread.reach.add(start[mine])
            thread.reach.add(end[mine])
            thread.see(start[mine & kernel], end[mine & kernel])


def _kernels(rows: Any) -> tuple[Bools, Ints, Ints]:
    """Return whether each operation computes, and when it began and ended."""
    kind = rows.column("kind")
    kernel = has_word(kind, "kernel") | has_word(kind, "graph_span")
    kernel &= ~set_aside(rows.column("quality"))
    return kernel, numbers(rows.column("start_at_ns")), numbers(rows.column("end_at_ns"))


def first_after(operations: Path, process: str | None, at_ns: Ints, until_ns: int) -> Ints:
    """Return for each instant the start of the first kernel then or later: work runs in order."""
    first: Ints = np.full(at_ns.size, until_ns, np.int64)
    for rows in row_groups([operations], _OPERATION):
        kernel, start, _ = _kernels(rows)
        start = np.sort(start[kernel & of_process(rows, process)])
        place = np.searchsorted(start, at_ns, "left")
        known = place < start.size
        first[known] = np.minimum(first[known], start[place[known]])
    return np.maximum(first, at_ns)
