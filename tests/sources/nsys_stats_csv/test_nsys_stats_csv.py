"""CSV of `nsys stats` -> rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sources.gpu_reading import check_bytes, problems_of, read_items, rows_of

from trueput.clock import ClockKind
from trueput.source_api import Clock, Item
from trueput.sources.nsys_stats_csv import SOURCE

HEADER = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),"
    "DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n"
)
OLDER = HEADER.replace("GreenCtx,", "").replace("MB/s", "MBps")
DEVICE = "NVIDIA RTX A4500 (0)"
SUMS = (
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    '100.0,200,1,200.0,200.0,200,200,0.0,"void k<int, 2>(int)"\n'
)


def kernel(start: str = "1000", length: str = "200", name: str = '"void k<int, 2>(int)"') -> str:
    """A line of a kernel."""
    return f"{start},{length},11,1,1,1,128,1,1,16,0.0,0.0,,,,,{DEVICE},1,,7,{name}\n"


def copy(moved: str, name: str) -> str:
    """A line of a copy or memset."""
    return f"1300,20,12,,,,,,,,,,{moved},99.5,Pageable,Device,{DEVICE},1,,13,{name}\n"


def read_text(tmp_path: Path, text: str) -> list[Item]:
    """Everything of a file of this text."""
    path = tmp_path / "run_cuda_gpu_trace.csv"
    path.write_text(text)
    return read_items(SOURCE, path)


def test_operations(tmp_path: Path) -> None:
    text = (
        "Generating SQLite file run.sqlite from run.nsys-rep\n"
        "Processing [run.sqlite] with [/opt/nsys/reports/cuda_gpu_trace.py]... \n\n"
        + HEADER
        + kernel()
        + kernel(name='"ncclDevKernel_AllReduce(int)"')
        + copy("0.004", "[CUDA memcpy Host-to-Device]")
        + copy("0.000", "[CUDA memset]")
    )
    items = read_text(tmp_path, text)
    rows = rows_of(items)
    common: dict[str, Any] = {
        "device": 0, "device_key": "p?:0", "process_key": None, "context_id": 1,
        "correlation_id": None, "graph_node_id": None, "quality": None,
    }  # fmt: skip
    first = {"kind": "kernel", "class": "compute", "start_at_ns": 1000, "end_at_ns": 1200,
             **common, "stream": 7, "name": "void k<int, 2>(int)", "bytes": None}  # fmt: skip
    moved = {"kind": "memcpy", "class": None, "start_at_ns": 1300, "end_at_ns": 1320, **common,
             "stream": 13, "name": "HtoD", "bytes": 4000}  # fmt: skip
    assert rows["gpu_ops"] == [
        first,
        {**first, "class": "communication", "name": "ncclDevKernel_AllReduce(int)"},
        moved,
        {**moved, "kind": "memset", "name": "memset", "bytes": None},
    ]
    assert [(d["device_key"], d["name"]) for d in rows["gpu_devices"]] == [
        ("p?:0", "NVIDIA RTX A4500")
    ]
    [capture] = rows["gpu_captures"]
    assert (capture["profiler"], capture["kernel_rows"]) == ("nsys", 2)
    assert capture["graph_launches"] is None
    assert problems_of(items) == {"NSTAT007": 1}
    assert Clock(ClockKind.RELATIVE, method="nsys stats") in items


def test_older_columns(tmp_path: Path) -> None:
    line = kernel().replace(",1,,7,", ",1,7,")
    [op] = rows_of(read_text(tmp_path, OLDER + line))["gpu_ops"]
    assert (op["stream"], op["context_id"]) == (7, 1)


@pytest.mark.parametrize(
    ("unit", "start", "length", "ns"),
    [("us", "1.25", "0.5", (1250, 1750)), ("ms", "2", "1.000001", (2_000_000, 3_000_001)),
     ("s", "12345678.123456789", "0", (12345678123456789, 12345678123456789)),
     ("nsec", "7", "1", (7, 8))],
)  # fmt: skip
def test_units_of_the_header(
    tmp_path: Path, unit: str, start: str, length: str, ns: tuple[int, int]
) -> None:
    header = HEADER.replace("Start (ns),Duration (ns)", f"Start ({unit}),Duration ({unit})")
    items = read_text(tmp_path, header + kernel(start, length))
    [op] = rows_of(items)["gpu_ops"]
    assert (op["start_at_ns"], op["end_at_ns"]) == ns
    assert ("NSTAT008" in problems_of(items)) == (unit != "nsec")


def test_lines_that_are_no_rows(tmp_path: Path) -> None:
    text = (
        HEADER + kernel() + kernel("15x") + kernel("20", "-5") + "7,8,9\n" + kernel("30", "0")
        + "\nProcessing [x] with [cuda_gpu_kern_sum]\n" + SUMS + "\n" + HEADER + kernel("40")
        + "50,1,1"
    )  # fmt: skip
    items = read_text(tmp_path, text)
    rows = rows_of(items)
    assert [o["start_at_ns"] for o in rows["gpu_ops"]] == [1000, 30, 40]
    assert problems_of(items) == {
        "NSTAT002": 2, "NSTAT003": 2, "NSTAT005": 1, "NSTAT006": 1, "NSTAT007": 1, "NSTAT009": 1,
    }  # fmt: skip
    assert rows["gpu_captures"][0]["dropped_rows"] == 2


@pytest.mark.parametrize(
    ("lines", "lost"),
    [
        # in order of start: what is cut off began after all that is read
        ((kernel("10"), kernel("20"), kernel("20")), False),
        ((kernel("20"), kernel("10")), True),
        # two reports in one file: each begins anew
        ((kernel("10"), "\n" + HEADER, kernel("20")), True),
    ],
)
def test_a_cut_report_is_known_up_to_its_cut(
    tmp_path: Path, lines: tuple[str, ...], lost: bool
) -> None:
    whole = read_text(tmp_path, HEADER + "".join(lines))
    [capture] = rows_of(whole)["gpu_captures"]
    assert (capture["status"], capture["operations_lost"]) == ("whole", False)
    cut = read_text(tmp_path, HEADER + "".join(lines) + "30,1")
    [capture] = rows_of(cut)["gpu_captures"]
    assert (capture["status"], capture["operations_lost"]) == ("partial", lost)


def test_sums_become_no_operations(tmp_path: Path) -> None:
    items = read_text(tmp_path, SUMS)
    assert rows_of(items) == {}
    assert problems_of(items) == {"NSTAT001": 1, "NSTAT006": 1}
    assert Clock(ClockKind.NONE, method="nsys stats") in items


def test_a_report_without_rows(tmp_path: Path) -> None:
    items = read_text(tmp_path, HEADER)
    assert rows_of(items)["gpu_captures"][0]["kernel_rows"] == 0
    assert "gpu_ops" not in rows_of(items)


def test_broken_quotes_cost_one_line(tmp_path: Path) -> None:
    text = HEADER + kernel() + kernel("2000", name='"void broken') + kernel("3000")
    items = read_text(tmp_path, text)
    starts = [o["start_at_ns"] for o in rows_of(items)["gpu_ops"]]
    assert starts == [1000, 2000, 3000]


def test_sniff() -> None:
    assert SOURCE.sniff("x.csv", b"Processing [x]\n" + HEADER.encode()).score > 0.9
    assert SOURCE.sniff("x.csv", OLDER.encode()).score > 0.9
    assert SOURCE.sniff("x.csv", SUMS.encode()).score > 0.5
    assert SOURCE.sniff("x.csv", b"Start,End\n1,2\n").score == 0


@given(st.lists(st.sampled_from([HEADER, OLDER, SUMS, kernel(), copy("1.5", "[CUDA memset]"),
                                 "\n", ",,,,\n", '"\n', "1,2\n", "\ufeff", "\x00", "Start (ns),",
                                 kernel()[:30]]), max_size=30))  # fmt: skip
@settings(max_examples=examples(150), deadline=None)
def test_no_text_raises(parts: list[str]) -> None:
    check_bytes(SOURCE, "".join(parts).encode(), "x.csv")


@given(st.binary(max_size=400))
@settings(max_examples=examples(100), deadline=None)
def test_no_bytes_raise(data: bytes) -> None:
    check_bytes(SOURCE, data, "x.csv")
    check_bytes(SOURCE, HEADER.encode() + data, "x.csv")
    check_bytes(SOURCE, HEADER.encode() + kernel().encode() + data + kernel().encode(), "x.csv")
