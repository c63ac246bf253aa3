"""rocpd: the SQLite database that rocprofv3 writes by default since ROCm 7.

Instants are nanoseconds of the machine's boot clock, never of the epoch. Kernels and copies join
host calls by the event's stack id (its correlation id where that is 0). `device` is the ordinal
among the GPUs. HIP calls become gpu_launches, roctx regions gpu_ranges; regions of other domains
are not stored. Commands, environment, hosts and call arguments are never read. Of several merged
databases each has its own processes (`g0.p111`). When a kernel overflows into its successors: see
`trueput.rocm_rows`. The older `.rpd` files of rocmProfileData are another format.

| code | meaning |
|---|---|
| ROCPD001 | the file is no readable SQLite database, or breaks; what came before was read |
| ROCPD002 | the database is compressed; unpack it first |
| ROCPD003 | records without a start, or that end before it, were dropped |
| ROCPD004 | kernels that ran absurdly far into their successor were clipped |
| ROCPD005 | the schema version is not one of those known; it was read by its columns |
| ROCPD006 | no table of kernels: nothing of the GPU is in this file |
| ROCPD007 | regions of other domains than HIP and markers, not stored |
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from trueput.clock import ClockKind
from trueput.rocm_rows import (
    Device,
    HostCalls,
    Launch,
    Op,
    Operations,
    capture,
    copy_name,
    correlation_of,
    count_of,
    device_items,
    device_key,
    process_key,
    thread_key,
)
from trueput.source_api import NOT_MINE, Clock, Item, ReadOptions, Severity, Sniff, Source
from trueput.sources.rocpd_sqlite.database import Database, open_database
from trueput.tally import Codes, Tally, meanings

_CODES: Final[Codes] = {
    "ROCPD001": (Severity.ERROR, "the database cannot be read from here on"),
    "ROCPD002": (Severity.ERROR, "a compressed database cannot be read, unpack it first"),
    "ROCPD003": (Severity.WARNING, "no start, or end before start: record dropped"),
    "ROCPD004": (Severity.WARNING, "kernel ran over 100 ms into its successor: clipped"),
    "ROCPD005": (Severity.INFO, "unknown schema version, read by its columns"),
    "ROCPD006": (Severity.WARNING, "no table of kernels in this database"),
    "ROCPD007": (Severity.INFO, "regions of other domains are not stored"),
}
_MAGIC: Final = b"SQLite format 3\0"
_MARKS: Final = (b"rocpd_kernel_dispatch", b"rocpd_info_agent", b"rocpd_info_process")
_KNOWN_VERSION: Final = re.compile(r"[34](\.\d+)*")


class _Message(msgspec.Struct):
    """The one key of an event's extdata that is read."""

    message: str | None = None


class _Agent(NamedTuple):
    is_gpu: bool
    device: Device


