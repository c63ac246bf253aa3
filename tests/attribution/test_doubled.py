"""Rows that stand twice in a part, against looking at all of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trueput.attribution.gpu.operations import doubled
from trueput.attribution.gpu.operations.doubled import Alike, doubled_rows

ALIKE = Alike("at", "end", ("name", "size"))
TYPES = {"at": pa.int64(), "end": pa.int64(), "name": pa.string(), "size": pa.float64()}
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.sampled_from([0, 1, 2, 10**9, 2**61]), st.integers(0, 20)),
        st.integers(0, 3),
        st.sampled_from([None, "a", "b"]),
        st.sampled_from([None, 0.0, 1.5]),
    ),
    max_size=40,
)


def write(path: Path, rows: list[tuple[Any, ...]], group: int) -> Path:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(TYPES)
    table = pa.table({
        name: pa.array(column, kind)
        for (name, kind), column in zip(TYPES.items(), columns, strict=True)
    })  # fmt: skip
    pq.write_table(table, path, row_group_size=group)
    return path


@settings(max_examples=examples(200), deadline=None)
@example([(2, 1, "a", 1.5)] * 9 + [(1, 1, "a", 1.5), (2, 1, "a", None)], 2)
@given(ROWS, st.integers(1, 9))
def test_all_but_one_of_each(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]], group: int
) -> None:
    rows = [(at, None if at is None else at + length, *rest) for at, length, *rest in rows]
    found = doubled_rows(write(tmp_path_factory.mktemp("d") / "p", rows, group), ALIKE)
    marked = Counter(
        rows[number * group + at]
        for number, which in found.rows.items()
        for at in np.flatnonzero(which).tolist()
    )
    expected = Counter({
        row: count - 1
        for row, count in Counter(rows).items()
        if count > 1 and row[0] is not None
    })  # fmt: skip
    assert marked == expected
    assert found.count == expected.total()


def test_what_must_be_known(tmp_path: Path) -> None:
    rows = [(1, 2, "a", None)] * 2 + [(1, 2, "b", 1.0)] * 2
    part = write(tmp_path / "p", rows, 4)
    assert doubled_rows(part, ALIKE).count == 2
    assert doubled_rows(part, Alike("at", "end", ("name",), needs=("size",))).count == 1


def test_a_part_far_from_order_of_time_is_not_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row group reaches to the end: all that was read is held."""
    rows = [(at, at + 1, "a", 1.0) for start in range(10) for at in range(start, 1_000, 10)] * 2
    part = write(tmp_path / "p", rows, 100)
    assert doubled_rows(part, ALIKE).count == 1_000
    monkeypatch.setattr(doubled, "MOST_HELD", 500)
    assert doubled_rows(part, ALIKE).count == 0
