"""Operations that begin before the call that launched them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trueput.attribution.gpu.operations.early import Long, early_operations

MS = 1_000_000
Row = Mapping[str, Any]
TEXTS = ("process_key", "quality")
GROUP = 5
"""Rows of a row group."""


def written(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> Path:
    table = {c: pa.array([r.get(c) for r in rows], pa.string() if c in TEXTS else pa.int64())
             for c in columns}  # fmt: skip
    pq.write_table(pa.table(table), path, row_group_size=GROUP)
    return path


def call(number: int, process: str = "p", at_ms: float = 0) -> Row:
    """A call every 100 ms."""
    start = round((at_ms or 100 * number) * MS)
    return {"process_key": process, "correlation_id": number, "start_at_ns": start}


def ran(
    number: int, early_ms: float = 0, more_ms: float = 0, process: str = "p", **own: Any
) -> Row:
    """What it launched: from 1 ms after it, for 5 ms; or begun earlier, or wholly earlier."""
    start, end = 100 * number + 1 - early_ms - more_ms, 100 * number + 6 - more_ms
    return {"process_key": process, "correlation_id": number, "start_at_ns": round(start * MS),
            "end_at_ns": round(end * MS), **own}  # fmt: skip


def early_ids(folder: Path, operations: Sequence[Row], calls: Sequence[Row]) -> list[int]:
    names = ("process_key", "correlation_id", "quality", "start_at_ns", "end_at_ns")
    part = written(folder / "ops", operations, names)
    long = Long.of(part)
    for group in range(-(-len(operations) // GROUP)):
        rows = pq.ParquetFile(part).read_row_group(group)
        long.look(group, rows["start_at_ns"].to_numpy(), rows["end_at_ns"].to_numpy())
    found = early_operations(part, written(folder / "calls", calls, names[:2] + names[3:4]), long)
    if found is None:
        return []
    at = [n for group in range(-(-len(operations) // GROUP))
          for n, is_early in enumerate(found.of_group(group, GROUP), group * GROUP)
          if is_early]  # fmt: skip
    return [operations[n]["correlation_id"] for n in at]


TWENTY = range(1, 21)


@pytest.mark.parametrize(
    ("operations", "calls", "early"),
    [
        pytest.param([ran(n) for n in TWENTY], [call(n) for n in TWENTY], [], id="sound"),
        pytest.param(
            [ran(n, 80 * (n == 17)) for n in TWENTY], [call(n) for n in TWENTY], [17], id="one"
        ),
        pytest.param(
            [ran(n, 80 * (n == 17)) for n in TWENTY], [call(n) for n in TWENTY if n != 17], [],
            id="its call is not known",
        ),
        pytest.param(
            [ran(n, 9 * (n == 17)) for n in TWENTY], [call(n) for n in TWENTY], [],
            id="by as much as clocks are off",
        ),
        pytest.param(
            [ran(n, 80 * (n == 17)) for n in TWENTY],
            [*(call(n) for n in TWENTY), call(17, at_ms=1_600)], [],
            id="an earlier call of the same id",
        ),
        pytest.param(
            [ran(n, 80 * (n == 17)) for n in TWENTY],
            [call(n, "q" if n == 17 else "p") for n in TWENTY], [],
            id="a call of another process",
        ),
        pytest.param(
            [ran(n, 80 * (n == 17), quality="duplicate" if n == 17 else None) for n in TWENTY],
            [call(n) for n in TWENTY], [], id="a row that counts nowhere",
        ),
        # the last call of the file is made after 200 s, the early one is 85 ms long
        pytest.param(
            [ran(n, 80 * (n == 17)) for n in (*TWENTY, 2_000)],
            [call(n) for n in (*TWENTY, 2_000)],
            [],
            id="too short to matter",
        ),
        # of the twenty, 17 lasts long enough to be looked at
        pytest.param(
            [ran(n, 30 * (n == 17), 50) for n in TWENTY], [call(n) for n in TWENTY], [],
            id="a device whose clock is 50 ms behind",
        ),
    ],
)  # fmt: skip
def test_what_begins_before_its_call(
    tmp_path: Path, operations: Sequence[Row], calls: Sequence[Row], early: list[int]
) -> None:
    assert early_ids(tmp_path, operations, calls) == early
