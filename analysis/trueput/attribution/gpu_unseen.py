"""Launches of a profile whose operations it does not hold: the device ran unseen.

Between the first and the last launch that has an operation, every kernel launch and every graph
launch should have one; of 18,000 such launches in recorded traces all do. Before and behind lie
the edges of a capture: what was launched before the device was watched, and what still waited when
it ended. A stream holds 1,024 launches at most, so that more at an edge are no edge. Where no
launch has an operation, the launches while operations ran are looked at.

An operation without a correlation id, or without a process, may be that of any launch: as many
launches are taken to have one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from trueput.attribution.gpu_marks import Bools, has_word, numbers, row_groups, words
from trueput.attribution.records import Ints
from trueput.nsys_rows.keys import KeySet

QUEUE_DEPTH: Final = 1_024
"""Launches that a stream takes before the host has to wait."""

_KERNEL: Final = re.compile(r"Launch.*Kernel|^(?:cuda|cu)Launch(?:Grid(?:Async)?)?$")
_GRAPH: Final = re.compile(r"GraphLaunch")
_OPERATION: Final = ("kind", "process_key", "correlation_id", "start_at_ns", "end_at_ns")
_LAUNCH: Final = ("process_key", "api", "correlation_id", "start_at_ns")
_FAR: Final = np.iinfo(np.int64)


@dataclass
class Launched:
    """Launches of one kind that should have an operation, and how many of them have none."""

    launches: int = 0
    unseen: int = 0

    def share_over(self, limit: float) -> bool:
        """Return whether more than this share has none."""
        return self.unseen > limit * self.launches


@dataclass
class Unseen:
    """The kernel launches and the graph launches of one file."""

    kernels: Launched = field(default_factory=Launched)
    graphs: Launched = field(default_factory=Launched)


@dataclass
class _Reach:
    """From when to when the launches of one process have operations (ns)."""

    first_ns: int = _FAR.max
    last_ns: int = _FAR.min

    def add(self, at_ns: Ints) -> None:
        self.first_ns = min(self.first_ns, int(at_ns.min()))
        self.last_ns = max(self.last_ns, int(at_ns.max()))


@dataclass
class _Ran:
    """What the operations of a file tell."""

    keys: KeySet = field(default_factory=KeySet)
    processes: dict[str | None, int] = field(default_factory=dict)
    span: _Reach = field(default_factory=_Reach)
    unkeyed: int = 0

    def number(self, process: str | None) -> int:
        return self.processes.setdefault(process, len(self.processes))


@dataclass(frozen=True)
class _Calls:
    """Launches of one process: instants, kinds, and whether each has an operation."""

    process: int
    start_ns: Ints
    joined: Bools
    kernel: Bools
    graph: Bools


def unseen_launches(operations: Path, launches: Path) -> Unseen:
    """Return the launches of one file that have no operation; the parts are those of the file."""
    ran = _ran(operations)
    reach: dict[int, _Reach] = {}
    missing = 0
    for calls in _calls(launches, ran):
        if calls.joined.any():
            reach.setdefault(calls.process, _Reach()).add(calls.start_ns[calls.joined])
        missing += int(((calls.kernel | calls.graph) & ~calls.joined).sum())
    found = Unseen()
    if missing <= ran.unkeyed:
        return found
    edges: dict[tuple[int, bool, bool], int] = {}
    for calls in _calls(launches, ran):
        seen = reach.get(calls.process, ran.span)
        before, behind = calls.start_ns < seen.first_ns, calls.start_ns > seen.last_ns
        for kind, which in ((found.kernels, calls.kernel), (found.graphs, calls.graph)):
            inside = which & ~before & ~behind
            kind.launches += int(inside.sum())
            kind.unseen += int((inside & ~calls.joined).sum())
            for late, edge in ((False, before), (True, behind)):
                place = calls.process, kind is found.graphs, late
                edges[place] = edges.get(place, 0) + int((which & edge).sum())
    for (_, is_graph, _), count in edges.items():
        kind = found.graphs if is_graph else found.kernels
        if count > QUEUE_DEPTH:
            kind.launches += count
            kind.unseen += count
    for kind in (found.kernels, found.graphs):
        kind.unseen = max(0, kind.unseen - ran.unkeyed)
    return found


def _ran(part: Path) -> _Ran:
    """Return what the operations tell: the launches that they have, and when they ran."""
    ran = _Ran()
    for rows in row_groups([part], _OPERATION):
        ids = numbers(rows.column("correlation_id"))
        codes, processes = _codes(rows)
        kernel = has_word(rows.column("kind"), "kernel")
        for code, process in enumerate(processes):
            mine: Any = codes == code
            if process is None:
                ran.unkeyed += int((mine & kernel).sum())
                continue
            whole = mine.all()
            ran.unkeyed += int((mine & kernel & (ids <= 0)).sum())
            ran.keys.add(ran.number(process), ids if whole else ids[mine])
        if ids.size:
            ran.span.add(numbers(rows.column("start_at_ns")))
            ran.span.add(numbers(rows.column("end_at_ns")))
    return ran


def _calls(part: Path, ran: _Ran) -> Iterator[_Calls]:
    """Yield the launches whose process and id are known, process by process."""
    for rows in row_groups([part], _LAUNCH):
        ids, start = (numbers(rows.column(c)) for c in _LAUNCH[2:])
        codes, processes = _codes(rows)
        kernel, graph = _named(rows.column("api"))
        known: Bools = ids > 0
        for code, process in enumerate(processes):
            if process is None:
                continue
            number = ran.number(process)
            here = known & (codes == code)
            if here.all():
                yield _Calls(number, start, ran.keys.holds(number, ids), kernel, graph)
            elif here.any():
                joined = ran.keys.holds(number, ids[here])
                yield _Calls(number, start[here], joined, kernel[here], graph[here])


def _codes(rows: Any) -> tuple[Any, Sequence[str | None]]:
    """Return the process of each row as a position in a list that ends with None."""
    column = words(rows.column("process_key"))
    names: list[str | None] = [*column.dictionary.to_pylist(), None]
    codes = column.indices.fill_null(len(names) - 1).to_numpy(zero_copy_only=False)
    return codes, names


def _named(column: Any) -> tuple[Bools, Bools]:
    """Return for each launch whether its name is that of a kernel, and of a graph launch."""
    array = words(column)
    names = [text or "" for text in array.dictionary.to_pylist()] + [""]
    codes = array.indices.fill_null(len(names) - 1).to_numpy(zero_copy_only=False)
    kernel = np.array([bool(_KERNEL.search(n)) for n in names])
    graph = np.array([bool(_GRAPH.search(n)) for n in names])
    return kernel[codes], graph[codes]
