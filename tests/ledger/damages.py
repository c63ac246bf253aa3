"""Single steps taken out of simulated profiles: what they ran, its calls, their annotations."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from bisect import bisect
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Event = dict[str, Any]
ACTIVITY = "CUPTI_ACTIVITY_KIND_"
CALLS = f"{ACTIVITY}RUNTIME"
OPERATIONS = tuple(f"{ACTIVITY}{k}" for k in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"))


@dataclass(frozen=True)
class Part:
    """A record of a profile: the number of its step on its rank, from 1, 0 outside of all."""

    step: int
    note: str
    """The annotation of the step."""
    place: float
    """Where the step lies in the profile, 0 to 1."""
    is_note: bool
    is_graph: bool
    """A launch of a graph, or what it ran."""


Goes = Callable[[Part], bool]


def stretch(part: Part) -> bool:
    """The fifth tenth of the time."""
    return 0.4 <= part.place <= 0.5


def prefills(part: Part) -> bool:
    """Every step that prefills."""
    return part.step > 0 and "context_0(" not in part.note


def every_fifth(part: Part) -> bool:
    return part.step > 0 and part.step % 5 == 0


def some_that_decode(part: Part) -> bool:
    """Of every third step, those that only decode."""
    return part.step > 0 and "context_0(" in part.note and part.step % 3 == 0


def half_of_the_graphs(part: Part) -> bool:
    return part.is_graph and part.step % 2 == 0


def graphs(part: Part) -> bool:
    return part.is_graph


def damage(folder: Path, goes: Goes, ranks: Collection[int] = (0, 1)) -> None:
    """Take records out of the profiles of some ranks in a run's folder."""
    for path in folder.rglob("*.pt.trace.json.gz"):
        found = re.search(r"_rank(\d+)", path.name)
        if found and int(found[1]) in ranks:
            content = json.loads(gzip.decompress(path.read_bytes()))
            content["traceEvents"] = _kept(content["traceEvents"], goes)
            path.write_bytes(gzip.compress(json.dumps(content).encode(), 1))
    for path in folder.glob("*.sqlite"):
        with sqlite3.connect(path) as export:
            for table, row in list(_gone(export, goes, ranks)):
                export.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (row,))
        export.close()


class _Steps:
    """The annotations of one rank: starts and texts, in order."""

    def __init__(self, notes: list[tuple[float, str]], first: float, last: float) -> None:
        self.begins = [at for at, _ in notes]
        self.texts = [text for _, text in notes]
        self.first, self.span = first, last - first
        self.of_call: dict[int, tuple[int, bool]] = {}

    def called(self, correlation: int, at: float, *, is_graph: bool) -> Part:
        self.of_call[correlation] = bisect(self.begins, at), is_graph
        return self.ran(correlation)

    def ran(self, correlation: int) -> Part:
        step, is_graph = self.of_call.get(correlation, (0, False))
        return self._part(step, is_note=False, is_graph=is_graph)

    def noted(self, at: float) -> Part:
        return self._part(bisect(self.begins, at), is_note=True, is_graph=False)

    def _part(self, step: int, *, is_note: bool, is_graph: bool) -> Part:
        if not step:
            return Part(0, "", -1.0, is_note, is_graph)
        place = (self.begins[step - 1] - self.first) / self.span
        return Part(step, self.texts[step - 1], place, is_note, is_graph)


def _kept(events: list[Event], goes: Goes) -> list[Event]:
    times = [float(e["ts"]) for e in events if "cat" in e]
    notes = [(float(e["ts"]), str(e["name"])) for e in events if e.get("cat") == "user_annotation"]
    steps = _Steps(sorted(notes), min(times), max(times))
    parts: dict[int, Part] = {}
    for place, event in enumerate(events):
        if event.get("cat") == "cuda_runtime":
            is_graph = "Graph" in event["name"]
            number = event["args"]["correlation"]
            parts[place] = steps.called(number, float(event["ts"]), is_graph=is_graph)
        elif event.get("cat") == "user_annotation":
            parts[place] = steps.noted(float(event["ts"]))
    for place, event in enumerate(events):
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            parts[place] = steps.ran(event["args"]["correlation"])
    return [e for place, e in enumerate(events) if place not in parts or not goes(parts[place])]


def _gone(
    export: sqlite3.Connection, goes: Goes, ranks: Collection[int]
) -> Iterator[tuple[str, int]]:
    """Yield table and row of what goes."""
    texts = dict(export.execute("SELECT id, value FROM StringIds"))
    tables = {name for (name,) in export.execute("SELECT name FROM sqlite_master")}
    first, last = export.execute(f"SELECT min(start), max(start) FROM {CALLS}").fetchone()
    notes = export.execute(
        "SELECT rowid, start, text, globalTid FROM NVTX_EVENTS WHERE eventType = 59 ORDER BY start"
    ).fetchall()
    for rank, process in enumerate(sorted({thread >> 24 for *_, thread in notes})):
        if rank not in ranks:
            continue
        mine = [(row, at, text) for row, at, text, thread in notes if thread >> 24 == process]
        steps = _Steps([(at, text) for _, at, text in mine], first, last)
        for row, at, _ in mine:
            if goes(steps.noted(at)):
                yield "NVTX_EVENTS", row
        calls = f"SELECT rowid, start, correlationId, nameId, globalTid FROM {CALLS}"
        for row, at, number, name, thread in export.execute(calls):
            if thread >> 24 == process and goes(
                steps.called(number, at, is_graph="Graph" in texts[name])
            ):
                yield CALLS, row
        for table in tables & set(OPERATIONS):
            ran = f"SELECT rowid, correlationId, globalPid FROM {table}"
            for row, number, owner in export.execute(ran):
                if owner >> 24 == process and goes(steps.ran(number)):
                    yield table, row
