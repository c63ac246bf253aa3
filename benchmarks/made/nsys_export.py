"""An Nsight Systems SQLite export: made/nsys_export.py ROWS OUT

ROWS kernels and as many launching calls, in eight processes with a GPU each whose correlation ids
collide, as the ranks of one tensor-parallel server have them; one annotated step per 50 kernels.
Tables and columns are those of export schema 3.25, 28 columns of KERNEL.
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy as np

PROCESSES, NAMES, PIECE = 8, 1200, 250_000
START_NS, LAUNCH_NS = 1_000_000_000, 9_000
APIS = ("cudaLaunchKernel_v7000", "cuLaunchKernelEx", "cudaLaunchKernelExC_v11060")

KERNEL = (
    "start end! deviceId contextId greenContextId? streamId correlationId? globalPid? demangledName"
    " shortName mangledName? launchType? cacheConfig? registersPerThread gridX gridY gridZ blockX"
    " blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal"
    " gridId sharedMemoryExecuted? graphNodeId? sharedMemoryLimitConfig?"
)
RUNTIME = "start end! eventClass globalTid? correlationId? nameId returnValue callchainId?"
SCRIPT = """
PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA page_size=4096;
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE ANALYSIS_DETAILS (globalVid INTEGER NOT NULL, duration INTEGER NOT NULL,
  startTime INTEGER NOT NULL, stopTime INTEGER NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
CREATE TABLE TARGET_INFO_GPU (id INTEGER NOT NULL, name TEXT, totalMemory INTEGER, uuid TEXT);
CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL,
  uuid TEXT);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
  rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER,
  endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
"""


def columns(text: str) -> str:
    """Return the column definitions: `!` quotes a name, `?` allows NULL."""
    parts = []
    for word in text.split():
        name = f'"{word[:-1]}"' if word.endswith("!") else word.rstrip("?")
        parts.append(f"{name} INTEGER{'' if word.endswith('?') else ' NOT NULL'}")
    return ", ".join(parts)


def marks(text: str) -> str:
    """Return one `?` for each column."""
    return ",".join("?" * len(text.split()))


def kernels(rng: Any, at: int, size: int, now: int) -> tuple[list[Any], list[Any], int]:
    """Return the columns of a piece of KERNEL and of RUNTIME, and the last start."""
    start = now + np.cumsum(rng.integers(90, 600, size))
    end = start + rng.integers(900, 60_000, size)
    number = at + np.arange(size)
    rank = number % PROCESSES
    pid = (1 << 48) + ((4242 + rank) << 24)
    correlation = 1000 + number // PROCESSES
    name = rng.integers(1, NAMES + 1, size)
    own = {
        "start": start, "end!": end, "streamId": rng.integers(7, 14, size), "gridId": correlation,
        "correlationId?": correlation, "globalPid?": pid, "demangledName": name,
        "shortName": name, "mangledName?": name, "gridX": rng.integers(1, 8192, size),
        "registersPerThread": rng.integers(16, 255, size), "deviceId": 0 * rank,
    }  # fmt: skip
    fixed = {"greenContextId?": None, "graphNodeId?": None, "blockX": 128, "contextId": 1,
             "dynamicSharedMemory": 16384, "sharedMemoryExecuted?": 32768}  # fmt: skip
    kernel = [
        own[word].tolist() if word in own else [fixed.get(word, 1)] * size
        for word in KERNEL.split()
    ]
    called = start - LAUNCH_NS
    zero, none = [0] * size, [None] * size
    call = [called.tolist(), (called + rng.integers(500, 5000, size)).tolist(), zero,
            (pid + 4242 + rank).tolist(), correlation.tolist(),
            (NAMES + 1 + name % len(APIS)).tolist(), zero, none]  # fmt: skip
    return kernel, call, int(start[-1])


def main() -> None:
    """Write the export."""
    rows, out = int(sys.argv[1]), Path(sys.argv[2])
    out.unlink(missing_ok=True)
    db = sqlite3.connect(out, isolation_level=None)
    db.executescript(SCRIPT)
    for table, text in (("KERNEL", KERNEL), ("RUNTIME", RUNTIME)):
        db.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_{table} ({columns(text)})")
    db.execute("BEGIN")
    names = [f"void ns::kernel_{i}<float, (int){i}>(const T1 *, T2 *)" * (1 + i % 3)
             for i in range(NAMES)]  # fmt: skip
    db.executemany("INSERT INTO StringIds VALUES (?,?)", enumerate((*names, *APIS), 1))
    rng = np.random.default_rng(1)
    now = START_NS
    for at in range(0, rows, PIECE):
        kernel, call, now = kernels(rng, at, min(PIECE, rows - at), now)
        for table, text, data in (("KERNEL", KERNEL, kernel), ("RUNTIME", RUNTIME, call)):
            sql = f"INSERT INTO CUPTI_ACTIVITY_KIND_{table} VALUES ({marks(text)})"
            db.executemany(sql, zip(*data, strict=True))
    steps = np.linspace(START_NS, now, max(rows // 50, 2)).astype(np.int64).tolist()
    length = steps[1] - steps[0] - 10
    thread = (1 << 48) + (4242 << 24) + 4242
    db.executemany(
        'INSERT INTO NVTX_EVENTS (start, "end", eventType, text, globalTid, domainId)'
        " VALUES (?, ?, 59, ?, ?, 0)",
        ((s, s + length, f"execute_context_0(0)_generation_{i % 64}({i % 64})", thread)
         for i, s in enumerate(steps)),
    )  # fmt: skip
    say = "INSERT INTO "
    db.execute(say + "TARGET_INFO_SESSION_START_TIME VALUES (1790000000000000000, '', '')")
    db.execute(say + f"ANALYSIS_DETAILS VALUES (0, {now + START_NS}, 0, {now + START_NS})")
    db.execute(say + "META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.25.0')")
    db.execute(say + "META_DATA_CAPTURE VALUES ('CUDA_GRAPH_TRACE_OPTIONS:MODE', 'Graph')")
    for i in range(PROCESSES):
        db.execute(say + f"TARGET_INFO_GPU VALUES ({i}, 'GPU', {80 << 30}, 'GPU-{i:032x}')")
        db.execute(say + f"TARGET_INFO_CUDA_DEVICE VALUES ({i}, 0, {4242 + i}, NULL)")
    db.execute("COMMIT")
    db.close()


if __name__ == "__main__":
    main()
