"""Busy stretches as ingest keeps them: over all files of a run, and on the clock of the store."""

from __future__ import annotations

from pathlib import Path

from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading
from trueput.verbs.sql import sql

SECOND = 1_000_000_000
HEADER = "Kind,Agent_Id,Queue_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp"
ANCHORS = """
[[clock_anchors]]
unix = 1750000000.0
monotonic = 500.0
"""
OFFSET_NS = (1_750_000_000 - 500) * SECOND


def trace(*spans: tuple[int, int]) -> str:
    """Kernels of one agent as rocprofv3 writes them, on a clock that is not UTC."""
    rows = [f"KERNEL_DISPATCH,Agent 2,1,k,{at},{a},{b}" for at, (a, b) in enumerate(spans, 1)]
    return "\n".join([HEADER, *rows, ""])


def test_files_of_a_run_are_united_and_moved_to_utc(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "later").mkdir(parents=True)
    (run / "run.toml").write_text(ANCHORS)
    # one process, so one device. By hand: 100..160 and 200..250; the second file bridges 140..150
    # and adds 300..310
    (run / "5_kernel_trace.csv").write_text(trace((200, 250), (100, 140), (150, 160), (5, 5)))
    (run / "later" / "5_kernel_trace.csv").write_text(trace((300, 310), (130, 150)))
    ingest([run], store=tmp_path / "store")
    reading = Reading(store=tmp_path / "store")
    moved = sql(
        "SELECT DISTINCT clock_offset_ns FROM sources JOIN gpu_ops USING (source_id)", reading
    )
    assert moved.rows == [(OFFSET_NS,)]
    rows = sql(
        f"SELECT kind, start_at_ns - {OFFSET_NS} AS a, end_at_ns - {OFFSET_NS} AS b FROM gpu_busy",
        reading,
    ).rows
    assert rows == [("kernel", 100, 160), ("kernel", 200, 250), ("kernel", 300, 310)]
    busy = sql("SELECT metric, value FROM gpu_activity ORDER BY metric", reading).rows
    assert busy == [("gpu_op_union", 120.0), ("kernel_union", 120.0)]
