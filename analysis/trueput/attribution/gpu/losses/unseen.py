"""Launches of a profile whose operations it does not hold: the device ran unseen.

Between the first and the last launch that has an operation, every kernel launch, every graph launch
and every copy should have one; of 22,000 such launches in recorded traces all do. (A memset need
not: recorded traces have some without.) Before and behind lie the edges of a capture: what was
launched before the device was watched, and what still waited when it ended. A stream holds 1,024
launches at most, so that more at an edge are no edge; nor are those that an idle device would have
run, made when the last kernel had ended, or long before the first began, while the capture went on.
Where no launch has an operation, the launches while operations ran are looked at.

An operation without a correlation id, or without a process, may be that of any launch: as many
launches are taken to have one. So is a second kernel of one launch of AMD's runtime, whose
profilers give some kernels the id of the launch before theirs. An operation that counts nowhere is
none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from trueput.attribution.gpu.losses.holes import Lost, Reach, idle_beside
from trueput.attribution.gpu.profile.marks import (
    Bools,
    has_word,
    numbers,
    row_groups,
    set_aside,
    words,
)
from trueput.attribution.records import Ints
from trueput.nsys_rows.keys import KeySet
from trueput.source_api import MOST_LOST

QUEUE_DEPTH: Final = 1_024
"""Launches that a stream takes before the host has to wait."""
IDLE_WAIT_NS: Final = 100_000_000
"""A launch to a device that has nothing to do runs sooner."""

_KERNEL: Final = re.compile(r"Launch.*Kernel|^(?:cuda|cu)Launch(?:Grid(?:Async)?)?$")
_GRAPH: Final = re.compile(r"GraphLaunch")
_COPY: Final = re.compile(r"Memcpy")
_OPERATION: Final = ("kind", "process_key", "correlation_id", "quality")
_LAUNCH: Final = ("process_key", "api", "correlation_id")
_NEITHER, _OF_KERNEL, _OF_GRAPH, _OF_COPY = range(4)


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
    """The launches of one file by kind, and the idle time in which the lost ones may have run."""

    kernels: Launched = field(default_factory=Launched)
    graphs: Launched = field(default_factory=Launched)
    copies: Launched = field(default_factory=Launched)
    idle_ns: int = 0
    """0 also where so many are lost that it is not asked."""
    span_ns: int = 0
    """How long the file watched its devices."""

    @property
    def kinds(self) -> Mapping[str, Launched]:
        """The kinds of launches by what people call them."""
        return {"kernel": self.kernels, "graph": self.graphs, "copy": self.copies}


@dataclass
class _Ran:
    """The launches that have an operation, by process, and operations of unknown launches."""

    keys: KeySet = field(default_factory=KeySet)
    processes: dict[str | None, int] = field(default_factory=dict)
    unkeyed: Ints = field(default_factory=lambda: np.zeros(2, np.int64))
    """Kernels, and copies and memsets, that may be those of any launch."""

    def number(self, process: str | None) -> int:
        return self.processes.setdefault(process, len(self.processes))


def unseen_launches(operations: Path, launches: Path) -> Unseen:
    """Return the launches of one file that have no operation; the parts are those of the file.

    Instants are read only where some launch has none.
    """
    ran = _ran(operations)
    missing: Ints = np.zeros(4, np.int64)
    for rows in row_groups([launches], _LAUNCH):
        what, _, joined = _judged(rows, ran)
        if not joined.all():
            missing += np.bincount(what[~joined], minlength=4)
    if not missing[1:].any():
        return Unseen()
    return _between(operations, launches, ran)


def is_compute_launch(rows: Any) -> Bools:
    """Return for each launch of a row group whether it is of a kernel or of a graph."""
    what = _kinds(rows.column("api"))
    found: Bools = (what == _OF_KERNEL) | (what == _OF_GRAPH)
    return found


def _between(operations: Path, launches: Path, ran: _Ran) -> Unseen:
    """Count the launches that lie between those that have an operation."""
    columns = (*_LAUNCH, "start_at_ns")
    reach: dict[int, Reach] = {}
    for rows in row_groups([launches], columns):
        _, process, joined = _judged(rows, ran)
        start = numbers(rows.column("start_at_ns"))
        for number in np.unique(process[joined]).tolist():
            reach.setdefault(number, Reach()).add(start[joined & (process == number)])
    span, kernels = _span(operations), _kernels(operations, ran)
    alive = Reach(span.first_ns, span.last_ns)
    for rows in row_groups([launches], ("start_at_ns",)):
        alive.add(numbers(rows.column("start_at_ns")))
    found = Unseen(span_ns=alive.last_ns - alive.first_ns)
    kinds = {_OF_KERNEL: found.kernels, _OF_GRAPH: found.graphs, _OF_COPY: found.copies}
    edges: dict[tuple[int, int, bool], int] = {}
    lost: dict[int, Lost] = {}
    for rows in row_groups([launches], columns):
        what, process, joined = _judged(rows, ran)
        start = numbers(rows.column("start_at_ns"))
        ids = numbers(rows.column("correlation_id"))
        for number in np.unique(process).tolist():
            mine, seen = process == number, reach.get(number, span)
            before, behind = start < seen.first_ns, start > seen.last_ns
            waited: Bools = np.zeros(start.size, np.bool_)
            if busy := kernels.get(number):
                waited |= before & (start < busy.first_ns - IDLE_WAIT_NS)
                waited |= behind & (start > busy.last_ns) & (start < alive.last_ns - IDLE_WAIT_NS)
            inside = mine & (waited | ~(before | behind))
            for kind, launched in kinds.items():
                which = what == kind
                launched.launches += int((inside & which).sum())
                launched.unseen += int((inside & which & ~joined).sum())
                for late, edge in ((False, before), (True, behind)):
                    place = number, kind, late
                    edges[place] = edges.get(place, 0) + int((mine & which & edge & ~waited).sum())
            if (gone := inside & ~joined & (what != _NEITHER)).any():
                lost.setdefault(number, Lost()).add(ids[gone], start[gone])
    for (_, kind, _), count in edges.items():
        if count > QUEUE_DEPTH:
            kinds[kind].launches += count
            kinds[kind].unseen += count
    _lend(found, operations, launches, ran)
    if any(k.unseen for k in kinds.values()) and not any(
        k.share_over(MOST_LOST) for k in kinds.values()
    ):
        names = {name: number for name, number in ran.processes.items() if number in lost}
        found.idle_ns = idle_beside(operations, names, lost, alive.last_ns)
    return found


def _lend(found: Unseen, operations: Path, launches: Path, ran: _Ran) -> None:
    """Take operations of unknown launches for those of the launches that have none."""
    second = _second_kernels(operations, launches, ran)
    for launched in (found.kernels, found.graphs):
        launched.unseen = max(0, launched.unseen - int(ran.unkeyed[0]) - second)
    found.copies.unseen = max(0, found.copies.unseen - int(ran.unkeyed[1]))


def _ran(part: Path) -> _Ran:
    """Return what the operations tell: the launches that they have."""
    ran = _Ran()
    for rows in row_groups([part], _OPERATION):
        ids = numbers(rows.column("correlation_id"))
        codes, processes = _codes(rows)
        unknown: Bools = (ids <= 0) | (codes == len(processes) - 1)
        if unknown.any():
            kernel = has_word(rows.column("kind"), "kernel")
            ran.unkeyed += (int((unknown & kernel).sum()), int((unknown & ~kernel).sum()))
            ids = np.where(unknown, 0, ids)
        doubt = rows.column("quality")
        if doubt.null_count < len(doubt) and (aside := set_aside(doubt)).any():
            ids = np.where(aside, 0, ids)
        for code, process in enumerate(processes[:-1]):
            ran.keys.add(ran.number(process), ids if len(processes) == 2 else ids[codes == code])
    return ran


def _judged(rows: Any, ran: _Ran) -> tuple[Any, Any, Bools]:
    """Return for each launch what it launched, its process, and whether it has an operation.

    A launch whose process or id is not known launched nothing that could be missed.
    """
    ids = numbers(rows.column("correlation_id"))
    codes, processes = _codes(rows)
    number = np.array([ran.number(process) for process in processes], np.int64)
    if len(processes) == 2:
        joined = ran.keys.holds(int(number[0]), ids)
    else:
        joined = np.zeros(ids.size, np.bool_)
        for code in range(len(processes) - 1):
            here = np.flatnonzero(codes == code)
            joined[here] = ran.keys.holds(int(number[code]), ids[here])
    what = _kinds(rows.column("api"))
    unknown = (ids <= 0) | (codes == len(processes) - 1)
    if unknown.any():
        what = np.where(unknown, _NEITHER, what)
    return what, number[codes], joined


def _second_kernels(operations: Path, launches: Path, ran: _Ran) -> int:
    """Return how many kernels share the launch of another; 0 where AMD's runtime launched none."""
    amd: dict[int, list[Ints]] = {}
    for rows in row_groups([launches], _LAUNCH):
        what, process, _ = _judged(rows, ran)
        array = words(rows.column("api"))
        names = [(text or "").startswith("hip") for text in array.dictionary.to_pylist()]
        mine = np.array([*names, False])[_filled(array, len(names))] & (what == _OF_KERNEL)
        ids = numbers(rows.column("correlation_id"))
        for number in np.unique(process[mine]).tolist():
            amd.setdefault(number, []).append(ids[mine & (process == number)])
    found: dict[int, list[Ints]] = {}
    for rows in row_groups([operations], _OPERATION) if amd else ():
        kernel = has_word(rows.column("kind"), "kernel")
        codes, processes = _codes(rows)
        ids = numbers(rows.column("correlation_id"))
        for code, process in enumerate(processes[:-1]):
            found.setdefault(ran.number(process), []).append(ids[kernel & (codes == code)])
    second = 0
    for number in amd.keys() & found.keys():
        ids, count = np.unique(np.concatenate(found[number]), return_counts=True)
        second += int((count - 1)[np.isin(ids, np.concatenate(amd[number]))].sum())
    return second


