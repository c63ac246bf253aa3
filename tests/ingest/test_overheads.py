"""How long a device was busy while its profiler worked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from trueput.attribution.gpu.profile.stretches import Stretches
from trueput.ingest.overheads import busy_within

CUTS = st.lists(st.integers(0, 60), unique=True, max_size=20).map(sorted)


def pairs(cuts: list[int]) -> list[tuple[int, int]]:
    """Disjoint stretches: every second piece between the cuts."""
    return list(zip(cuts[0::2], cuts[1::2], strict=False))


@given(busy=CUTS, others=CUTS, worked=CUTS, group=st.integers(1, 5), backwards=st.booleans())
def test_each_nanosecond_is_counted_once(
    tmp_path_factory: object,
    busy: list[int],
    others: list[int],
    worked: list[int],
    group: int,
    backwards: bool,
) -> None:
    """The nanoseconds are counted one by one; the file's row groups hold two devices."""
    rows = [("d", *p) for p in pairs(busy)] + [("e", *p) for p in pairs(others)]
    rows = rows[::-1] if backwards else rows
    path = Path(tmp_path_factory.getbasetemp()) / "busy.parquet"  # type: ignore[attr-defined]
    columns = {
        n: [r[i] for r in rows] for i, n in enumerate(("device_key", "start_at_ns", "end_at_ns"))
    }
    schema = pa.schema(
        {"device_key": pa.string(), "start_at_ns": pa.int64(), "end_at_ns": pa.int64()}
    )
    pq.write_table(pa.table(columns, schema), path, row_group_size=group)
    start, end = (np.array([p[i] for p in pairs(worked)], np.int64) for i in (0, 1))
    found = busy_within([path], "d", Stretches(start, end))
    ran = {at for a, b in pairs(busy) for at in range(a, b)}
    assert found.tolist() == [len(ran & set(range(a, b))) for a, b in pairs(worked)]
