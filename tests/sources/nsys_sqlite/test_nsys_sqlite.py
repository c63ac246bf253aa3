"""SQLite exports of many schemas -> rows."""

from __future__ import annotations

import gzip
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sources.gpu_reading import check_bytes, problems_of, read_items, rows_of
from sources.nsys_sqlite.exports import (
    GRAPH,
    KERNEL,
    MEMCPY,
    MEMSET,
    P1,
    P2,
    RUNTIME,
    UTC_NS,
    Content,
    call,
    kernel,
    mark,
    session,
    strings,
    write_sqlite,
)

from trueput.clock import ClockKind
from trueput.scan import read_head
from trueput.source_api import HEAD_BYTES, Clock, Fact, Item, ReadOptions
from trueput.sources.nsys_sqlite import SOURCE


def items_of(tmp_path: Path, content: Content, **more: str) -> list[Item]:
    """Everything that an export of this content yields."""
    return read_items(SOURCE, write_sqlite(tmp_path / "x.sqlite", content, more))


def found(tmp_path: Path, content: Content, **more: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of an export of this content."""
    return rows_of(items_of(tmp_path, content, **more))


def clock_of(items: list[Item]) -> Clock:
    """The one clock."""
    [clock] = [i for i in items if isinstance(i, Clock)]
    return clock


def eager() -> Content:
    """Two kernels, a copy and a memset of one process, with their calls."""
    copy = {"start": 320, "end": 330, "deviceId": 0, "contextId": 1, "streamId": 7,
            "correlationId": 3, "globalPid": P1, "bytes": 4096, "copyKind": 1}  # fmt: skip
    memset = {**copy, "start": 340, "end": 341, "correlationId": 4, "bytes": 64}
    del memset["copyKind"]
    return {
        **session(),
        "StringIds": strings(),
        KERNEL: [kernel(100, 200, 1), kernel(150, 300, 2, demangledName=3, streamId=13)],
        MEMCPY: [copy],
        MEMSET: [memset],
        RUNTIME: [call(10, 20, 1), call(21, 30, 2), call(31, 40, 3, name=12),
                  call(41, 50, 4, name=14), call(51, 60, 5, name=13)],
    }  # fmt: skip


def test_eager_operations_and_their_calls(tmp_path: Path) -> None:
    rows = found(tmp_path, eager())
    common = {"device": 0, "device_key": "p111:0", "process_key": str(P1), "context_id": 1}
    none = {"graph_node_id": None, "quality": None}
    assert rows["gpu_ops"] == [
        {"kind": "kernel", "class": "compute", "start_at_ns": 100, "end_at_ns": 200, **common,
         "stream": 7, "correlation_id": 1, "name": "void gemm<float>(float*)", "bytes": None,
         **none},
        {"kind": "kernel", "class": "communication", "start_at_ns": 150, "end_at_ns": 300,
         **common, "stream": 13, "correlation_id": 2, "name": "ncclDevKernel_AllReduce(int)",
         "bytes": None, **none},
        {"kind": "memcpy", "class": None, "start_at_ns": 320, "end_at_ns": 330, **common,
         "stream": 7, "correlation_id": 3, "name": "HtoD", "bytes": 4096, **none},
        {"kind": "memset", "class": None, "start_at_ns": 340, "end_at_ns": 341, **common,
         "stream": 7, "correlation_id": 4, "name": "memset", "bytes": 64, **none},
    ]  # fmt: skip
    # A call of an unknown name is kept because an operation is its own; an event record is not.
    assert [(c["api"], c["correlation_id"]) for c in rows["gpu_launches"]] == [
        ("cudaLaunchKernel", 1),
        ("cudaLaunchKernel", 2),
        ("cudaMemcpyAsync", 3),
        ("cuSomethingNew", 4),
    ]
    assert {c["thread_key"] for c in rows["gpu_launches"]} == {str(P1 + 5)}
    [capture] = rows["gpu_captures"]
    assert capture == {
        "profiler": "nsys", "schema_version": "3.25.0", "status": "whole", "graph_mode": None,
        "graph_launches": 0, "graphs_hidden": False, "operations_lost": False, "unseen_ns": None,
        "off_clock": None, "copies_missing": None, "dropped_operations": None,
        "kernel_rows": 2, "graph_span_rows": 0, "dropped_rows": 0,
        "overhead_ns": None, "started_at_ns": 0, "ended_at_ns": 1_000_000,
    }  # fmt: skip


def test_correlation_ids_of_two_processes_are_kept_apart(tmp_path: Path) -> None:
    content = {
        "StringIds": strings(),
        KERNEL: [kernel(100, 200, 7, P1)],
        RUNTIME: [call(1, 2, 7, P1 + 1, name=14), call(1, 2, 7, P2 + 1, name=14)],
    }
    [launch] = found(tmp_path, content)["gpu_launches"]
    assert launch["process_key"] == str(P1)


def test_graph_mode_gives_spans_not_kernels(tmp_path: Path) -> None:
    span = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": P1, "graphId": 1,
            "graphExecId": 2}  # fmt: skip
    items = items_of(
        tmp_path,
        {
            **session(),
            "META_DATA_CAPTURE": [{"name": "CUDA_GRAPH_TRACE_OPTIONS:MODE", "value": "Graph"}],
            "StringIds": strings(),
            GRAPH: [
                {**span, "start": 100, "end": 200, "correlationId": 1},
                {**span, "start": 0, "end": 0, "correlationId": 2},
                {**span, "start": 300, "end": 400, "correlationId": 3, "deviceId": 2**31 - 1},
            ],
            RUNTIME: [call(1, 2, 1, name=11), call(3, 4, 2, name=11), call(5, 6, 3, name=11)],
        },
    )
    rows = rows_of(items)
    ops = rows["gpu_ops"]
    assert [(o["kind"], o["device"], o["device_key"]) for o in ops] == [
        ("graph_span", 0, "p111:0"),
        ("graph_span", None, "p111:?"),
    ]
    [capture] = rows["gpu_captures"]
    assert (capture["graph_mode"], capture["graph_launches"]) == ("graph", 3)
    assert (capture["kernel_rows"], capture["graph_span_rows"]) == (0, 3)
    assert capture["graphs_hidden"] is True
    assert capture["dropped_rows"] == 1
    problems = problems_of(items)
    assert problems["NSYS006"] == 1
    assert problems["NSYS022"] == 3
    assert "NSYS011" not in problems


def test_node_mode_shares_the_launch_among_kernels(tmp_path: Path) -> None:
    kernels = [kernel(100 + i, 101 + i, 9, graphNodeId=i + 1) for i in range(4)]
    items = items_of(
        tmp_path,
        {"StringIds": strings(), KERNEL: kernels, RUNTIME: [call(1, 2, 9, name=11)]},
    )
    rows = rows_of(items)
    assert [o["graph_node_id"] for o in rows["gpu_ops"]] == [1, 2, 3, 4]
    assert {o["correlation_id"] for o in rows["gpu_ops"]} == {9}
    assert rows["gpu_captures"][0]["graph_mode"] == "node"
    assert rows["gpu_captures"][0]["graphs_hidden"] is False
    assert "NSYS011" not in problems_of(items)


def test_a_capture_that_is_blind_to_graphs_says_so(tmp_path: Path) -> None:
    content = {
        "StringIds": strings(),
        KERNEL: [kernel(10, 20, 1)],
        RUNTIME: [call(1, 2, 1), call(3, 4, 2, name=11), call(5, 6, 3, name=11)],
    }
    items = items_of(tmp_path, content)
    assert problems_of(items)["NSYS011"] == 2
    assert rows_of(items)["gpu_captures"][0]["graphs_hidden"] is True


def test_what_was_seen_decides_whether_graphs_are_hidden(tmp_path: Path) -> None:
    """Not the mode that was asked for: kernels tied to a graph launch by their id are its own."""
    content = {
        "META_DATA_CAPTURE": [{"name": "CUDA_GRAPH_TRACE_OPTIONS:MODE", "value": "Node"}],
        "StringIds": strings(),
        KERNEL: [kernel(10, 20, 1), kernel(30, 40, 2)],
        RUNTIME: [call(1, 2, 1), call(3, 4, 2, name=11)],
    }
    items = items_of(tmp_path, content)
    assert rows_of(items)["gpu_captures"][0]["graphs_hidden"] is False
    assert "NSYS011" not in problems_of(items)
    blind = items_of(tmp_path, {**content, KERNEL: [kernel(10, 20, 1)]})
    assert rows_of(blind)["gpu_captures"][0]["graphs_hidden"] is True
    no_calls = items_of(tmp_path, {"StringIds": strings(), KERNEL: [kernel(10, 20, 1)]})
    assert rows_of(no_calls)["gpu_captures"][0]["graphs_hidden"] is None


@pytest.mark.parametrize(
    ("table", "name", "value", "hidden"),
    [
        ("META_DATA_CAPTURE", "CUDA_GRAPH_TRACE_OPTIONS:MODE", "Graph", True),
        ("META_DATA_EXPORT", "EXPORT_PARAM_TABLES_TO_EXPORT", "CUPTI_ACTIVITY_KIND_KERNEL", True),
        ("META_DATA_CAPTURE", "CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node", None),
    ],
)
def test_graphs_that_no_exported_table_would_show(
    tmp_path: Path, table: str, name: str, value: str, hidden: bool | None
) -> None:
    """A graph traced as a whole has a call and a span, and neither table was exported."""
    content = {
        table: [{"name": name, "value": value}],
        "StringIds": strings(),
        KERNEL: [kernel(10, 20, 1)],
    }
    items = items_of(tmp_path, content)
    assert rows_of(items)["gpu_captures"][0]["graphs_hidden"] is hidden
    assert ("NSYS027" in problems_of(items)) is (hidden is True)
    with_calls = items_of(tmp_path, {**content, RUNTIME: [call(1, 2, 1)]})
    assert rows_of(with_calls)["gpu_captures"][0]["graphs_hidden"] is False


def test_a_kernel_of_a_graph_shows_that_graphs_are_traced_by_kernel(tmp_path: Path) -> None:
    content = {
        "META_DATA_EXPORT": [{"name": "EXPORT_PARAM_TABLES_TO_EXPORT", "value": KERNEL}],
        "StringIds": strings(),
        KERNEL: [kernel(10, 20, 1, graphNodeId=4)],
    }
    [capture] = found(tmp_path, content)["gpu_captures"]
    assert (capture["graph_mode"], capture["graphs_hidden"]) == ("node", None)


@pytest.mark.parametrize("ordinal", [2**31 - 1, -7, 65_536])
def test_an_ordinal_that_no_device_can_have_names_none(tmp_path: Path, ordinal: int) -> None:
    content = {"StringIds": strings(), KERNEL: [kernel(10, 20, 1), kernel(30, 40, 2)]}
    content[KERNEL][1]["deviceId"] = ordinal
    ops = found(tmp_path, content)["gpu_ops"]
    assert [(o["device"], o["device_key"]) for o in ops] == [(0, "p111:0"), (None, "p111:?")]


def test_launches_without_any_operation(tmp_path: Path) -> None:
    items = items_of(tmp_path, {"StringIds": strings(), RUNTIME: [call(1, 2, 1), call(3, 4, 2)]})
    problems = problems_of(items)
    assert problems["NSYS010"] == 1
    assert problems["NSYS016"] == 2
    assert len(rows_of(items)["gpu_launches"]) == 2


def test_empty_tables_are_not_idle_devices(tmp_path: Path) -> None:
    columns = 'start INTEGER, "end" INTEGER, deviceId INTEGER, correlationId INTEGER'
    items = items_of(tmp_path, session(), **{KERNEL: columns, MEMCPY: columns})
    assert problems_of(items)["NSYS010"] == 1
    assert set(rows_of(items)) == {"gpu_captures"}
    assert clock_of(items).kind is ClockKind.NONE


def test_old_columns_with_fillers_instead_of_null(tmp_path: Path) -> None:
    old = {"start": 100, "end": 200, "deviceId": 0, "contextId": 1, "streamId": 7,
           "correlationId": 0, "globalPid": P1, "demangledName": 1, "graphNodeId": 0}  # fmt: skip
    columns = ", ".join(f'"{name}" INTEGER NOT NULL DEFAULT 0' for name in old)
    rows = found(tmp_path, {"StringIds": strings(), KERNEL: [old]}, **{KERNEL: columns})
    [op] = rows["gpu_ops"]
    assert op["correlation_id"] is None
    assert op["graph_node_id"] is None
    assert rows["gpu_captures"][0]["graph_mode"] is None


def test_operations_without_process_take_the_only_one(tmp_path: Path) -> None:
    bare = {"start": 100, "end": 200, "deviceId": 0, "streamId": 7, "correlationId": 1,
            "shortName": 2}  # fmt: skip
    content = {"StringIds": strings(), KERNEL: [bare], RUNTIME: [call(1, 2, 1)]}
    rows = found(tmp_path, content)
    assert rows["gpu_ops"][0]["process_key"] == rows["gpu_launches"][0]["process_key"] == str(P1)
    assert rows["gpu_ops"][0]["name"] == "gemm"
    two = {**content, RUNTIME: [call(1, 2, 1), call(1, 2, 1, P2 + 1)]}
    items = items_of(tmp_path, two)
    assert rows_of(items)["gpu_ops"][0]["process_key"] is None
    assert rows_of(items)["gpu_ops"][0]["device_key"] == "p?:0"
    assert problems_of(items)["NSYS018"] == 1


def test_devices_by_uuid_by_process_and_of_two_containers(tmp_path: Path) -> None:
    other_vm = P1 + (1 << 48)
    content: Content = {
        KERNEL: [kernel(1, 2, 1, P1), kernel(1, 2, 1, P2), kernel(3, 4, 2, P2, deviceId=1),
                 kernel(5, 6, 3, other_vm, deviceId=3)],
        "TARGET_INFO_GPU": [
            {"id": 4, "name": "A GPU", "totalMemory": 80, "uuid": "GPU-a"},
            {"id": 5, "name": "A GPU", "totalMemory": 80, "uuid": "GPU-b"},
        ],
        "TARGET_INFO_CUDA_DEVICE": [
            {"gpuId": 4, "cudaId": 0, "pid": 111, "uuid": None},
            {"gpuId": 5, "cudaId": 0, "pid": 222, "uuid": "MIG-b1"},
        ],
    }  # fmt: skip
    items = items_of(tmp_path, content)
    rows = rows_of(items)
    keys = [o["device_key"] for o in rows["gpu_ops"]]
    assert keys == ["GPU-a", "MIG-b1", "p222:1", "p111:3"]
    named = {d["device_key"]: (d["device"], d["name"], d["uuid"]) for d in rows["gpu_devices"]}
    assert named == {
        "GPU-a": (0, "A GPU", "GPU-a"),
        "MIG-b1": (0, "A GPU", "MIG-b1"),
        "p222:1": (1, None, None),
        "p111:3": (3, None, None),
        "GPU-b": (None, "A GPU", "GPU-b"),
    }
    assert problems_of(items)["NSYS017"] == 2
    assert Fact("hardware", "A GPU") in items
    content = {KERNEL: [kernel(1, 2, 1, P1), kernel(1, 2, 1, other_vm)]}
    keys = [o["device_key"] for o in found(tmp_path, content)["gpu_ops"]]
    assert keys == ["p111:0", f"p111@{other_vm:x}:0"]


def test_ranges(tmp_path: Path) -> None:
    content: Content = {
        **eager(),
        "StringIds": strings(s20="ncclAllGather", s21="NCCL"),
        "NVTX_EVENTS": [
            mark(1, None, None, eventType=75, textId=21, domainId=1),
            mark(5, 100, "execute_context_2(14721)_generation_3(4)"),
            mark(6, 50, None, textId=20, domainId=1),
            mark(7, 40, "", eventType=60, endGlobalTid=P1 + 6, rangeId=3),
            mark(8, 41, "same", eventType=60, endGlobalTid=P1 + 5, rangeId=4),
            mark(9, None, "unclosed"),
            mark(10, 9, "backwards"),
            mark(11, 11, "a mark", eventType=34),
        ],
    }
    items = items_of(tmp_path, content)
    ranges = rows_of(items)["gpu_ranges"]
    keys = ("name", "domain", "thread_key", "style", "dialect")
    assert [tuple(r[k] for k in keys) for r in ranges] == [
        ("execute_context_2(14721)_generation_3(4)", None, str(P1 + 5), "push_pop", "vllm"),
        ("ncclAllGather", "NCCL", str(P1 + 5), "push_pop", None),
        (None, None, None, "start_end", None),
        ("same", None, str(P1 + 5), "start_end", None),
    ]
    told = ("context_requests", "context_tokens", "generation_requests", "generation_tokens")
    assert [ranges[0][k] for k in told] == [2, 14721, 3, 4]
    assert [ranges[1][k] for k in told] == [None] * 4
    problems = problems_of(items)
    assert (problems["NSYS007"], problems["NSYS008"], problems["NSYS009"]) == (1, 1, 1)


def test_clock_by_session_start_shift_epoch_or_nothing(tmp_path: Path) -> None:
    assert clock_of(items_of(tmp_path, eager())) == Clock(
        ClockKind.RELATIVE, UTC_NS, 1_000_000, "nsys: session start in UTC"
    )
    second = UTC_NS // 1_000_000_000 * 1_000_000_000
    rounded: Content = {**eager(), "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": second}]}
    assert clock_of(items_of(tmp_path, rounded)).uncertainty_ns == 1_000_000_000
    shifted: Content = {
        **eager(), "META_DATA_EXPORT": [{"name": "EXPORT_PARAM_TIME_SHIFT", "value": "50"}]
    }  # fmt: skip
    items = items_of(tmp_path, shifted)
    assert clock_of(items).offset_ns == UTC_NS - 50
    assert problems_of(items)["NSYS013"] == 1
    epoch: Content = {**eager(), KERNEL: [kernel(UTC_NS + 100, UTC_NS + 200, 1)]}
    items = items_of(tmp_path, epoch)
    assert clock_of(items).kind is ClockKind.UTC
    none: Content = {k: v for k, v in eager().items() if k != "TARGET_INFO_SESSION_START_TIME"}
    items = items_of(tmp_path, none)
    assert clock_of(items) == Clock(ClockKind.RELATIVE)
    assert problems_of(items)["NSYS012"] == 1


def test_an_export_of_some_tables_says_so(tmp_path: Path) -> None:
    names = ("EXPORT_PARAM_TABLES_TO_EXPORT", "EXPORT_PARAM_TIMES_TO_EXPORT")
    content: Content = {
        **eager(),
        "META_DATA_EXPORT": [{"name": name, "value": "x"} for name in names],
    }
    assert problems_of(items_of(tmp_path, content))["NSYS014"] == 2


def test_impossible_zero_and_absurd_times(tmp_path: Path) -> None:
    kernels = [kernel(100, 90, 1), kernel(100, 100, 2), kernel(0, 600_000, 3), kernel(5, 6, 4),
               kernel(-(2**63), 2**63 - 1, 5)]  # fmt: skip
    items = items_of(tmp_path, {**session(), "StringIds": strings(), KERNEL: kernels})
    rows = rows_of(items)
    assert [(o["correlation_id"], o["quality"]) for o in rows["gpu_ops"]] == [
        (2, "zero_duration"),
        (3, "suspicious_length"),
        (4, None),
    ]
    assert rows["gpu_captures"][0]["dropped_rows"] == 2
    assert rows["gpu_captures"][0]["kernel_rows"] == 5
    problems = problems_of(items)
    assert [problems[f"NSYS00{i}"] for i in (3, 4, 5)] == [2, 1, 1]


def test_absurd_length_without_a_told_window(tmp_path: Path) -> None:
    kernels = [kernel(i * 10, i * 10 + 5, i) for i in range(1, 6)]
    content: Content = {KERNEL: [*kernels, kernel(60, 50_000, 9)]}
    ops = found(tmp_path, content)["gpu_ops"]
    assert [o["quality"] for o in ops] == [None] * 5 + ["suspicious_length"]
    [lone] = found(tmp_path, {KERNEL: [kernel(60, 50_000, 9)]})["gpu_ops"]
    assert lone["quality"] is None


def test_warnings_are_classed_and_overhead_is_summed(tmp_path: Path) -> None:
    warnings = [
        {"severity": 2, "text": "1,234 CUDA events were dropped on secret-host"},
        {"severity": 3, "text": "Not all events might have been collected in /home/me"},
        {"severity": 1, "text": "Number of NVTX events collected: 5"},
        {"severity": 2, "text": "strange"},
    ]
    content: Content = {
        **eager(),
        "DIAGNOSTIC_EVENT": warnings,
        "PROFILER_OVERHEAD": [{"start": 1, "end": 11, "overheadType": 1, "globalTid": P1 + 5}],
        "CUPTI_ACTIVITY_KIND_OVERHEAD": [
            {"start": 20, "end": 25, "overheadType": 3},
            {"start": 30, "end": 90, "overheadType": 6},
            {"start": 95, "end": 97, "overheadType": 8},
        ],
    }
    items = items_of(tmp_path, content)
    [capture] = rows_of(items)["gpu_captures"]
    assert capture["overhead_ns"] == 15
    # loading a module and a full command buffer are not the profiler's work
    assert [
        (o["process_key"], o["start_at_ns"], o["end_at_ns"])
        for o in rows_of(items)["gpu_overheads"]
    ] == [(str(P1), 1, 11), (None, 20, 25)]
    assert capture["dropped_rows"] == 1234
    problems = problems_of(items)
    assert problems["NSYS015"] == 3
    assert problems["NSYS021"] == 1
    assert "secret-host" not in repr(items)
    assert "/home" not in repr(items)


@pytest.mark.parametrize(
    ("text", "is_lost"),
    [
        ("1,234 CUDA events were dropped", True),
        ("Dropped 50000 CUPTI buffers", True),
        ("Some events were lost", True),
        ("35 CPU IP samples were lost", False),
        ("OS runtime events were dropped", False),
        ("Some NVTX events were discarded", False),
        ("Not all events might have been collected", False),
    ],
)
def test_a_warning_of_lost_gpu_events_takes_idle_away(
    tmp_path: Path, text: str, is_lost: bool
) -> None:
    items = items_of(tmp_path, {**eager(), "DIAGNOSTIC_EVENT": [{"severity": 2, "text": text}]})
    [capture] = rows_of(items)["gpu_captures"]
    assert (capture["status"], capture["operations_lost"]) == ("whole", is_lost)
    assert ("NSYS024" in problems_of(items)) is is_lost


@pytest.mark.parametrize(("broken", "is_lost"), [(1, False), (2, True)])
def test_many_dropped_operations_are_a_loss(tmp_path: Path, broken: int, is_lost: bool) -> None:
    """Of a hundred, one that ends before it starts is a blemish, two are not."""
    kernels = [kernel(i * 10, i * 10 + (-1 if i <= broken else 5), i) for i in range(1, 101)]
    items = items_of(tmp_path, {"StringIds": strings(), KERNEL: kernels})
    assert problems_of(items)["NSYS003"] == broken
    assert problems_of(items).get("NSYS024", 0) == (broken if is_lost else 0)
    assert rows_of(items)["gpu_captures"][0]["operations_lost"] is is_lost


def test_launches_that_returned_an_error_launched_nothing(tmp_path: Path) -> None:
    """The second and the third fail; the fourth reports an error, and its kernel is there."""
    calls = [{**call(10 * n, 10 * n + 1, n), "returnValue": 0 if n == 1 else 700}
             for n in range(1, 5)]  # fmt: skip
    content = {"StringIds": strings(), KERNEL: [kernel(100, 110, 1), kernel(120, 130, 4)],
               RUNTIME: calls}  # fmt: skip
    items = items_of(tmp_path, content)
    assert [c["correlation_id"] for c in rows_of(items)["gpu_launches"]] == [1, 4]
    assert problems_of(items)["NSYS026"] == 2


def test_graphs_that_failed_to_launch_hide_nothing(tmp_path: Path) -> None:
    calls = [call(10, 11, 1), {**call(20, 21, 2, name=11), "returnValue": 900}]
    content = {"StringIds": strings(), KERNEL: [kernel(100, 110, 1)], RUNTIME: calls}
    [capture] = rows_of(items_of(tmp_path, content))["gpu_captures"]
    assert (capture["graph_launches"], capture["graphs_hidden"]) == (0, False)


def test_kernels_without_a_name_have_no_class(tmp_path: Path) -> None:
    named = found(tmp_path, {"StringIds": strings(), KERNEL: [kernel(1, 2, 1, demangledName=3)]})
    assert named["gpu_ops"][0]["class"] == "communication"
    items = items_of(tmp_path, {KERNEL: [kernel(1, 2, 1, demangledName=3), kernel(3, 4, 2)]})
    assert [op["class"] for op in rows_of(items)["gpu_ops"]] == [None, None]
    [capture] = rows_of(items)["gpu_captures"]
    assert (capture["status"], capture["operations_lost"]) == ("partial", False)
    assert problems_of(items)["NSYS025"] == 2


def test_gpu_metrics(tmp_path: Path) -> None:
    content: Content = {
        **session(),
        "TARGET_INFO_GPU_METRICS": [
            {"typeId": 0x101, "metricId": 3, "metricName": "SMs Active [Throughput %]"},
            {"typeId": 0x101, "metricId": 4, "metricName": "GPC Clock Frequency [MHz]"},
        ],
        "GPU_METRICS": [
            {"timestamp": 10, "typeId": 0x101, "metricId": 3, "value": 37},
            {"timestamp": 10, "typeId": 0x101, "metricId": 4, "value": 1980},
            {"timestamp": 10, "typeId": 0x101, "metricId": 99, "value": 1},
            {"timestamp": 20, "typeId": 0x101, "metricId": 3, "value": None},
            {"timestamp": 30, "typeId": 0x101, "metricId": 3, "value": 137},
        ],
    }
    items = items_of(tmp_path, content)
    assert problems_of(items)["NSYS023"] == 1  # 137 % of a peak cannot be
    samples = rows_of(items)["gpu_samples"]
    keys = ("device", "at_ns", "metric", "value", "unit", "kind")
    assert [tuple(s[k] for k in keys) for s in samples] == [
        (1, 10, "sm_active", 0.37, "ratio", "ratio"),
        (1, 10, "gpc_clock_frequency", 1980.0, "MHz", "instant"),
        (1, 20, "sm_active", None, "ratio", "ratio"),
        (1, 30, "sm_active", None, "ratio", "ratio"),
    ]


def test_secrets_stay_in_the_export(tmp_path: Path) -> None:
    content: Content = {
        **eager(),
        "META_DATA_CAPTURE": [
            {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": "TOKEN=secret-1"},
            {"name": "PROCESS_0:COMMAND", "value": "secret-2"},
        ],
        "TARGET_INFO_SYSTEM_ENV": [{"name": "Hostname", "value": "secret-3"}],
        "StringIds": strings(s30="secret-4"),
        "ProcessStreams": [{"globalPid": P1, "filenameId": 30, "contentId": 30}],
        "PROCESSES": [{"globalPid": P1, "pid": 111, "name": "secret-5"}],
    }
    items = items_of(tmp_path, content)
    assert "secret" not in repr(items)
    assert "secret" not in repr(rows_of(items))


def test_many_batches_and_columns_that_begin_as_null(tmp_path: Path) -> None:
    size = 80_000
    kernels = [kernel(i, i + 1, i + 1) for i in range(size)]
    kernels[-1]["graphNodeId"] = 77
    ranges = [mark(i, i + 1, None, textId=20 + i % 5) for i in range(66_000)]
    ranges[-1]["text"] = "late text"
    content: Content = {
        "StringIds": strings(**{f"s{20 + i}": f"range {i}" for i in range(5)}),
        KERNEL: kernels,
        RUNTIME: [call(i, i, i + 1, name=14) for i in range(0, size, 7)],
        "NVTX_EVENTS": ranges,
    }
    rows = found(tmp_path, content)
    assert len(rows["gpu_ops"]) == size
    assert rows["gpu_ops"][-1]["graph_node_id"] == 77
    assert [c["correlation_id"] for c in rows["gpu_launches"]] == list(range(1, size + 1, 7))
    assert rows["gpu_ranges"][-1]["name"] == "late text"
    assert rows["gpu_ranges"][4]["name"] == "range 4"


@pytest.mark.parametrize("at", [500, 69_999])
def test_values_of_another_type_are_null_not_a_failure(tmp_path: Path, at: int) -> None:
    kernels = [kernel(i, i + 1, i + 1) for i in range(70_000)]
    kernels[at] |= {"streamId": "seven", "contextId": 1.5}
    columns = ", ".join(f'"{name}"' for name in kernels[0])
    rows = found(tmp_path, {KERNEL: kernels}, **{KERNEL: columns})
    assert len(rows["gpu_ops"]) == 70_000
    assert rows["gpu_ops"][at]["stream"] is None
    assert sum(o["stream"] is None for o in rows["gpu_ops"]) == 1


def test_texts_that_are_no_unicode(tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "x.sqlite", {**eager(), "NVTX_EVENTS": [mark(1, 2, "good")]})
    with sqlite3.connect(path) as db:
        db.execute("UPDATE NVTX_EVENTS SET text = CAST(x'ff41' AS TEXT)")
        db.execute("UPDATE StringIds SET value = CAST(x'fe42' AS TEXT) WHERE id = 1")
    db.close()
    rows = rows_of(read_items(SOURCE, path))
    assert rows["gpu_ranges"][0]["name"] == "\ufffdA"
    assert rows["gpu_ops"][0]["name"] == "\ufffdB"


def test_a_cut_database_keeps_what_comes_before(tmp_path: Path) -> None:
    content: Content = {**session(), KERNEL: [kernel(i, i + 1, i + 1) for i in range(30_000)]}
    path = write_sqlite(tmp_path / "x.sqlite", content)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    items = read_items(SOURCE, path)
    rows = rows_of(items)
    problems = problems_of(items)
    assert problems["NSYS002"] >= 1
    assert 10_000 < len(rows["gpu_ops"]) < 30_000
    assert rows["gpu_captures"][0]["status"] == "partial"
    assert rows["gpu_captures"][0]["ended_at_ns"] == rows["gpu_ops"][-1]["end_at_ns"]


def test_compressed_whole_and_cut(tmp_path: Path) -> None:
    plain = write_sqlite(tmp_path / "x.sqlite", eager())
    packed = tmp_path / "x.sqlite.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert rows_of(read_items(SOURCE, packed)) == rows_of(read_items(SOURCE, plain))
    assert SOURCE.sniff("x.sqlite", read_head(packed, HEAD_BYTES)).score > 0.9
    packed.write_bytes(packed.read_bytes()[:-30])
    assert "NSYS002" in problems_of(read_items(SOURCE, packed))


def test_nothing_is_written_and_a_journal_is_told(tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "x.sqlite", eager())
    before = path.read_bytes()
    options = ReadOptions(relative_path="x.sqlite", siblings=("x.sqlite", "x.sqlite-wal"))
    assert problems_of(read_items(SOURCE, path, options))["NSYS019"] == 1
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["x.sqlite"]


def test_a_view_of_that_name_is_no_table(tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "x.sqlite", session())
    with sqlite3.connect(path) as db:
        db.execute(
            f"CREATE VIEW {KERNEL} AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL"
            ' SELECT start + 1 FROM n) SELECT start, start AS "end", 0 AS deviceId FROM n'
        )
    db.close()
    assert "gpu_ops" not in rows_of(read_items(SOURCE, path))


def test_sniff(tmp_path: Path) -> None:
    path = write_sqlite(tmp_path / "x.sqlite", eager())
    head = path.read_bytes()[:HEAD_BYTES]
    assert SOURCE.sniff("x.db", head).score > 0.9
    other = write_sqlite(tmp_path / "y.sqlite", {"things": [{"a": 1}]}).read_bytes()
    assert SOURCE.sniff("y.sqlite", other).score == 0
    assert SOURCE.sniff("y.nsys.sqlite", other).score > 0.2
    assert SOURCE.sniff("x.nsys.txt", b"text").score == 0


def test_no_database_and_a_foreign_one(tmp_path: Path) -> None:
    assert problems_of(read_items(SOURCE, write_sqlite(tmp_path / "y", {"t": [{"a": 1}]}))) == {
        "NSYS001": 1
    }
    for data in (b"", b"text", b"SQLite format 3\x00", b"SQLite format 3\x00" + bytes(5000)):
        (tmp_path / "z").write_bytes(data)
        assert "NSYS001" in problems_of(read_items(SOURCE, tmp_path / "z"))


def _small() -> bytes:
    content: Content = {
        **eager(),
        "NVTX_EVENTS": [mark(i, i + 3, f"range {i}") for i in range(40)],
        "TARGET_INFO_GPU": [{"id": 0, "name": "A GPU", "totalMemory": 80, "uuid": "GPU-a"}],
    }
    with tempfile.TemporaryDirectory() as folder:
        return write_sqlite(Path(folder) / "x", content).read_bytes()


SMALL = _small()


@given(
    st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.binary(max_size=6)), max_size=30),
    st.integers(0, len(SMALL)),
)
@settings(max_examples=examples(150), deadline=None)
def test_no_damage_raises(changes: list[tuple[int, bytes]], cut: int) -> None:
    data = bytearray(SMALL)
    for at, piece in changes:
        data[at : at + len(piece)] = piece
    check_bytes(SOURCE, bytes(data[:cut] if cut > 200 else data), "x.sqlite")


@given(st.binary(max_size=2000))
@settings(max_examples=examples(50), deadline=None)
def test_no_bytes_raise(data: bytes) -> None:
    check_bytes(SOURCE, data, "x.sqlite")
    check_bytes(SOURCE, SMALL[:100] + data, "x.sqlite")
