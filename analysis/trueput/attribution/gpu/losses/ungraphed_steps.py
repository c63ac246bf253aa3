"""Annotated steps that lost the launch of their graph, with what it ran, but not all their kernels.

A step that decodes may launch its model as a graph, and some kernels of its own (sampling) beside
it. One that launched no graph ran the model's kernels one by one: it launched more kernels than
those that did. One that launched neither ran no model that the file shows, though it computed. What
a step launches is launched by its thread, from its start to the start of the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from trueput.attribution.gpu.losses.empty_steps import LEAST_SHOWN, Empty, computing, first_after
from trueput.attribution.gpu.losses.holes import Reach
from trueput.attribution.gpu.losses.unseen import is_compute_launch
from trueput.attribution.gpu.profile.idle_within import idle_within
from trueput.attribution.gpu.profile.marks import Bools, Marks, Place, numbers, row_groups, words
from trueput.attribution.records import Ints

FEW: Final = 3
"""Of fewer steps nothing is concluded."""
_LAUNCH: Final = ("process_key", "thread_key", "api", "start_at_ns")


@dataclass
class _Thread:
    """The steps of one thread in order of start, and how many launches each made."""

    place: Place
    start_ns: Ints
    end_ns: Ints
    decodes: Bools
    """Whether each computes tokens of requests that decode, and no others."""
    graphs: Ints = field(init=False)
    kernels: Ints = field(init=False)
    reach: Reach = field(default_factory=Reach)

    def __post_init__(self) -> None:
        self.graphs, self.kernels = (np.zeros(self.start_ns.size, np.int64) for _ in range(2))

    def see(self, at_ns: Ints, is_graph: Bools) -> None:
        """Count launches of kernels and of graphs."""
        self.reach.add(at_ns)
        step = np.searchsorted(self.start_ns, at_ns, "right") - 1
        size = self.start_ns.size
        self.graphs += np.bincount(step[is_graph & (step >= 0)], minlength=size)
        self.kernels += np.bincount(step[~is_graph & (step >= 0)], minlength=size)

    @property
    def watched(self) -> Bools:
        """Whether each step decodes, and no end of the capture can have cut it."""
        found = self.decodes & (self.start_ns >= self.reach.first_ns)
        found &= self.end_ns <= self.reach.last_ns
        found[[0, -1]] = False
        return found


def ungraphed_steps(operations: Path, launches: Path, marks: Marks) -> Empty:
    """Return how many steps that decode ran a model that the file does not show.

    The parts and `marks` are those of the file. Some steps of it must launch graphs; of which
    process does not matter, as ranks of a model launch alike.
    """
    found = list(_threads(marks))
    for rows in row_groups([launches], _LAUNCH):
        at, graph = numbers(rows.column("start_at_ns")), _of_graph(rows.column("api"))
        computes = is_compute_launch(rows)
        for thread in found:
            mine = computes & _of_thread(rows, thread.place)
            thread.see(at[mine], graph[mine])
    out = Empty()
    like = [t.kernels[t.decodes & (t.graphs > 0)] for t in found]
    beside = np.concatenate([np.zeros(0, np.int64), *like])
    decoding = sum(int(t.decodes.sum()) for t in found)
    if beside.size < max(FEW, LEAST_SHOWN * decoding):
        return out
    usual = int(np.median(beside))
    idle: dict[str | None, int] = {}
    for thread in found:
        watched = thread.watched
        gone = watched & (thread.graphs == 0) & (thread.kernels <= usual)
        out.steps += int(watched.sum())
        out.empty += int(gone.sum())
        out.span_ns = max(out.span_ns, thread.reach.last_ns - thread.reach.first_ns)
        if gone.any():
            process = thread.place[1]
            until = np.append(thread.start_ns[1:], thread.end_ns[-1:])
            low, high = thread.start_ns[gone], np.maximum(until, thread.end_ns)[gone]
            high = first_after(operations, process, high, thread.reach.last_ns)
            more = idle_within(operations, process, low, high)
            idle[process] = idle.get(process, 0) + more
            out.idle_ns = max(idle.values())
    return out if out.empty >= FEW else Empty()


def _threads(marks: Marks) -> Iterator[_Thread]:
    """Yield the steps of each thread of one file that is known."""
    context = marks.context_requests.astype(np.int64) + marks.context_tokens
    decodes = computing(marks) & (context == 0) & (marks.untold == 0)
    for code, place in enumerate(marks.places):
        mine = np.flatnonzero(marks.place == code)
        if mine.size and None not in place:
            start, end = (x[mine].astype(np.int64) for x in (marks.start_ns, marks.end_ns))
            order = np.argsort(start, kind="stable")
            yield _Thread(place, start[order], end[order], decodes[mine][order])


def _of_graph(api: Any) -> Bools:
    array = words(api)
    names = ["GraphLaunch" in (text or "") for text in array.dictionary.to_pylist()]
    found: Bools = np.array([*names, False])[_filled(array)]
    return found


def _of_thread(rows: Any, place: Place) -> Bools:
    """Return which launches are of a thread; its place is file, process and thread."""
    found: Bools = np.ones(len(rows), np.bool_)
    for column, name in (("process_key", place[1]), ("thread_key", place[2])):
        array = words(rows.column(column))
        is_it = [text == name for text in array.dictionary.to_pylist()]
        found &= np.array([*is_it, False])[_filled(array)]
    return found


def _filled(array: Any) -> Any:
    """Return the positions of a dictionary column, the one behind the last for NULL."""
    return pc.fill_null(array.indices, len(array.dictionary)).to_numpy(zero_copy_only=False)
