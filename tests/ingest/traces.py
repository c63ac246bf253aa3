"""Small made-up traces in Kineto's form, and what a store holds of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading
from trueput.verbs.sql import sql

BASE_NS = 1_767_189_312_000_000_000
EVERY_US, RUNS_US = 100, 60
"""A launch every 100 us, each for a kernel of 60 us that starts 10 us later."""

Event = dict[str, Any]


def launch(number: int, name: str = "cudaLaunchKernel") -> Event:
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 9, "tid": 9,
            "ts": number * EVERY_US, "dur": 5, "args": {"correlation": number}}  # fmt: skip


def kernel(number: int, correlation: int | None = None, **more: Any) -> Event:
    own = number if correlation is None else correlation
    return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7,
            "ts": number * EVERY_US + 10, "dur": RUNS_US,
            "args": {"device": 0, "stream": 7, "correlation": own}, **more}  # fmt: skip


def copy(number: int) -> Event:
    return {**kernel(number, 10_000 + number), "cat": "gpu_memcpy", "dur": 5}


def write(path: Path, events: Iterable[Event], **told: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS, **told}
    path.write_text(json.dumps({**content, "traceEvents": list(events)}))
    return path


class Held:
    """What a store holds of one run."""

    def __init__(self, run: Path) -> None:
        self.how = Reading(store=run.parent / f"store of {run.name}")
        ingest([run], store=self.how.store)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return sql(query, self.how).rows

    @property
    def idle(self) -> tuple[Any, ...]:
        """Idle time in us, its bounds, and what they rest on."""
        (row,) = self.rows(
            "SELECT time_ns // 1000, time_ns_low // 1000, time_ns_high // 1000, basis "
            "FROM gpu_ledger WHERE work = 'idle'"
        )
        return row

    @property
    def told(self) -> dict[str, int]:
        return dict(self.rows("SELECT code, sum(occurrences) FROM problems GROUP BY code"))


def launched(numbers: Iterable[int], ran: Iterable[int], **more: Any) -> list[Event]:
    return [*(launch(n, **more) for n in numbers), *(kernel(n) for n in ran)]


Answers = dict[str, list[tuple[Any, ...]]]
QUERIES = {
    "idle": "SELECT run_id, time_ns // 1000, time_ns_low // 1000, time_ns_high // 1000, basis "
    "FROM gpu_ledger WHERE work = 'idle'",
    "lost": "SELECT run_id, operations_lost FROM gpu_captures",
    "basis": "SELECT DISTINCT run_id, basis FROM gpu_activity",
    "unions": "SELECT DISTINCT run_id, basis FROM gpu_activity WHERE metric LIKE '%union'",
    "told": "SELECT run_id, code, occurrences FROM problems",
}
"""Idle time and its bounds in us, losses, bases, and problems; by run."""


def answers_of(
    folder: Path, traces: Iterable[Sequence[Event]], queries: Mapping[str, str] = QUERIES
) -> Answers:
    """Return what is held of traces, each a run of its own, numbered from `00`."""
    runs = folder / "runs"
    for number, events in enumerate(traces):
        write(runs / f"{number:02}" / "t.pt.trace.json", events)
    how = Reading(store=folder / "store")
    ingest([runs], store=how.store)
    return {name: sql(query, how).rows for name, query in queries.items()}


def of_case(answers: Answers, cases: Mapping[str, object], name: str) -> Answers:
    """Return what is held of one of several cases that `answers_of` was given, without its run."""
    run = f"{list(cases).index(name):02}"
    return {what: [row[1:] for row in rows if row[0] == run] for what, rows in answers.items()}
