"""Kernels that end after the next operation of their stream began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trueput.attribution.gpu.operations.early import Long
from trueput.attribution.gpu.operations.late import late_ends

MS = 1_000_000
Row = Mapping[str, Any]
COLUMNS = ("kind", "quality", "device_key", "process_key", "stream", "correlation_id",
           "start_at_ns", "end_at_ns")  # fmt: skip
TEXTS = COLUMNS[:4]
GROUP = 7
"""Rows of a row group."""


def ran(number: int, ms: float = 2, **own: Any) -> Row:
    """A kernel every 5 ms, for some time."""
    start = 5 * MS * number
    return {"kind": "kernel", "device_key": "d", "process_key": "p", "stream": 7,
            "correlation_id": number, "start_at_ns": start, "end_at_ns": start + round(ms * MS),
            **own}  # fmt: skip


def late_ids(folder: Path, operations: Sequence[Row]) -> list[int]:
    table = {c: pa.array([r.get(c) for r in operations], pa.string() if c in TEXTS else pa.int64())
             for c in COLUMNS}  # fmt: skip
    pq.write_table(pa.table(table), folder / "ops", row_group_size=GROUP)
    long = Long.of(folder / "ops")
    groups = range(-(-len(operations) // GROUP))
    for group in groups:
        rows = pq.ParquetFile(folder / "ops").read_row_group(group)
        long.look(group, rows["start_at_ns"].to_numpy(), rows["end_at_ns"].to_numpy())
    found = late_ends(folder / "ops", long)
    if found is None:
        return []
    return [
        operations[group * GROUP + n]["correlation_id"]
        for group in groups
        for n, is_late in enumerate(found.of_group(group, GROUP))
        if is_late
    ]


def with_one(number: int, one: Row) -> list[Row]:
    """Forty kernels, one of them another one."""
    return [one if n == number else ran(n) for n in range(1, 41)]


@pytest.mark.parametrize(
    ("operations", "late"),
    [
        pytest.param([ran(n) for n in range(1, 41)], [], id="sound"),
        pytest.param(with_one(20, ran(20, 60)), [20], id="one"),
        pytest.param([ran(n, 60 if n in {5, 20} else 2) for n in range(1, 41)], [5, 20], id="two"),
        # nothing follows it
        pytest.param(with_one(40, ran(40, 60)), [], id="the last"),
        pytest.param(with_one(20, ran(20, 60, stream=8)), [], id="on a stream of its own"),
        pytest.param(with_one(20, ran(20, 60, process_key="q")), [], id="of another process"),
        pytest.param(with_one(20, ran(20, 60, kind="memcpy")), [], id="no kernel"),
        pytest.param(with_one(20, ran(20, 60, quality="implausible")), [], id="set aside"),
        # successors that its own launch started are branches of its graph
        pytest.param(
            [ran(n, 60 if n == 20 else 2, correlation_id=20 if n >= 20 else n)
             for n in range(1, 41)], [], id="a branch of a graph",
        ),
        # kernels are let in before their predecessor ends
        pytest.param([ran(n, 60 if n == 20 else 6) for n in range(1, 41)], [], id="overlapping"),
        # half a millisecond into its successor
        pytest.param(
            [ran(n, 17.5 if n == 20 else 2) for n in range(1, 41) if n not in {21, 22}], [],
            id="by little",
        ),
        pytest.param([ran(n, 60 if n == 3 else 2) for n in range(1, 9)], [], id="too few others"),
    ],
)  # fmt: skip
def test_what_ends_after_its_successor_began(
    tmp_path: Path, operations: list[Row], late: list[int]
) -> None:
    assert late_ids(tmp_path, operations) == late
