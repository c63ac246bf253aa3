"""KERNEL, MEMCPY, MEMSET and GRAPH_TRACE -> gpu_ops."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trueput.nsys_rows.devices import Devices, usable
from trueput.nsys_rows.keys import KeySet
from trueput.nsys_rows.tables import (
    Coded,
    Column,
    Flags,
    Ints,
    Names,
    Query,
    Tables,
    coded,
    filtered,
    numbers_of,
    paired,
    sound_times,
    without_zero,
)
from trueput.scan import Damage
from trueput.source_api import Batch, Item
from trueput.tally import Tally

COMMUNICATION: Final = re.compile(r"nccl|rccl|cross_device_reduce", re.IGNORECASE)
COPIES: Final = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD",
    9: "HtoH", 10: "PtoP", 11: "unified HtoD", 12: "unified DtoH", 13: "unified DtoD",
}  # fmt: skip
_COMMON = (
    "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid",
)  # fmt: skip
_FEW: Final = 3
_KERNEL: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_MEMCPY: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
_MEMSET: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
_GRAPH_TRACE: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
OPERATION_TABLES: Final = frozenset((_KERNEL, _MEMCPY, _MEMSET, _GRAPH_TRACE))
"""The tables that hold what ran on a device."""


@dataclass
class Counts:
    """What was met in the tables of operations."""

    rows: dict[str, int] = field(default_factory=dict)
    graph_nodes: int = 0
    dropped: int = 0
    damaged: bool = False
    first_ns: int | None = None
    last_ns: int | None = None
    without_process: int = 0
    nameless: int = 0
    """Kernels whose name is not in the export."""

    @property
    def total(self) -> int:
        """All operations of the file."""
        return sum(self.rows.values())

    def seen(self, start: Ints, end: Ints) -> None:
        """Widen the span from the first start to the last end."""
        low, high = int(start.min()), int(end.max())
        self.first_ns = low if self.first_ns is None else min(low, self.first_ns)
        self.last_ns = high if self.last_ns is None else max(high, self.last_ns)


@dataclass
class Operations:
    """Reads the operations of one export."""

    tables: Tables
    names: Names
    devices: Devices
    tally: Tally
    keys: KeySet
    sole_process: int | None
    long_ns: int | None
    graph_nodes: bool = True
    counts: Counts = field(default_factory=Counts)

    def read(self) -> Iterator[Item]:
        """Yield the rows of gpu_ops: kernels, copies, memsets, spans of whole graphs."""
        name = next(
            (n for n in ("demangledName", "shortName", "mangledName", "nameId")
             if n in self.tables.columns(_KERNEL)), None
        )  # fmt: skip
        yield from self._table(_KERNEL, "kernel", (name,) if name else ())
        yield from self._table(_MEMCPY, "memcpy", ("bytes", "copyKind"))
        yield from self._table(_MEMSET, "memset", ("bytes",))
        yield from self._table(_GRAPH_TRACE, "graph_span", ())

    def _table(self, table: str, kind: str, more: tuple[str, ...]) -> Iterator[Item]:
        self.counts.rows.setdefault(kind, 0)
        numbers = (*_COMMON, *more, *(("graphNodeId",) if self.graph_nodes else ()))
        for batch in self.tables.batches(Query(table, numbers)):
            if isinstance(batch, Damage):
                self.tally.add("NSYS002", text=f"{table}: {batch.text}")
                self.counts.damaged = True
                return
            self.counts.rows[kind] += len(batch)
            sound = self._sound(batch, kind)
            if len(sound):
                yield Batch("gpu_ops", self._rows(sound, kind, more))

    def _sound(self, batch: pa.RecordBatch, kind: str) -> pa.RecordBatch:
        untimed = (numbers_of(batch, "start") == 0) & (numbers_of(batch, "end") == 0)
        keep = sound_times(batch)
        keep &= ~untimed
        lost = len(batch) - int(keep.sum())
        if not lost:
            return batch
        missing = int(untimed.sum()) if kind == "graph_span" else 0
        if missing:
            self.tally.add("NSYS006", count=missing)
        if lost > missing:
            self.tally.add("NSYS003", text="dropped", count=lost - missing)
        self.counts.dropped += lost
        return filtered(batch, keep)

    def _rows(self, batch: pa.RecordBatch, kind: str, more: tuple[str, ...]) -> pa.RecordBatch:
        start, end = numbers_of(batch, "start"), numbers_of(batch, "end")
        self.counts.seen(start, end)
        process = self._process(batch)
        ordinal = coded(batch.column("deviceId"))
        known = [usable(v) for v in ordinal.values]
        is_wild, ordinal = known != ordinal.values, Coded(ordinal.codes, known)
        device = paired(process, ordinal)
        self._note_keys(process, batch)
        out: dict[str, Any] = {
            "kind": Coded(np.zeros(len(batch), np.int32), [kind]).text([kind]),
            "start_at_ns": batch.column("start"),
            "end_at_ns": batch.column("end"),
            "device": batch.column("deviceId"),
            "device_key": device.text([self.devices.key(p, o) for p, o in device.values]),
            "process_key": process.text([None if v is None else str(v) for v in process.values]),
            "context_id": batch.column("contextId"),
            "stream": batch.column("streamId"),
            "correlation_id": without_zero(batch, "correlationId"),
        }
        if is_wild:
            out["device"] = ordinal.numbers(known)
        if self.graph_nodes:
            out["graph_node_id"] = nodes = without_zero(batch, "graphNodeId")
            if kind == "kernel":
                self.counts.graph_nodes += len(nodes) - nodes.null_count
        out |= self._own(batch, kind, more)
        quality = self._quality(end - start)
        if quality is not None:
            out["quality"] = quality
        return pa.RecordBatch.from_pydict(out)

    def _process(self, batch: pa.RecordBatch) -> Coded:
        process = coded(batch.column("globalPid"))
        if None in process.values:
            if self.sole_process is None:
                self.counts.without_process += batch.column("globalPid").null_count
            values = [self.sole_process if v is None else v for v in process.values]
            process = Coded(process.codes, values)
        return process

    def _note_keys(self, process: Coded, batch: pa.RecordBatch) -> None:
        ids = numbers_of(batch, "correlationId")
        for code, value in enumerate(process.values):
            mine = ids if len(process.values) == 1 else ids[process.codes == code]
            self.keys.add(value, mine)

    def _own(self, batch: pa.RecordBatch, kind: str, more: tuple[str, ...]) -> dict[str, Any]:
        if kind == "kernel":
            if not more:
                self.counts.nameless += len(batch)
                return {}
            ids = coded(batch.column(more[0]))
            texts = self.names.of(ids.values)
            if None in texts:
                self.counts.nameless += int(ids.flags([t is None for t in texts]).sum())
            return {"name": ids.text(texts), "class": ids.text([_class(t) for t in texts])}
        if kind == "graph_span":
            return {}
        own = {"bytes": batch.column("bytes"), "name": text_of(len(batch), "memset")}
        if kind == "memcpy":
            kinds = coded(batch.column("copyKind"))
            own["name"] = kinds.text(
                [None if k is None else COPIES.get(k, f"copy kind {k}") for k in kinds.values]
            )
        return own

    def _quality(self, lengths: Ints) -> Column | None:
        zero = lengths == 0
        long: Flags = lengths > self.long_ns if self.long_ns is not None else np.zeros_like(zero)
        if not zero.any() and not long.any():
            return None
        for code, found in (("NSYS004", zero), ("NSYS005", long)):
            if found.any():
                self.tally.add(code, count=int(found.sum()))
        codes = (zero + 2 * long).astype(np.int32)
        return Coded(codes, []).text([None, "zero_duration", "suspicious_length"])


def text_of(rows: int, text: str) -> Column:
    """Return a column of one text."""
    return Coded(np.zeros(rows, np.int32), []).text([text])


@lru_cache(maxsize=8192)
def _class(name: str | None) -> str | None:
    """Return what a kernel is for; None without its name."""
    if name is None:
        return None
    return "communication" if COMMUNICATION.search(name) else "compute"


def long_from_span(tables: Tables) -> int | None:
    """Return half the span of the operations: what is longer is suspicious. None for a few rows."""
    low: list[int] = []
    high: list[int] = []
    rows = 0
    for kind in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"):
        for batch in tables.batches(Query(f"CUPTI_ACTIVITY_KIND_{kind}", ("start", "end"))):
            if isinstance(batch, Damage):
                break
            start, end = numbers_of(batch, "start"), numbers_of(batch, "end")
            good = sound_times(batch) & ((start != 0) | (end != 0))
            rows += int(good.sum())
            if good.any():
                low.append(int(start[good].min()))
                high.append(int(end[good].max()))
    return (max(high) - min(low)) // 2 if rows >= _FEW else None
