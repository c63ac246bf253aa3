"""Recorded exports: counts, sums, unions, joins and the projection of ranges, to the nanosecond."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from typing import Any

import pytest
from sources.gpu_reading import fixture, problems_of, read_items, rows_of, span_facts

from trueput.source_api import HEAD_BYTES, Item
from trueput.sources.nsys_sqlite import SOURCE

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def items() -> list[Item]:
    """Everything of the recorded training step on two GPUs."""
    return read_items(SOURCE, fixture("nsys_ai/mfu_2gpu_before.sqlite"))


@pytest.fixture(scope="module")
def rows(items: list[Item]) -> dict[str, Rows]:
    """Its rows by table."""
    return rows_of(items)


FACTS = {
    0: (1993, 270875926, 270863484, 273817787, 299848812, 60111541307, 33, 17172652),
    1: (2017, 264324724, 264324724, 267275916, 298661551, 60111513113, 33, 8229100),
}


@pytest.mark.parametrize("device", [0, 1])
def test_sums_and_unions(rows: dict[str, Rows], device: int) -> None:
    ops = [o for o in rows["gpu_ops"] if o["device"] == device]
    kernels = [o for o in ops if o["kind"] == "kernel"]
    nccl = [o for o in kernels if o["class"] == "communication"]
    own, every, comm = span_facts(kernels), span_facts(ops), span_facts(nccl)
    assert (
        own["rows"], own["sum_ns"], own["union_ns"], every["union_ns"], every["span_ns"],
        min(o["start_at_ns"] for o in ops), comm["rows"], comm["union_ns"],
    ) == FACTS[device]  # fmt: skip
    assert len({o["device_key"] for o in ops}) == 1


def test_copies_by_kind(rows: dict[str, Rows]) -> None:
    copies = [o for o in rows["gpu_ops"] if o["kind"] == "memcpy"]
    moved: dict[str, int] = defaultdict(int)
    for copy in copies:
        moved[copy["name"]] += copy["bytes"]
    assert Counter(c["name"] for c in copies) == {"HtoD": 34, "DtoD": 986}
    assert moved == {"HtoD": 272, "DtoD": 8_046_134_272}


def test_launches_join_by_process_and_correlation(rows: dict[str, Rows]) -> None:
    launches = Counter((c["process_key"], c["correlation_id"]) for c in rows["gpu_launches"])
    ids = Counter(c["correlation_id"] for c in rows["gpu_launches"])
    kernels = [o for o in rows["gpu_ops"] if o["kind"] == "kernel"]
    assert len(kernels) == 4010
    assert sum(launches[o["process_key"], o["correlation_id"]] for o in kernels) == 3986
    assert sum(ids[o["correlation_id"]] for o in kernels) > 3986
    without = [o for o in rows["gpu_ops"]
               if (o["process_key"], o["correlation_id"]) not in launches]  # fmt: skip
    assert len(rows["gpu_ops"]) == 5299
    assert len(without) == 31
    assert all(o["graph_node_id"] is None for o in kernels)


def test_capture_and_problems(items: list[Item], rows: dict[str, Rows]) -> None:
    [capture] = rows["gpu_captures"]
    assert (capture["schema_version"], capture["graph_mode"]) == ("3.25.0", "graph")
    assert (capture["kernel_rows"], capture["status"]) == (4010, "whole")
    assert set(problems_of(items)) == {"NSYS017"}
    texts = repr(items) + repr(rows)
    assert "torchrun" not in texts
    assert "modal" not in texts
    assert "FastVideo" not in texts


def _projection(rows: dict[str, Rows]) -> dict[str, int]:
    """Project ranges on the GPU by launch: the call lies wholly inside the range on its thread."""
    ops: dict[tuple[str, int], Rows] = defaultdict(list)
    for op in rows["gpu_ops"]:
        ops[op["process_key"], op["correlation_id"]].append(op)
    calls: dict[str, Rows] = defaultdict(list)
    for call in rows["gpu_launches"]:
        if (call["process_key"], call["correlation_id"]) in ops:
            calls[call["thread_key"]].append(call)
    total = {"with_ops": 0, "sum_ns": 0, "sum_ops": 0}
    inside: set[int] = set()
    for thread, mine in calls.items():
        mine.sort(key=lambda c: c["start_at_ns"])
        starts = [c["start_at_ns"] for c in mine]
        for span in (r for r in rows["gpu_ranges"] if r["thread_key"] == thread):
            first = bisect_left(starts, span["start_at_ns"])
            held = [
                op
                for c in mine[first : bisect_left(starts, span["end_at_ns"] + 1)]
                if c["end_at_ns"] <= span["end_at_ns"]
                for op in ops[c["process_key"], c["correlation_id"]]
            ]
            if held:
                total["with_ops"] += 1
                total["sum_ops"] += len(held)
                total["sum_ns"] += max(o["end_at_ns"] for o in held) - min(
                    o["start_at_ns"] for o in held
                )
                inside |= {id(o) for o in held}
    return {**total, "in_some": len(inside)}


def test_ranges_and_their_projection(rows: dict[str, Rows]) -> None:
    ranges = rows["gpu_ranges"]
    assert len(ranges) == 19_118
    assert {r["style"] for r in ranges} == {"push_pop"}
    assert all(r["name"] for r in ranges)
    by_id = {"ncclCommCount", "ncclGroupEnd", "ncclGroupStart", "ncclRecv", "ncclSend"}
    assert sum(r["name"] in by_id for r in ranges) == 462
    assert _projection(rows) == {
        "with_ops": 9_621, "sum_ns": 1_130_895_551, "sum_ops": 12_213, "in_some": 5_268,
    }  # fmt: skip


def test_the_minimal_schema() -> None:
    path = fixture("nsys_ai/healthy_judged_1pct.sqlite")
    assert SOURCE.sniff(path.name, path.read_bytes()[:HEAD_BYTES]).score > 0.9
    rows = rows_of(read_items(SOURCE, path))
    assert span_facts(rows["gpu_ops"]) == {
        "rows": 20, "sum_ns": 4_000_000_000, "union_ns": 4_000_000_000, "span_ns": 4_038_000_000,
    }  # fmt: skip
    assert min(o["start_at_ns"] for o in rows["gpu_ops"]) == 0
    assert len(rows["gpu_launches"]) == 20
    assert {o["class"] for o in rows["gpu_ops"]} == {"compute"}
    assert rows["gpu_captures"][0]["schema_version"] == "3.24.14"
    assert rows["gpu_devices"][0]["name"] == "NVIDIA H100 80GB HBM3"
