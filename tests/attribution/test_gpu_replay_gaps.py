"""Idle time beside and inside replays of a graph that lack operations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from trueput.attribution.gpu.losses.replay_gaps import idle_beside_replays

Op = tuple[int, int, int]
"""Launch, start and end."""
TEXTS = ("process_key", "device_key", "quality")
COLUMNS = (*TEXTS, "correlation_id", "start_at_ns", "end_at_ns")


def write(path: Path, ops: Sequence[Op], device: str = "d") -> Path:
    rows = [("p", device, None, *op) for op in ops]
    columns = {
        name: pa.array([row[at] for row in rows], pa.string() if name in TEXTS else pa.int64())
        for at, name in enumerate(COLUMNS)
    }
    pq.write_table(pa.table(columns), path, row_group_size=4)
    return path


CASES: dict[str, tuple[list[Op], list[int], int]] = {
    # launch 2 ran from 20 to 50 with a gap of 10; 10 before it and 20 behind it are idle
    "before, inside and behind": ([(1, 0, 10), (2, 20, 30), (2, 40, 50), (3, 70, 80)], [2], 40),
    "nothing is idle": ([(1, 0, 20), (2, 20, 30), (2, 30, 50), (3, 50, 80)], [2], 0),
    # an operation of another launch ran in the gap inside
    "another ran inside": (
        [(1, 0, 20), (2, 20, 30), (9, 30, 38), (2, 40, 50), (3, 50, 80)], [2], 2,
    ),
    # the gap between them may hide what either lacks, and counts once
    "two replays in a row": ([(1, 0, 20), (2, 20, 30), (3, 45, 50), (4, 50, 80)], [2, 3], 15),
    "the last one of the file": ([(1, 0, 10), (2, 15, 30)], [2], 5),
    "none lacks any": ([(1, 0, 10), (2, 15, 30)], [7], 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_a_replay_lacks_ran_next_to_it(tmp_path: Path, name: str) -> None:
    ops, partial, idle = CASES[name]
    found = idle_beside_replays(write(tmp_path / "ops", ops), {"p": np.array(partial, np.int64)})
    assert found == idle


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=3, max_size=24),
    st.integers(1, 5),
    st.data(),
)  # fmt: skip
def test_a_node_that_is_taken_away_ran_in_what_is_found(
    tmp_path_factory: pytest.TempPathFactory,
    nodes: list[tuple[int, int]],
    size: int,
    data: st.DataObject,
) -> None:
    """One stream, graphs of `size` nodes: the time of a lost node is idle time that is found."""
    ops: list[Op] = []
    at = 0
    for n, (gap, length) in enumerate(nodes):
        ops.append((n // size + 1, at + gap, at + gap + length))
        at += gap + length
    lost = {data.draw(st.integers(0, len(ops) - 1))}
    left = [op for n, op in enumerate(ops) if n not in lost]
    launches = {op[0] for op in left} & {ops[n][0] for n in lost}
    ends = {min(op[0] for op in ops), max(op[0] for op in ops)}
    if not launches - ends:
        return
    partial = np.array(sorted(launches), np.int64)
    found = idle_beside_replays(write(tmp_path_factory.mktemp("r") / "ops", left), {"p": partial})
    assert found >= sum(ops[n][2] - ops[n][1] for n in lost)
