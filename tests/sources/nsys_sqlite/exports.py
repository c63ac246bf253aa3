"""Small exports of Nsight Systems, made by the tests: tables as dicts, written in either form."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

Content: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"

VM = 1 << 48
P1 = VM + (111 << 24)
P2 = VM + (222 << 24)
UTC_NS = 1_779_782_330_176_752_435


def kernel(
    start: int, end: int, corr: int | None, process: int = P1, **more: Any
) -> dict[str, Any]:
    """One row of KERNEL on device 0."""
    return {
        "start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7,
        "correlationId": corr, "globalPid": process, "demangledName": 1, "shortName": 2,
        "graphNodeId": None, **more,
    }  # fmt: skip


def call(start: int, end: int, corr: int, thread: int = P1 + 5, name: int = 10) -> dict[str, Any]:
    """One row of RUNTIME; string 10 is a kernel launch."""
    return {"start": start, "end": end, "eventClass": 0, "globalTid": thread,
            "correlationId": corr, "nameId": name, "returnValue": 0}  # fmt: skip


def mark(start: int, end: int | None, text: str | None, **more: Any) -> dict[str, Any]:
    """One push/pop range on a thread of the first process."""
    return {"start": start, "end": end, "eventType": 59, "text": text, "globalTid": P1 + 5,
            "endGlobalTid": None, "textId": None, "domainId": 0, **more}  # fmt: skip


def strings(**more: str) -> list[dict[str, Any]]:
    """StringIds: two kernels, the calls, and more as `s<id>="text"`."""
    known = {
        1: "void gemm<float>(float*)", 2: "gemm", 3: "ncclDevKernel_AllReduce(int)",
        10: "cudaLaunchKernel_v7000", 11: "cudaGraphLaunch_v10000", 12: "cudaMemcpyAsync_v3020",
        13: "cudaEventRecord_v3020", 14: "cuSomethingNew",
    }  # fmt: skip
    known |= {int(k[1:]): v for k, v in more.items()}
    return [{"id": k, "value": v} for k, v in known.items()]


def session(duration: int = 1_000_000) -> Content:
    """What an export says of itself."""
    return {
        "META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.25.0"}],
        "META_DATA_CAPTURE": [{"name": "CAPTURE_EVENT_TYPE", "value": "Cuda"}],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": UTC_NS, "utcTime": "x"}],
        "ANALYSIS_DETAILS": [
            {"globalVid": VM, "duration": duration, "startTime": 5, "stopTime": 5 + duration}
        ],
    }


def write_sqlite(path: Path, content: Content, columns: Mapping[str, str] | None = None) -> Path:
    """Write a database; `columns` gives the definitions of tables, empty tables among them."""
    path.unlink(missing_ok=True)
    given = dict(columns or {})
    with sqlite3.connect(path) as db:
        for table, rows in content.items():
            names = list(dict.fromkeys(name for row in rows for name in row))
            text = given.pop(table, None) or ", ".join(
                f'"{n}" {"TEXT" if _is_text(rows, n) else "INTEGER"}' for n in names
            )
            db.execute(f"CREATE TABLE {table} ({text})")
            fields = ", ".join(f'"{n}"' for n in names)
            marks = ",".join("?" * len(names))
            sql = f"INSERT INTO {table} ({fields}) VALUES ({marks})"
            db.executemany(sql, ([row.get(n) for n in names] for row in rows))
        for table, text in given.items():
            db.execute(f"CREATE TABLE {table} ({text})")
    db.close()
    return path


def write_parquetdir(folder: Path, content: Content) -> dict[str, Path]:
    """Write one Parquet file for each table."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for table, rows in content.items():
        names = list(dict.fromkeys(name for row in rows for name in row))
        arrays = [
            pa.array([r.get(n) for r in rows], pa.string() if _is_text(rows, n) else pa.int64())
            for n in names
        ]
        files[table] = folder / f"{table}.parquet"
        pq.write_table(pa.table(arrays, names=names), files[table])
    return files


def _is_text(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    values = [row.get(name) for row in rows]
    return any(isinstance(v, str) for v in values) or (
        name in ("text", "uuid") and all(v is None for v in values)
    )