def _kernels(part: Path, ran: _Ran) -> dict[int, Reach]:
    """Return when the kernels of each process ran."""
    found: dict[int, Reach] = {}
    for rows in row_groups([part], ("kind", "process_key", "start_at_ns", "end_at_ns")):
        codes, processes = _codes(rows)
        kernel = has_word(rows.column("kind"), "kernel") | has_word(
            rows.column("kind"), "graph_span"
        )
        for code, process in enumerate(processes):
            mine = kernel & (codes == code)
            for name in ("start_at_ns", "end_at_ns"):
                found.setdefault(ran.number(process), Reach()).add(numbers(rows.column(name))[mine])
    return {number: reach for number, reach in found.items() if reach.first_ns <= reach.last_ns}


def _span(part: Path) -> Reach:
    """Return when the operations of a file ran."""
    span = Reach()
    for rows in row_groups([part], ("start_at_ns", "end_at_ns")):
        for name in ("start_at_ns", "end_at_ns"):
            span.add(numbers(rows.column(name)))
    return span


def longest_ns(operations: Path) -> int:
    """Return how long the longest operation of a file took."""
    found = 0
    for rows in row_groups([operations], ("start_at_ns", "end_at_ns", "quality")):
        length = numbers(rows.column("end_at_ns")) - numbers(rows.column("start_at_ns"))
        length = length[~set_aside(rows.column("quality"))]
        found = max(found, int(length.max(initial=0)))
    return found


