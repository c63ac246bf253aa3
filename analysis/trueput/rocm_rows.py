"""Shared ground of the ROCm sources: what an AMD profiler recorded, as rows, and doubt about it.

**Impossible times.** An operation without a start, or that ends before it, is dropped and counted;
one of no length stays, marked `zero_duration`.

**Overflow.** ROCm is known to report a kernel that runs on for seconds into its successors on the
same queue. Overlap on a queue alone is legal (a packet without the barrier bit), so that a kernel
is cut only when it ends more than `OVERFLOW_NS` (100 ms) after the next later start on its queue:
then it ends at that start, is marked `clipped`, and is counted. No copy is ever cut.

**Suspicious length.** A kernel above 100 ms that alone fills more than half of the file's span, of
at least ten kernels, is marked `suspicious_length` and left as it is.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa

from trueput.source_api import BATCH_ROWS, Batch, Fact, loses_much
from trueput.step_annotation import parse_step
from trueput.units import MAX_NS

OVERFLOW_NS: Final = 100_000_000
_MAX_STARTS: Final = 8_000_000
_MAX_HELD: Final = 100_000
_FEW_KERNELS: Final = 10
_COMMUNICATION: Final = re.compile(r"nccl|rccl|cross_device_reduce", re.IGNORECASE)
_DIRECTION: Final = re.compile(r"(HOST|DEVICE)_TO_(HOST|DEVICE)")
_LETTER: Final = {"HOST": "H", "DEVICE": "D"}


class Op(NamedTuple):
    """One operation; the fields are columns of gpu_ops."""

    kind: str
    start_at_ns: int
    end_at_ns: int
    device: int | None
    device_key: str
    process_key: str | None
    stream: int | None
    correlation_id: int | None
    name: str | None
    bytes: int | None = None
    quality: str | None = None


class Device(NamedTuple):
    """One GPU; the fields are columns of gpu_devices."""

    device_key: str
    device: int | None
    process_key: str | None
    name: str | None
    uuid: str | None
    memory_bytes: int | None


class Launch(NamedTuple):
    """One host call; the fields are columns of gpu_launches."""

    process_key: str | None
    thread_key: str | None
    correlation_id: int | None
    api: str | None
    start_at_ns: int
    end_at_ns: int


def process_key(pid: int | None) -> str | None:
    """Return the key of a process, `p111`."""
    return None if pid is None else f"p{pid}"


def thread_key(process: str | None, tid: int | None) -> str | None:
    """Return the key of a thread, `p111:t112`; 0 stands for no thread in these formats."""
    return None if not tid else f"{process or 'p?'}:t{tid}"


def device_key(uuid: str | None, process: str | None, ordinal: int | None) -> str:
    """Return the key of a device: its UUID, else process (`p?` for an unknown one) and ordinal."""
    return uuid or f"{process or 'p?'}:{'?' if ordinal is None else ordinal}"


def count_of(value: Any) -> int | None:
    """Return an id or count that fits the store, else None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -MAX_NS <= value <= MAX_NS else None


def correlation_of(value: Any) -> int | None:
    """Return a correlation id; 0 stands for none."""
    return count_of(value) or None


def copy_name(text: str | None) -> str | None:
    """Return `HtoD` for `MEMORY_COPY_HOST_TO_DEVICE` and the like; other texts as they are."""
    found = _DIRECTION.search(text or "")
    return f"{_LETTER[found[1]]}to{_LETTER[found[2]]}" if found else text


@lru_cache(maxsize=65_536)
def _kernel_class(name: str | None) -> str:
    return "communication" if _COMMUNICATION.search(name or "") else "compute"


def _class_of(op: Op) -> str | None:
    return _kernel_class(op.name) if op.kind == "kernel" else None


class _Rows:
    """Rows of one table, handed out in batches."""

    def __init__(self, table: str, columns: tuple[str, ...]) -> None:
        self._table = table
        self._columns = columns
        self._rows: list[tuple[Any, ...]] = []

    def add(self, row: tuple[Any, ...]) -> None:
        self._rows.append(row)

    def take(self, *, at_least: int = 1) -> Iterator[Batch]:
        while len(self._rows) >= at_least:
            part, self._rows = self._rows[:BATCH_ROWS], self._rows[BATCH_ROWS:]
            columns = zip(self._columns, zip(*part, strict=True), strict=True)
            yield Batch(self._table, pa.table({n: pa.array(c) for n, c in columns}))


