"""An Nsight Systems SQLite export (schema 3.25) of the run, in three ways of tracing it.

`eager`: every operation has its own launch. `node`: decode-only steps are one graph launch whose
kernels share its correlation id and carry graph node ids. `graph`: such a launch leaves one
GRAPH_TRACE row and no kernels. The operations on the devices are the same in all three.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simulator.clocks import SESSION_NS, unix_ns
from simulator.devices import COMMUNICATION, Op
from simulator.engine import Run
from simulator.launches import APIS, GRAPH_LAUNCH, HostStep, Launch, host_steps
from simulator.telemetry import UUID

ACTIVITY = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
    "contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, "
    "correlationId INTEGER, globalPid INTEGER"
)
TABLES = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "META_DATA_EXPORT": "name TEXT NOT NULL, value TEXT",
    "META_DATA_CAPTURE": "name TEXT NOT NULL, value TEXT",
    "TARGET_INFO_SESSION_START_TIME":
        "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT, systemClockNs INTEGER",
    "ANALYSIS_DETAILS":
        "globalVid INTEGER NOT NULL, duration INTEGER NOT NULL, startTime INTEGER NOT NULL, "
        "stopTime INTEGER NOT NULL",
    "TARGET_INFO_GPU":
        "vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, "
        "totalMemory INTEGER, smCount INTEGER, uuid TEXT, cuDevice INTEGER, "
        "computeMajor INTEGER, computeMinor INTEGER",
    "TARGET_INFO_CUDA_DEVICE":
        "gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL, uuid TEXT, "
        "numMultiprocessors INTEGER",
    "PROCESSES": "globalPid INTEGER, pid INTEGER, name TEXT",
    "ThreadNames": "nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER",
    "DIAGNOSTIC_EVENT":
        "timestamp INTEGER NOT NULL, timestampType INTEGER NOT NULL, source INTEGER NOT NULL, "
        "severity INTEGER NOT NULL, text TEXT NOT NULL, globalPid INTEGER",
    "CUPTI_ACTIVITY_KIND_RUNTIME":
        "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, "
        "globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, "
        "returnValue INTEGER NOT NULL, callchainId INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMCPY":
        f"{ACTIVITY}, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, "
        "deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER, srcDeviceId INTEGER, "
        "srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER, "
        "migrationCause INTEGER, graphNodeId INTEGER, virtualAddress INTEGER, copyCount INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMSET":
        f"{ACTIVITY}, value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER, "
        "memKind INTEGER",
    "CUPTI_ACTIVITY_KIND_KERNEL":
        f"{ACTIVITY}, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, "
        "mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER, "
        "registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, "
        "gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, "
        "blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, "
        "dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL, "
        "localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL, "
        "sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER, "
        "qmdBulkReleaseDone INTEGER, qmdPreexitDone INTEGER, qmdLastCtaDone INTEGER, "
        "graphId INTEGER, clusterX INTEGER, clusterY INTEGER, clusterZ INTEGER, "
        "clusterSchedulingPolicy INTEGER, maxPotentialClusterSize INTEGER, "
        "maxActiveClusters INTEGER, sharedMemoryRequestedPercentage INTEGER, "
        "tensorSizeMinusOneElements TEXT NOT NULL",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE":
        f"{ACTIVITY}, graphId INTEGER NOT NULL, graphExecId INTEGER NOT NULL",
    "NVTX_EVENTS":
        "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, "
        "category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, "
        "textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER, "
        "doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, "
        "jsonTextId INTEGER, jsonText TEXT, binaryData TEXT",
    "ENUM_CUDA_MEMCPY_OPER": "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT",
    "ENUM_NSYS_EVENT_TYPE": "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT",
}  # fmt: skip
ENUMS = {
    "ENUM_CUDA_MEMCPY_OPER": [
        (1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"),
        (2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"),
    ],
    "ENUM_NSYS_EVENT_TYPE": [
        (59, "NvtxPushPopRange", "NVTX Push/Pop Range"),
        (75, "NvtxDomainCreate", "NVTX Domain Create"),
    ],
}
VERSIONED = {
    **{api: f"{api}_v7000" for api in APIS.values()},
    "cudaMemcpyAsync": "cudaMemcpyAsync_v3020",
    "cudaMemsetAsync": "cudaMemsetAsync_v3020",
    GRAPH_LAUNCH: "cudaGraphLaunch_v10000",
}
VM = 0x1_0000_0000_0000
HIDDEN = {"graph"}
Row = tuple[Any, ...]


def _global_pid(device: int) -> int:
    return VM | ((4200 + device) << 24)


def _at(at: int) -> int:
    return at + SESSION_NS


class Export:
    """Rows of one export, by table."""

    def __init__(self, run: Run, mode: str) -> None:
        self.run = run
        self.mode = mode
        self.rows: dict[str, list[Row]] = {}
        self.strings: dict[str, int] = {}
        self.grid = 0

    def _string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def _add(self, table: str, *row: Any) -> None:
        self.rows.setdefault(table, []).append(row)

    def _where(self, op_start: int, op_end: int, device: int, stream: int, correlation: int) -> Row:
        # deviceId is the ordinal inside its process: every rank sees one device, number 0
        return (
            _at(op_start), _at(op_end), 0, 1, None, stream, correlation, _global_pid(device),
        )  # fmt: skip

    def _operation(self, op: Op, launch: Launch, node: int | None) -> None:
        where = self._where(op.start, op.end, op.device, op.stream, launch.correlation)
        if op.kind == "memset":
            self._add("CUPTI_ACTIVITY_KIND_MEMSET", *where, 0, op.moved, node, 2)
        elif op.kind in ("h2d", "d2h"):
            kind = 1 if op.kind == "h2d" else 2
            ends = (1, 2) if op.kind == "h2d" else (2, 1)
            self._add(
                "CUPTI_ACTIVITY_KIND_MEMCPY", *where, op.moved, kind, None, *ends,
                None, None, None, None, None, node, None, 1,
            )  # fmt: skip
        else:
            self.grid += 1
            short = op.name.split("<")[0].split("(")[0].split("::")[-1].removeprefix("void ")
            grid = 24 if op.stream == COMMUNICATION else 132
            self._add(
                "CUPTI_ACTIVITY_KIND_KERNEL", *where, self._string(op.name), self._string(short),
                None, 1, 0, 128, grid, 1, 1, 384, 1, 1, 1024, 0, 0, 0, self.grid,
                None, node, None, None, None, None, None, 0, 0, 0, None, None, None, None, "[]",
            )  # fmt: skip

    def _launch(self, launch: Launch, device: int, graph: int) -> None:
        tid = _global_pid(device) | (4200 + device)
        name = self._string(VERSIONED[launch.api])
        self._add(
            "CUPTI_ACTIVITY_KIND_RUNTIME", _at(launch.start), _at(launch.end), 0, tid,
            launch.correlation, name, 0, None,
        )  # fmt: skip
        if launch.is_graph and self.mode in HIDDEN:
            start, end = min(o.start for o in launch.ops), max(o.end for o in launch.ops)
            stream = launch.ops[0].stream
            where = self._where(start, end, device, stream, launch.correlation)
            self._add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", *where, graph, graph + 1)
            return
        for k, op in enumerate(launch.ops):
            node = (graph << 32) + k + 1 if launch.is_graph else None
            self._operation(op, launch, node)

    def _step(self, host: HostStep, device: int) -> None:
        tid = _global_pid(device) | (4200 + device)
        self._add(
            "NVTX_EVENTS", _at(host.start), _at(host.end), 59, None, None, None, host.name, tid,
            None, None, 0, *[None] * 9,
        )  # fmt: skip
        graph = 10 * host.step.count(context=False)[0]
        for launch in host.launches:
            self._launch(launch, device, graph)

    def _meta(self) -> Iterator[tuple[str, Row]]:
        for name, value in (
            ("EXPORT_PRODUCT_NAME", "simulated in the shape of NVIDIA Nsight Systems"),
            ("EXPORT_SCHEMA_VERSION", "3.25.0"),
            ("EXPORT_SCHEMA_VERSION_MAJOR", "3"),
            ("EXPORT_SCHEMA_VERSION_MINOR", "25"),
            ("EXPORT_SCHEMA_VERSION_MICRO", "0"),
            ("EXPORT_PARAM_EXPORT_TYPE", "SQLite"),
            ("EXPORT_PARAM_LAZY", "true"),
            ("EXPORT_PARAM_TIME_NORMALIZE", "false"),
            ("EXPORT_PARAM_TIME_SHIFT", "0"),
            ("EXPORT_PARAM_TABLES_TO_EXPORT", ""),
            ("EXPORT_PARAM_TIMES_TO_EXPORT", ""),
        ):
            yield "META_DATA_EXPORT", (name, value)
        for name, value in (
            ("CAPTURE_EVENT_TYPE", "NvtxEvents"),
            ("CAPTURE_EVENT_TYPE", "Cuda"),
            ("CUDA_GRAPH_TRACE_OPTIONS:MODE", "Graph" if self.mode == "graph" else "Node"),
        ):
            yield "META_DATA_CAPTURE", (name, value)
        utc = unix_ns(-SESSION_NS)
        yield "TARGET_INFO_SESSION_START_TIME", (utc, None, None, None)
        yield "ANALYSIS_DETAILS", (VM, _at(self.run.ended_at), 0, _at(self.run.ended_at))
        for k in range(self.run.config.devices):
            uuid = UUID.format(k)
            gpu = (0, k, "Simulated GPU", f"0000:0{k}:00.0", 85_899_345_920, 132, uuid, k, 9, 0)
            yield "TARGET_INFO_GPU", gpu
            yield "TARGET_INFO_CUDA_DEVICE", (k, 0, 4200 + k, uuid, 132)
            yield "PROCESSES", (_global_pid(k), 4200 + k, "VLLM::Worker")
            thread = self._string(f"VLLM::Worker_TP{k}")
            yield "ThreadNames", (thread, 20, _global_pid(k) | (4200 + k))

    def make(self) -> None:
        """Fills all tables."""
        for table, row in self._meta():
            self._add(table, *row)
        for device in range(self.run.config.devices):
            for host in host_steps(self.run, device, graphs=self.mode != "eager"):
                self._step(host, device)
        for table, rows in ENUMS.items():
            self.rows[table] = list(rows)
        self.rows["StringIds"] = [(k, text) for text, k in self.strings.items()]


def write(run: Run, path: Path, mode: str) -> None:
    """Writes the export; tables without rows do not exist, as the exporter's lazy ones."""
    export = Export(run, mode)
    export.make()
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA page_size = 512")
        connection.execute("PRAGMA journal_mode = OFF")
        for table, columns in TABLES.items():
            rows = export.rows.get(table)
            if rows:
                quoted = columns.replace("end INTEGER", '"end" INTEGER')
                connection.execute(f'CREATE TABLE "{table}" ({quoted})')
                marks = ", ".join("?" * len(rows[0]))
                connection.executemany(f'INSERT INTO "{table}" VALUES ({marks})', rows)
        connection.commit()
    finally:
        connection.close()