def watched_ns(operations: Path, launches: Path | None) -> int:
    """Return how long a file watched: from its first operation or launch to the last."""
    span = _span(operations)
    for rows in row_groups([launches], ("start_at_ns",)) if launches is not None else ():
        span.add(numbers(rows.column("start_at_ns")))
    return span.last_ns - span.first_ns


def _codes(rows: Any) -> tuple[Any, Sequence[str | None]]:
    """Return the process of each row as a position in a list that ends with None."""
    column = words(rows.column("process_key"))
    names: list[str | None] = [*column.dictionary.to_pylist(), None]
    return _filled(column, len(names) - 1), names


def _kinds(column: Any) -> Any:
    """Return for each launch what its name says that it launched."""
    array = words(column)
    names = [text or "" for text in array.dictionary.to_pylist()] + [""]
    kinds = np.array([_kind_of(name) for name in names], np.int64)
    return kinds[_filled(array, len(names) - 1)]


def _kind_of(name: str) -> int:
    if _GRAPH.search(name):
        return _OF_GRAPH
    if _KERNEL.search(name):
        return _OF_KERNEL
    return _OF_COPY if _COPY.search(name) else _NEITHER


def _filled(array: Any, other: int) -> Any:
    """Return the positions of a dictionary column, `other` for NULL."""
    indices = array.indices.fill_null(other) if array.null_count else array.indices
    return indices.to_numpy(zero_copy_only=False)