class Operations:
    """Operations on their way into gpu_ops. `full` after each addition, `finish` at the end."""

    def __init__(self) -> None:
        self._rows = _Rows("gpu_ops", (*Op._fields, "class"))
        self._starts: dict[tuple[Any, ...], array[int]] = {}
        self._start_count = 0
        self._held: list[Op] = []
        self.kernels = 0
        self.rows = 0
        self.dropped = 0
        self.unread = 0
        """Records that the source could not read: each was an operation."""
        self.clipped = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None

    def add(self, op: Op) -> None:
        """Take one operation, in the order of the file."""
        if not 0 < op.start_at_ns <= op.end_at_ns <= MAX_NS:
            self.dropped += 1
            return
        self.rows += 1
        length = op.end_at_ns - op.start_at_ns
        if op.kind == "kernel":
            self.kernels += 1
            if self._start_count < _MAX_STARTS:
                queue = (op.device_key, op.process_key, op.stream)
                self._starts.setdefault(queue, array("q")).append(op.start_at_ns)
                self._start_count += 1
            if length > OVERFLOW_NS and len(self._held) < _MAX_HELD:
                self._held.append(op)
                return
        self._span(op)
        if length == 0:
            op = op._replace(quality="zero_duration")
        self._rows.add((*op, _class_of(op)))

    def _span(self, op: Op) -> None:
        if self.first_ns is None or op.start_at_ns < self.first_ns:
            self.first_ns = op.start_at_ns
        if self.last_ns is None or op.end_at_ns > self.last_ns:
            self.last_ns = op.end_at_ns

    def full(self) -> Iterator[Batch]:
        """Yield a batch where one is full."""
        return self._rows.take(at_least=BATCH_ROWS)

    def finish(self) -> Iterator[Batch]:
        """Yield what is left: last the kernels above 100 ms, which are judged here."""
        if self._held:
            self._judge()
        yield from self._rows.take()

    @property
    def lost(self) -> int:
        """How many operations of the file are not in its rows."""
        return self.dropped + self.unread

    def _judge(self) -> None:
        import numpy as np

        queues = {q: np.sort(np.frombuffer(s, dtype=np.int64)) for q, s in self._starts.items()}
        half = (self._reached([op.end_at_ns for op in self._held]) - self._began()) / 2
        for held in self._held:
            op = held
            starts = queues.get((op.device_key, op.process_key, op.stream))
            if starts is not None:
                at = int(np.searchsorted(starts, op.start_at_ns, side="right"))
                if at < len(starts) and op.end_at_ns - int(starts[at]) > OVERFLOW_NS:
                    op = op._replace(end_at_ns=int(starts[at]), quality="clipped")
                    self.clipped += 1
            whole = op.quality is None and op.end_at_ns - op.start_at_ns > half
            if whole and self.kernels >= _FEW_KERNELS:
                op = op._replace(quality="suspicious_length")
            self._span(op)
            self._rows.add((*op, _class_of(op)))
        self._held = []

    def _began(self) -> int:
        return min([op.start_at_ns for op in self._held] + [self.first_ns or MAX_NS])

    def _reached(self, ends: list[int]) -> int:
        return max([*ends, self.last_ns or 0])


class HostCalls:
    """Host calls and annotation ranges on their way into gpu_launches and gpu_ranges."""

    def __init__(self) -> None:
        self._launches = _Rows("gpu_launches", Launch._fields)
        self._ranges: list[dict[str, Any]] = []
        self.calls = 0
        self.ranges = 0
        self.graph_launches = 0
        self.dropped = 0

    def call(self, launch: Launch) -> None:
        """Take one host call."""
        if not 0 < launch.start_at_ns <= launch.end_at_ns <= MAX_NS:
            self.dropped += 1
            return
        self.calls += 1
        self.graph_launches += (launch.api or "").startswith("hipGraphLaunch")
        self._launches.add(launch)

    def range(self, launch: Launch, domain: str | None, *, by_id: bool = False) -> None:
        """Take one annotation: `launch.api` is its text. A mark is a range of no length."""
        if not 0 < launch.start_at_ns <= launch.end_at_ns <= MAX_NS:
            self.dropped += 1
            return
        self.ranges += 1
        row: dict[str, Any] = {
            "name": launch.api,
            "domain": domain,
            "process_key": launch.process_key,
            "thread_key": launch.thread_key,
            "start_at_ns": launch.start_at_ns,
            "end_at_ns": launch.end_at_ns,
            "style": "start_end" if by_id else "push_pop",
        }
        if (step := parse_step(launch.api or "")) is not None:
            row |= asdict(step)
        self._ranges.append(row)

    def full(self) -> Iterator[Batch]:
        """Yield a batch where one is full."""
        yield from self._launches.take(at_least=BATCH_ROWS)
        if len(self._ranges) >= BATCH_ROWS:
            yield from self._take_ranges()

    def finish(self) -> Iterator[Batch]:
        """Yield what is left."""
        yield from self._launches.take()
        yield from self._take_ranges()

    def _take_ranges(self) -> Iterator[Batch]:
        while self._ranges:
            part, self._ranges = self._ranges[:BATCH_ROWS], self._ranges[BATCH_ROWS:]
            yield Batch("gpu_ranges", part)


def capture(
    profiler: str,
    parts: Sequence[tuple[Operations, HostCalls]],
    *,
    partial: bool,
    version: str | None = None,
    windows: Sequence[tuple[int | None, int | None]] = (),
) -> Batch:
    """Return the row of gpu_captures for one file of one or more processes.

    `windows` are the captures' own limits; without them the operations tell.
    """
    ops = [part[0] for part in parts]
    calls = [part[1] for part in parts]
    starts = _instants([w[0] for w in windows]) or _instants([o.first_ns for o in ops])
    seen = _instants([o.last_ns for o in ops])
    ends = seen if partial else _instants([w[1] for w in windows]) or seen
    graphs = sum(c.graph_launches for c in calls)
    row = {
        "profiler": profiler,
        "schema_version": version,
        "status": "partial" if partial else "whole",
        "operations_lost": partial or any(loses_much(o.lost, o.rows + o.lost) for o in ops),
        "graph_launches": graphs if any(c.calls for c in calls) else None,
        "kernel_rows": sum(o.kernels for o in ops),
        "graph_span_rows": 0,
        "dropped_rows": sum(o.lost for o in ops) + sum(c.dropped for c in calls),
        "dropped_operations": sum(o.lost for o in ops) or None,
        "started_at_ns": min(starts, default=None),
        "ended_at_ns": max(ends, default=None),
    }
    return Batch("gpu_captures", [row])


def _instants(values: Sequence[int | None]) -> list[int]:
    return [value for value in values if value is not None and 0 < value <= MAX_NS]


def device_items(devices: list[Device]) -> Iterator[Batch | Fact]:
    """Yield the rows of gpu_devices, and the model that all of them share."""
    if devices:
        yield Batch("gpu_devices", [device._asdict() for device in devices])
    names = {device.name for device in devices}
    if len(names) == 1 and (name := names.pop()) is not None:
        yield Fact("hardware", name)
