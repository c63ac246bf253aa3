"""rocpd databases of both generations -> rows."""

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
from sources.gpu_reading import check_bytes, problems_of, read_items, rows, rows_of
from sources.rocpd_sqlite.databases import FIRST, SECOND, make_database

from trueput.clock import ClockKind
from trueput.scan import read_head
from trueput.source_api import HEAD_BYTES, Clock
from trueput.sources.rocpd_sqlite import SOURCE

GPU = "GPU-4ff54632b01714cb"
KERNEL = {"kind": "kernel", "device": 0, "device_key": GPU, "process_key": "p500"}
EXPECTED: dict[str, list[dict[str, Any]]] = {
    "gpu_devices": [
        {
            "device_key": GPU,
            "device": 0,
            "process_key": "p500",
            "name": "A Model",
            "uuid": GPU,
        }
    ],
    "gpu_ops": [
        KERNEL
        | {"class": "compute", "start_at_ns": 100, "end_at_ns": 200, "stream": 4}
        | {"correlation_id": 7, "name": "f(int)"},
        KERNEL
        | {"class": "communication", "start_at_ns": 150, "end_at_ns": 300, "stream": 5}
        | {"correlation_id": 8, "name": "ncclDevKernel"},
        KERNEL
        | {"class": "compute", "start_at_ns": 400, "end_at_ns": 400, "stream": 5}
        | {"quality": "zero_duration"},
        KERNEL
        | {"kind": "memcpy", "start_at_ns": 700, "end_at_ns": 750, "stream": 6}
        | {"correlation_id": 12, "name": "HtoD", "bytes": 4096},
    ],
    "gpu_launches": [
        {
            "process_key": "p500",
            "thread_key": "p500:t501",
            "correlation_id": number,
            "api": api,
            "start_at_ns": start,
            "end_at_ns": end,
        }
        for number, api, start, end in (
            (7, "hipLaunchKernel", 90, 95),
            (8, "hipGraphLaunch", 96, 99),
        )
    ],
    "gpu_ranges": [
        {
            "name": "execute_context_1(64)_generation_2(2)",
            "domain": "MARKER_CORE_RANGE_API",
            "process_key": "p500",
            "thread_key": "p500:t501",
            "start_at_ns": 80,
            "end_at_ns": 120,
            "style": "push_pop",
            "dialect": "vllm",
            "context_requests": 1,
            "context_tokens": 64,
            "generation_requests": 2,
            "generation_tokens": 2,
        }
    ],
}


def bare(found: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """The rows without NULLs."""
    return {
        table: [{k: v for k, v in row.items() if v is not None} for row in rows]
        for table, rows in found.items()
    }


@pytest.mark.parametrize("views", [True, False])
@pytest.mark.parametrize("version", ["3", "3.0.1", "4.0", "4"])
def test_both_generations_give_the_same(tmp_path: Path, version: str, views: bool) -> None:
    path = make_database(tmp_path / "500_results.db", version, views=views)
    assert SOURCE.sniff(path.name, read_head(path, HEAD_BYTES)).score >= 0.9
    items = read_items(SOURCE, path)
    found = bare(rows_of(items))
    [capture] = found.pop("gpu_captures")
    assert found == EXPECTED
    assert capture == {
        "profiler": "rocpd",
        "schema_version": version,
        "status": "whole",
        "operations_lost": True,  # one of four dispatches has no usable time
        "graph_launches": 1,
        "kernel_rows": 3,
        "graph_span_rows": 0,
        "dropped_rows": 1,
        "dropped_operations": 1,
        "started_at_ns": 50,
        "ended_at_ns": 9000,
    }
    assert problems_of(items) == {"ROCPD003": 1, "ROCPD007": 1}
    assert [i.kind for i in items if isinstance(i, Clock)] == [ClockKind.MONOTONIC]


@pytest.mark.parametrize("views", [True, False])
@pytest.mark.parametrize("version", ["3", "4"])
def test_merged_databases_keep_their_processes(tmp_path: Path, version: str, views: bool) -> None:
    path = make_database(tmp_path / "m.db", version, (FIRST, SECOND), views=views, uuid=0)
    found = rows(SOURCE, path)
    assert len(found["gpu_ops"]) == 2 * len(EXPECTED["gpu_ops"])
    assert {op["process_key"] for op in found["gpu_ops"]} == {"g0.p500", "g1.p500"}
    assert {op["device_key"] for op in found["gpu_ops"]} == {"g0.p500:0", "g1.p500:0"}


def test_nothing_private_is_kept(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.db", "3")
    assert b"SECRET" in path.read_bytes()
    assert "SECRET" not in repr(read_items(SOURCE, path)) + repr(rows(SOURCE, path))


def test_nothing_is_written_beside_it(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.db", "3")
    before = path.read_bytes()
    read_items(SOURCE, path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.db"]
    assert path.read_bytes() == before


def test_an_unknown_version_is_read_and_said(tmp_path: Path) -> None:
    items = read_items(SOURCE, make_database(tmp_path / "a.db", "7"))
    assert len(rows_of(items)["gpu_ops"]) == 4
    assert problems_of(items)["ROCPD005"] == 1


def test_a_compressed_database_is_said(tmp_path: Path) -> None:
    plain = make_database(tmp_path / "a.db", "3")
    path = tmp_path / "a.db.gz"
    path.write_bytes(gzip.compress(plain.read_bytes()))
    assert problems_of(read_items(SOURCE, path)) == {"ROCPD002": 1}


def test_other_databases_are_not_claimed() -> None:
    head = b"SQLite format 3\0" + b"CREATE TABLE rocpd_api (...); CREATE TABLE rocpd_op (...)"
    assert SOURCE.sniff("trace.rpd", head).score == 0


def test_a_cut_database_is_partial(tmp_path: Path) -> None:
    whole = make_database(tmp_path / "a.db", "3").read_bytes()
    path = tmp_path / "cut.db"
    path.write_bytes(whole[: len(whole) - 3 * 4096])
    items = read_items(SOURCE, path)
    assert problems_of(items)["ROCPD001"] == 1
    assert {row["status"] for row in rows_of(items).get("gpu_captures", [])} <= {"partial"}


@pytest.fixture(scope="module")
def whole() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return make_database(Path(folder) / "a.db", "4").read_bytes()


@given(data=st.data())
@settings(max_examples=examples(80), deadline=None)
def test_any_damage(whole: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(whole)))
    middle = data.draw(st.binary(min_size=1, max_size=40))
    check_bytes(SOURCE, whole[:at] + middle + whole[at + len(middle) :], "a.db")
    check_bytes(SOURCE, whole[:at], "a.db")
    check_bytes(SOURCE, middle, "a.db")


def change(path: Path, statement: str) -> Path:
    """Change a database with one statement."""
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def test_an_absurd_kernel_is_clipped(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.db", "3")
    table = "rocpd_kernel_dispatch_" + FIRST.replace("-", "_")
    items = read_items(SOURCE, change(path, f'UPDATE {table} SET "end" = 500000000 WHERE id = 2'))
    [clipped] = [op for op in rows_of(items)["gpu_ops"] if op["quality"] == "clipped"]
    assert (clipped["start_at_ns"], clipped["end_at_ns"]) == (150, 400)
    assert problems_of(items)["ROCPD004"] == 1


def test_a_database_without_kernels_is_said(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.db", "3", views=False)
    table = "rocpd_kernel_dispatch_" + FIRST.replace("-", "_")
    items = read_items(SOURCE, change(path, f"DROP TABLE {table}"))
    assert problems_of(items)["ROCPD006"] == 1
    assert len(rows_of(items)["gpu_launches"]) == 2
