"""Operations that replays of graphs lack, and the idle time beside launches that lost theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from trueput.attribution.gpu.losses.holes import BESIDE, Lost, idle_beside
from trueput.attribution.gpu.losses.replays import replayed
from trueput.attribution.gpu.losses.unseen import Launched

Rows = Sequence[Mapping[str, Any]]
TYPES = {"process_key": pa.string(), "device_key": pa.string(), "quality": pa.string()}


def write(path: Path, rows: Rows, columns: Sequence[str]) -> Path:
    """A part of gpu_ops in small row groups."""
    table = {c: pa.array([r.get(c) for r in rows], TYPES.get(c, pa.int64())) for c in columns}
    pq.write_table(pa.table(table), path, row_group_size=5)
    return path


GRAPH = ("process_key", "correlation_id", "graph_node_id", "quality")


def graph(path: Path, *replays: tuple[int, Sequence[int]], process: str = "p") -> Path:
    """Operations of launches: the launch and the nodes that it ran."""
    rows = [
        {"process_key": process, "correlation_id": launch, "graph_node_id": node}
        for launch, nodes in replays
        for node in nodes
    ]
    return write(path, rows, GRAPH)


A, B = range(1, 9), range(11, 15)
"""Nodes of two graphs."""


@pytest.mark.parametrize(
    ("replays", "whole", "missing"),
    [
        pytest.param([(1, A), (2, B), (3, A), (4, B)], 24, 0, id="every node ran"),
        pytest.param([(1, A), (2, A[:3]), (3, A), (4, A)], 32, 5, id="one replay was cut"),
        pytest.param([(1, A[:1]), (2, A), (3, A), (4, A[:2])], 32, 0, id="the ends of a capture"),
        # no replay has all nodes, but each pair shares some
        pytest.param([(9, B), (1, B), (2, A[:5]), (3, A[4:]), (4, A)], 32, 7, id="never whole"),
        pytest.param([(1, A), (2, [*A, 1]), (3, A[:2]), (4, A)], 0, 0, id="a loop"),
    ],
)  # fmt: skip
def test_replays_of_a_graph_run_all_of_its_nodes(
    tmp_path: Path, replays: Sequence[tuple[int, Sequence[int]]], whole: int, missing: int
) -> None:
    assert replayed(graph(tmp_path / "ops", *replays)).launched == Launched(whole, missing)


def test_an_operation_that_stands_twice_is_no_second_one(tmp_path: Path) -> None:
    """One replay ran five nodes less; another holds a node twice, and is no loop."""
    rows: Rows = [
        {"process_key": "p", "correlation_id": launch, "graph_node_id": node}
        for launch, nodes in ((1, A), (2, A[:3]), (3, A), (4, A))
        for node in nodes
    ]
    rows = [*rows, {**rows[0], "quality": "duplicate"}, {**rows[-2], "quality": "duplicate"}]
    assert replayed(write(tmp_path / "ops", rows, GRAPH)).launched == Launched(32, 5)


def test_operations_that_are_of_no_graph_are_not_looked_at(tmp_path: Path) -> None:
    rows = [{"process_key": "p", "correlation_id": n} for n in range(1, 12)]
    part = write(tmp_path / "ops", rows, GRAPH)
    assert replayed(part).launched == Launched()


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 30), st.booleans()), min_size=1, max_size=30
    ),
    st.integers(1, 3),
)
def test_idle_beside_the_lost_is_that_of_counting_every_instant(
    tmp_path_factory: pytest.TempPathFactory, launches: list[tuple[int, int, bool]], streams: int
) -> None:
    """`launches`: time between calls, length of the kernel, and whether it is lost."""
    called = np.cumsum([gap for gap, _, _ in launches]).tolist()
    free = [0] * streams
    ran: dict[int, tuple[int, int]] = {}
    for n, (at, (_, length, is_lost)) in enumerate(zip(called, launches, strict=True), 1):
        start = max(at + 1, free[n % streams])
        free[n % streams] = start + length
        if not is_lost:
            ran[n] = start, start + length
    until = max(*free, called[-1]) + 5
    rows = [
        {"process_key": "p", "device_key": "d", "correlation_id": n, "start_at_ns": start,
         "end_at_ns": end}
        for n, (start, end) in ran.items()
    ]  # fmt: skip
    columns = ("process_key", "device_key", "quality", "correlation_id", "start_at_ns", "end_at_ns")
    part = write(tmp_path_factory.mktemp("holes") / "ops", rows, columns)
    lost = Lost()
    gone = [n for n, (_, _, is_lost) in enumerate(launches, 1) if is_lost]
    lost.add(np.array(gone, np.int64), np.array([called[n - 1] for n in gone], np.int64))

    expected: set[int] = set()
    for n in gone if ran else ():
        before = [ran[m] for m in sorted(ran, reverse=True) if m < n][:BESIDE]
        after = [ran[m] for m in sorted(ran) if m > n][:BESIDE]
        begin = max([called[n - 1], *([min(s for s, _ in before)] if before else [])])
        end = max(s for s, _ in after) if after else until
        busy = {t for s, e in before + after for t in range(s, e)}
        expected |= set(range(begin, end)) - busy
    found = idle_beside(part, {"p": 0}, {0: lost}, until) if gone else 0
    assert found == len(expected)


def test_the_device_with_most_idle_time_counts(tmp_path: Path) -> None:
    """Launch 2 of 3 is lost: device a is idle from 10 to 90, device b from 10 to 20."""
    rows = [
        {"process_key": "p", "device_key": device, "correlation_id": n, "start_at_ns": start,
         "end_at_ns": end}
        for device, n, start, end in (("a", 1, 0, 10), ("a", 3, 90, 95), ("b", 1, 0, 10),
                                      ("b", 3, 20, 30))
    ]  # fmt: skip
    columns = ("process_key", "device_key", "quality", "correlation_id", "start_at_ns", "end_at_ns")
    lost = Lost()
    lost.add(np.array([2], np.int64), np.array([5], np.int64))
    assert idle_beside(write(tmp_path / "ops", rows, columns), {"p": 0}, {0: lost}, 100) == 80
