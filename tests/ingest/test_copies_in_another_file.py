"""rocprofv3 writes kernels and copies into files of their own: without the copies, gaps may be."""

from __future__ import annotations

from pathlib import Path

import pytest
from ingest.traces import Held

KERNELS = (
    '"Kind","Agent_Id","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",'
    '"Correlation_Id","Start_Timestamp","End_Timestamp"'
)
COPIES = (
    '"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp"'
)
CALLS = (
    '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp",'
    '"End_Timestamp"'
)
BASE_NS = 64_000_000_000_000
US = 1000
BUSY = ((0, 60), (100, 160), (200, 260))
"""Kernels, in us: 180 us of 260, and gaps of 80."""


def instants(start: int, end: int) -> str:
    return f"{BASE_NS + start * US},{BASE_NS + end * US}"


def kernels(folder: Path, name: str, later: int = 0) -> None:
    spans = ((start + later, end + later) for start, end in BUSY)
    lines = (
        f'"KERNEL_DISPATCH",1,1,5,{n},9,"k",{n},{instants(*at)}' for n, at in enumerate(spans, 1)
    )
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join((KERNELS, *lines)) + "\n")


def copies(folder: Path, name: str, *spans: tuple[int, int]) -> None:
    lines = (
        f'"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE",0,1,{n},{instants(*at)}'
        for n, at in enumerate(spans, 50)
    )
    (folder / name).write_text("\n".join((COPIES, *lines)) + "\n")


UNIONS = (
    "SELECT metric, value // 1000, basis FROM gpu_activity WHERE metric LIKE '%union' ORDER BY 1"
)


def test_kernels_alone_leave_their_gaps_open(tmp_path: Path) -> None:
    kernels(tmp_path / "run", "908_kernel_trace.csv")
    held = Held(tmp_path / "run")
    assert held.told["INGEST018"] == 1
    assert held.idle == (80, 0, 80, "bounded")
    assert held.rows(UNIONS) == [
        ("gpu_op_union", 180, "bounded"),
        ("kernel_union", 180, "measured"),
    ]


@pytest.mark.parametrize("spans", [[], [(60, 70)]])
def test_with_the_file_of_copies_gaps_are_idle(
    tmp_path: Path, spans: list[tuple[int, int]]
) -> None:
    """One without any says that none ran."""
    kernels(tmp_path / "run", "908_kernel_trace.csv")
    copies(tmp_path / "run", "908_memory_copy_trace.csv", *spans)
    held = Held(tmp_path / "run")
    assert "INGEST018" not in held.told
    copied = sum(end - start for start, end in spans)
    assert held.idle == (80 - copied, 80 - copied, 80 - copied, "measured")
    unions = held.rows(UNIONS)
    assert unions == [
        ("gpu_op_union", 180 + copied, "measured"), ("kernel_union", 180, "measured")
    ]  # fmt: skip


def test_the_copies_of_another_process_are_not_those(tmp_path: Path) -> None:
    """Two processes, a device each; of 909 all is there. The gaps of 908 may be copies as well."""
    kernels(tmp_path / "run", "908_kernel_trace.csv")
    kernels(tmp_path / "run", "909_kernel_trace.csv", later=3)
    copies(tmp_path / "run", "909_memory_copy_trace.csv", (63, 73))
    held = Held(tmp_path / "run")
    assert held.told["INGEST018"] == 1
    assert held.idle == (150, 70, 150, "bounded")
    assert held.rows(
        "SELECT time_ns // 1000, time_ns_low // 1000, time_ns_high // 1000, basis FROM gpu_ledger "
        "WHERE work = 'copy'"
    ) == [(10, 10, 90, "bounded")]


def test_host_calls_are_no_copies(tmp_path: Path) -> None:
    run = tmp_path / "run"
    kernels(run, "908_kernel_trace.csv")
    call = f'"HIP_RUNTIME_API","hipLaunchKernel",908,5,1,{instants(-10, -5)}'
    (run / "908_hip_api_trace.csv").write_text(f"{CALLS}\n{call}\n")
    held = Held(run)
    assert held.told["INGEST018"] == 1
    assert held.rows("SELECT basis FROM gpu_ledger WHERE work = 'idle'") == [("bounded",)]


def test_copies_that_are_not_counted_leave_gaps_open(tmp_path: Path) -> None:
    """A day and more lies between the files, so that nothing ties their times: kernels count."""
    kernels(tmp_path / "run", "908_kernel_trace.csv")
    copies(tmp_path / "run", "908_memory_copy_trace.csv", (10**11, 10**11 + 10))
    held = Held(tmp_path / "run")
    assert (held.told["ATTR008"], held.told["INGEST018"]) == (1, 1)
    assert held.idle == (80, 0, 80, "bounded")
