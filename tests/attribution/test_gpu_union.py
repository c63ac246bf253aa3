"""Stretches of busy time against a naive count of nanoseconds, whatever the order of operations."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trueput.arrow import conform
from trueput.attribution.gpu.profile import op_groups as gpu_op_groups
from trueput.attribution.gpu.profile import stretches
from trueput.attribution.gpu.profile.stretches import NONE, Cover, Stretches, united
from trueput.attribution.gpu.time.union import GpuUnion
from trueput.ingest.read import parquet_writer

BASE_NS = 1_750_000_000_000_000_000
"""Far beyond what floating point holds to the nanosecond."""
Row = tuple[str, str, int, int]


@dataclass(frozen=True)
class Op:
    """An operation; `length` may be 0 or, in a damaged file, negative."""

    source: str
    device: str
    kind: str
    start: int
    length: int
    process: str | None = None
    ordinal: int | None = None

    def row(self) -> dict[str, Any]:
        """The row of gpu_ops."""
        start = BASE_NS + self.start
        return {"device_key": self.device, "kind": self.kind, "start_at_ns": start,
                "end_at_ns": start + self.length, "process_key": self.process,
                "device": self.ordinal}  # fmt: skip


ops = st.builds(
    Op,
    st.sampled_from(["f", "g"]),
    st.sampled_from(["G0", "G1", "p7:0"]),
    st.sampled_from(["kernel", "kernel", "memcpy", "memset", "graph_span"]),
    st.integers(-40, 60),
    st.one_of(st.integers(-3, 12), st.integers(0, 90)),
    st.sampled_from([None, "1", "22", "3"]),
    st.sampled_from([None, 0, 1]),
)
lists_of_ops = st.one_of(
    st.lists(ops, max_size=40),
    st.lists(ops, max_size=40).map(lambda found: sorted(found, key=lambda o: o.start)),
)


def write(folder: Path, found: Iterable[Op], group_rows: int) -> list[Path]:
    """One part per file, in row groups of a size."""
    by_source: dict[str, list[dict[str, Any]]] = {}
    for op in found:
        by_source.setdefault(op.source, []).append(op.row())
    paths = []
    for source, rows in by_source.items():
        paths.append(folder / f"{source}.parquet")
        own = {"run_id": "r", "source_id": source}
        with parquet_writer("gpu_ops", paths[-1]) as writer:
            writer.write_table(conform("gpu_ops", rows, own), row_group_size=group_rows)
    return paths


def runs_of(cells: set[int]) -> list[tuple[int, int]]:
    """Maximal runs of neighbouring whole numbers, each with the number after its last."""
    found: list[tuple[int, int]] = []
    for cell in sorted(cells):
        if found and found[-1][1] == cell:
            found[-1] = (found[-1][0], cell + 1)
        else:
            found.append((cell, cell + 1))
    return found


def naive(found: Iterable[Op]) -> list[Row]:
    """The rows by marking every single nanosecond."""
    marked: dict[tuple[str, bool], set[int]] = {}
    for op in found:
        if op.kind != "graph_span":
            cells = marked.setdefault((op.device, op.kind == "kernel"), set())
            cells.update(range(op.start, op.start + op.length))
    rows: list[Row] = []
    for device in sorted({device for device, _ in marked}):
        kernels = marked.get((device, True), set())
        copies = marked.get((device, False), set()) - kernels
        for kind, cells in (("kernel", kernels), ("copy", copies)):
            rows += [(device, kind, BASE_NS + a, BASE_NS + b) for a, b in runs_of(cells)]
    return sorted(rows)


def made(union: GpuUnion) -> list[Row]:
    """The rows in the order in which they come."""
    rows: list[Row] = []
    for piece in union.stretches():
        table = conform("gpu_busy", piece, {}, coded=True).to_pylist()
        rows += [(r["device_key"], r["kind"], r["start_at_ns"], r["end_at_ns"]) for r in table]
        assert {r["run_id"] for r in table} == {"r"}
    return rows


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(found=lists_of_ops, group_rows=st.integers(1, 12), at_once=st.sampled_from([2, 5, 1 << 18]))
def test_stretches_are_those_of_marked_nanoseconds(
    found: list[Op], group_rows: int, at_once: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretches, "SLICE", at_once)
        patch.setattr(gpu_op_groups, "MAX_OPEN", 1)
        union = GpuUnion("r", write(Path(folder), found, group_rows))
        assert union.totals() == []
        rows = made(union)
        totals = union.totals()
    assert sorted(rows) == naive(found)
    for device, kind in {row[:2] for row in rows}:
        starts = [row[2] for row in rows if row[:2] == (device, kind)]
        assert starts == sorted(starts)
    expected = []
    for source, device in sorted({(o.source, o.device) for o in found}):
        own = [o for o in found if (o.source, o.device) == (source, device)]
        expected.append({
            "source_id": source, "device_key": device, "operations": len(own),
            "graph_spans": sum(o.kind == "graph_span" for o in own),
            "process_key": min((o.process for o in own if o.process is not None), default=None),
            "device": min((o.ordinal for o in own if o.ordinal is not None), default=None),
            "first_at_ns": BASE_NS + min(o.start for o in own),
            "last_at_ns": BASE_NS + max(o.start + o.length for o in own),
        })  # fmt: skip
    assert totals == expected


def test_copies_count_only_where_no_kernel_ran(tmp_path: Path) -> None:
    found = [
        Op("f", "G0", "kernel", 10, 10),  # 10..20
        Op("f", "G0", "memcpy", 0, 15),  # 0..15: alone 0..10
        Op("f", "G0", "memset", 18, 7),  # 18..25: alone 20..25
        Op("f", "G0", "memcpy", 25, 5),  # touches the memset: one stretch, 20..30
        Op("f", "G0", "kernel", 30, 0),  # of no duration
        Op("f", "G0", "graph_span", 0, 90),  # a span
        Op("g", "G0", "kernel", 20, 1),  # another file, same device: the kernels are one, 10..21
    ]
    expected = [("G0", "copy", 0, 10), ("G0", "kernel", 10, 21), ("G0", "copy", 21, 30)]
    union = GpuUnion("r", write(tmp_path, found, 3))
    rows = sorted(made(union), key=lambda row: row[2])
    assert [(d, k, a - BASE_NS, b - BASE_NS) for d, k, a, b in rows] == expected


def test_of_operations_in_order_only_the_open_end_is_held() -> None:
    # one copy as long as everything: it is given out as far as it is known, and holds nothing back
    cover = Cover()
    cover.add(NONE, Stretches(np.array([0]), np.array([100_000])))
    held = given_out = 0
    for at in range(0, 100_000, 1_000):
        starts = at + 10 * np.arange(1, 100)
        cover.add(united(starts, starts + 5), NONE)
        given_out += count(cover.settled(at + 1_000))
        held = max(held, cover.held)
    given_out += count(cover.settled(None))
    assert held <= 2
    # 99 kernels in each of 100 pieces, and the copy before, between and after them
    assert given_out == 9_900 + 9_901


def count(pieces: Iterable[tuple[Stretches, Stretches]]) -> int:
    """How many stretches there are."""
    return sum(part.size for pair in pieces for part in pair)


def test_parts_that_tell_no_earliest_start(tmp_path: Path) -> None:
    found = [Op("f", "G0", "kernel", start, 10) for start in (40, 0, 30, 5, 80)]
    (path,) = write(tmp_path, found, 2)
    pq.write_table(pq.read_table(path), path, row_group_size=2, write_statistics=False)
    rows = made(GpuUnion("r", [path]))
    assert [(a - BASE_NS, b - BASE_NS) for *_, a, b in rows] == [(0, 15), (30, 50), (80, 90)]


def test_without_operations_there_is_nothing(tmp_path: Path) -> None:
    union = GpuUnion("r", write(tmp_path, [], 1))
    assert made(union) == []
    assert union.totals() == []
