"""A stream runs its work in turn: lengths that overlap manyfold all the time are no lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ingest.traces import QUERIES, Answers, Event, copy, launched, of_case

from trueput.attribution.gpu.operations.crowded import crowded_places


def longer(events: Sequence[Event], factor: float, category: str = "kernel") -> list[Event]:
    return [e | {"dur": e["dur"] * factor} if e["cat"] == category else e for e in events]


def spread(events: Sequence[Event], streams: int) -> list[Event]:
    """The same operations on several streams in turn."""
    return [
        e | {"args": {**e["args"], "stream": at % streams}} if e["cat"] == "kernel" else e
        for at, e in enumerate(events)
    ]


RUN = launched(range(1, 101), range(1, 101))
"""A kernel of 60 us every 100 us: each runs in 0.6 of its time, factor by factor more of them."""


@dataclass(frozen=True)
class Case:
    events: Sequence[Event]
    marked: int
    late: int = 0
    """Kernels of which the end alone cannot be."""


CASES = {
    "as it is": Case(RUN, 0),
    # nanoseconds taken for microseconds
    "a thousand times": Case(longer(RUN, 1_000), 100),
    # 0.6 * 15 = 9 at once
    "fifteen times": Case(longer(RUN, 15), 100),
    "thrice, one let in before the other ends": Case(longer(RUN, 3), 0),
    "on four streams": Case(spread(longer(RUN, 15), 4), 0),
    "one hangs": Case([*RUN[:-1], RUN[-1] | {"dur": 900_000}], 0),
    # those behind it on the stream did not wait
    "one in the middle hangs": Case([*RUN[:150], RUN[150] | {"dur": 900_000}, *RUN[151:]], 0, 1),
    "few": Case(longer(launched(range(1, 41), range(1, 41)), 1_000), 0),
    # 100 copies of 5 us every 100 us beside the kernels, on the same stream
    "copies alone": Case(
        [*RUN, *longer([copy(n) for n in range(1, 101)], 1_000, "gpu_memcpy")], 100
    ),
    "a stream that is not told": Case(
        [
            {k: v for k, v in e.items() if k != "tid"}
            | {"args": {k: v for k, v in e["args"].items() if k != "stream"}}
            if e["cat"] == "kernel"
            else e
            for e in longer(RUN, 1_000)
        ],
        0,
    ),
    # all copies of one record are one
    "twenty times the same": Case([*RUN, *[e for e in RUN if e["cat"] == "kernel"] * 20], 0),
}


QUESTIONS = {
    "marked": "SELECT run_id, count(*) FROM gpu_ops WHERE quality = 'implausible' GROUP BY 1",
    "told": "SELECT run_id, occurrences FROM problems WHERE code = 'INGEST007'",
    "late": "SELECT run_id, occurrences FROM problems WHERE code = 'INGEST017'",
    "lost": QUERIES["lost"],
    "unions": QUERIES["unions"],
    "idle": "SELECT run_id, basis FROM gpu_ledger WHERE work = 'idle'",
}


@pytest.mark.parametrize("name", CASES)
def test_what_ran_in_turn(answers: Answers, name: str) -> None:
    case, answered = CASES[name], of_case(answers, CASES, name)
    found = {what: [value for (value,) in rows] for what, rows in answered.items()}
    assert found["marked"] == found["told"] == [case.marked] * (case.marked > 0)
    assert found["late"] == [case.late] * (case.late > 0)
    assert found["lost"] == [case.marked + case.late > 0]
    assert found["unions"] in ([], ["bounded" if case.marked + case.late else "measured"])
    assert ("measured" in found["idle"]) is (case.marked + case.late == 0)


@pytest.mark.parametrize(("processes", "crowded"), [(1, 1), (10, 0)])
def test_processes_that_share_a_device(tmp_path: Path, processes: int, crowded: int) -> None:
    """A stream number is of a process: each of ten runs its own in turn, ten at once."""
    numbers = range(200)
    columns: dict[str, list[Any]] = {
        "kind": ["kernel" for _ in numbers],
        "quality": [None for _ in numbers],
        "device_key": ["GPU-1" for _ in numbers],
        "process_key": [f"p{n % processes}" for n in numbers],
        "device": [0 for _ in numbers],
        "stream": [7 for _ in numbers],
        "start_at_ns": [100 * n for n in numbers],
        "end_at_ns": [100 * n + 990 for n in numbers],
    }
    texts = ("kind", "quality", "device_key", "process_key")
    table = {c: pa.array(v, pa.string() if c in texts else pa.int64()) for c, v in columns.items()}
    pq.write_table(pa.table(table), tmp_path / "ops")
    assert len(crowded_places(tmp_path / "ops")) == crowded