def sniff(name: str, head: bytes) -> Sniff:
    """Say how sure it is that `head` begins a rocpd database."""
    if head.startswith(_MAGIC) and any(mark in head for mark in _MARKS):
        return Sniff(0.95, "SQLite database with rocpd tables")
    return NOT_MINE


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield what the database recorded, and what was wrong."""
    tally = Tally(_CODES)
    reader = _Reader(tally)
    try:
        with path.open("rb") as stream:
            packed = stream.read(16) != _MAGIC
    except OSError as error:
        packed = False
        tally.add("ROCPD001", text=type(error).__name__)
    if packed:
        tally.add("ROCPD002" if path.suffix in (".gz", ".zst") else "ROCPD001")
    else:
        try:
            connection = open_database(path)
            try:
                yield from reader.read(Database(connection))
            finally:
                connection.close()
        except (sqlite3.Error, OverflowError, ValueError) as error:
            # sqlite3 raises a ValueError where the text of its own error is no UTF-8.
            tally.add("ROCPD001", text=f"{error}"[:120])
            reader.partial = True
    yield from reader.finish()
    yield from tally.problems()
    timed = reader.ops.first_ns or reader.calls.calls or reader.calls.ranges
    yield Clock(ClockKind.MONOTONIC if timed else ClockKind.NONE, method="boot clock of rocprofv3")


class _Reader:
    """The state of reading one database."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.ops = Operations()
        self.calls = HostCalls()
        self.partial = False
        self.found = False
        self.version: str | None = None
        self.windows: list[tuple[int | None, int | None]] = []
        self._processes: dict[tuple[Any, Any], str | None] = {}
        self._threads: dict[tuple[Any, Any], Any] = {}
        self._agents: dict[tuple[Any, Any], _Agent] = {}
        self._kernels: dict[tuple[Any, Any], str | None] = {}

    def read(self, database: Database) -> Iterator[Item]:
        """Yield the rows of the database."""
        self.found = bool(database.columns("rocpd_kernel_dispatch"))
        if not self.found:
            self.tally.add("ROCPD006")
        self._describe(database)
        yield from device_items([a.device for a in self._agents.values() if a.is_gpu])
        yield from self._read_kernels(database)
        yield from self._read_copies(database)
        yield from self._read_regions(database)

    def _describe(self, database: Database) -> None:
        for tag, value in database.rows("rocpd_metadata", ("tag", "value")):
            if tag == "schema_version" and value is not None:
                self.version = str(value)[:40]
        if self.version is None or not _KNOWN_VERSION.fullmatch(self.version):
            self.tally.add("ROCPD005", text=self.version or "none given")
        rows = list(database.rows("rocpd_info_process", ("guid", "id", "pid", "init", "fini")))
        guids = sorted({str(guid) for guid, *_ in rows})
        for guid, row_id, pid, *_ in rows:
            key = process_key(count_of(pid))
            several = f"g{guids.index(str(guid))}." if len(guids) > 1 else ""
            self._processes[guid, row_id] = f"{several}{key}" if key else None
        self.windows = [(count_of(row[3]), count_of(row[4])) for row in rows]
        for guid, row_id, tid in database.rows("rocpd_info_thread", ("guid", "id", "tid")):
            self._threads[guid, row_id] = tid
        self._describe_agents(database)
        wanted = ("guid", "id", "display_name", "kernel_name")
        for guid, row_id, shown, raw in database.rows("rocpd_info_kernel_symbol", wanted):
            name = shown or raw
            self._kernels[guid, row_id] = name.removesuffix(".kd") if _is_text(name) else None

    def _describe_agents(self, database: Database) -> None:
        wanted = (
            "guid", "id", "type", "type_index", "logical_index", "absolute_index",
            "product_name", "model_name", "name", "uuid", "pid",
        )  # fmt: skip
        for row in database.rows("rocpd_info_agent", wanted):
            guid, row_id, kind = row[:3]
            ordinal = next((n for n in map(count_of, row[3:6]) if n is not None), None)
            name = next((n for n in row[6:9] if _is_text(n)), None)
            process = self._processes.get((guid, row[10]))
            uuid = _uuid(row[9])
            key = device_key(uuid, process, ordinal)
            device = Device(key, ordinal, process, name, uuid, None)
            self._agents[guid, row_id] = _Agent(str(kind).upper() == "GPU", device)

    def _read_kernels(self, database: Database) -> Iterator[Item]:
        wanted = ("pid", "tid", "agent_id", "queue_id", "stream_id", "kernel_id")
        for row in database.operations("rocpd_kernel_dispatch", wanted):
            guid, start, end, corr, _, _, _, pid, _, agent, queue, stream, kernel = row
            self._add(
                guid, (start, end), corr, (pid, agent, queue, stream),
                kind="kernel", name=self._kernels.get((guid, kernel)),
            )  # fmt: skip
            yield from self.ops.full()

    def _read_copies(self, database: Database) -> Iterator[Item]:
        wanted = (
            "pid",
            "queue_id",
            "stream_id",
            "src_agent_id",
            "dst_agent_id",
            "size",
            "agent_id",
        )
        for row in database.operations("rocpd_memory_copy", wanted):
            guid, start, end, corr, _, _, name, pid, queue, stream, source, target, size, own = row
            to_gpu = self._agents.get((guid, target))
            agent = target if to_gpu is not None and to_gpu.is_gpu else source
            self._add(
                guid, (start, end), corr,
                (pid, own if agent is None else agent, queue, stream),
                kind="memcpy", name=copy_name(name if _is_text(name) else None),
                size=count_of(size),
            )  # fmt: skip
            yield from self.ops.full()

    def _add(
        self,
        guid: Any,
        span: tuple[Any, Any],
        correlation: Any,
        place: tuple[Any, Any, Any, Any],
        *,
        kind: str,
        name: str | None,
        size: int | None = None,
    ) -> None:
        pid, agent_id, queue, stream = place
        process = self._processes.get((guid, pid))
        agent = self._agents.get((guid, agent_id))
        ordinal = agent.device.device if agent else count_of(agent_id)
        uuid = agent.device.uuid if agent else None
        where = count_of(queue)
        self.ops.add(
            Op(
                kind=kind,
                start_at_ns=count_of(span[0]) or 0,
                end_at_ns=count_of(span[1]) or 0,
                device=ordinal,
                device_key=device_key(uuid, process, ordinal),
                process_key=process,
                stream=count_of(stream) if where is None else where,
                correlation_id=correlation_of(correlation),
                name=name,
                bytes=size,
            )
        )

    def _read_regions(self, database: Database) -> Iterator[Item]:
        for row in database.operations("rocpd_region", ("pid", "tid")):
            guid, start, end, corr, category, extra, name, pid, tid = row
            process = self._processes.get((guid, pid))
            thread = count_of(self._threads.get((guid, tid)))
            domain = category if _is_text(category) else ""
            marker = "marker" in domain.lower()
            if not marker and "hip" not in domain.lower():
                self.tally.add("ROCPD007", text=domain[:40])
                continue
            launch = Launch(
                process_key=process,
                thread_key=thread_key(process, thread),
                correlation_id=correlation_of(corr),
                api=name if _is_text(name) else None,
                start_at_ns=count_of(start) or 0,
                end_at_ns=count_of(end) or 0,
            )
            if marker:
                text = _message(extra) or launch.api
                by_id = not thread or "Process" in (launch.api or "")
                self.calls.range(launch._replace(api=text), domain, by_id=by_id)
            else:
                self.calls.call(launch)
            yield from self.calls.full()

    def finish(self) -> Iterator[Item]:
        """Yield what is left and the capture, and count what was odd."""
        yield from self.ops.finish()
        yield from self.calls.finish()
        if self.found or self.calls.calls:
            yield capture(
                "rocpd",
                [(self.ops, self.calls)],
                partial=self.partial,
                version=self.version,
                windows=self.windows,
            )
        if dropped := self.ops.dropped + self.calls.dropped:
            self.tally.add("ROCPD003", count=dropped)
        if self.ops.clipped:
            self.tally.add("ROCPD004", count=self.ops.clipped)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _uuid(value: Any) -> str | None:
    """Return a GPU's UUID, which some versions give as a number."""
    if isinstance(value, int):
        return f"GPU-{value & (2**64 - 1):016x}" if value else None
    return value if _is_text(value) and value.strip("0-") else None


def _message(extra: Any) -> str | None:
    if not _is_text(extra):
        return None
    try:
        return msgspec.json.decode(extra, type=_Message).message
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


SOURCE = Source(
    name="rocpd_sqlite",
    title="rocpd database of rocprofv3 (SQLite)",
    versions="schema 3 (ROCm 7) and 4",
    tables=("gpu_ops", "gpu_launches", "gpu_ranges", "gpu_devices", "gpu_captures"),
    sniff=sniff,
    read=read,
    problem_codes=meanings(_CODES),
    proves="Every kernel and copy on AMD GPUs with its queue, launch and step annotations.",
    turn_on="rocprofv3 --sys-trace (the default output since ROCm 7)",
)
