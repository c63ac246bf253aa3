"""What the export says of itself: version, clock, graph mode, overhead, warnings.

Only the settings named here are read; the same tables hold command lines and environments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from trueput.clock import ClockKind
from trueput.nsys_rows.devices import records
from trueput.nsys_rows.launches import THREAD_MASK
from trueput.nsys_rows.tables import (
    FAR_NS,
    Flags,
    Query,
    Tables,
    coded,
    filtered,
    numbers_of,
    sound_times,
)
from trueput.scan import Damage
from trueput.source_api import Batch, Clock
from trueput.tally import Tally

EPOCH_FROM_NS: Final = 10**17
"""Instants above this (1973) are of the epoch: no session lasts three years."""
STATED_WITHIN_NS: Final = 1_000_000
"""The start of a session is told to the nanosecond; both clocks are read one after the other."""
WHOLE_SECONDS_NS: Final = 1_000_000_000
"""A start without a part of a second was rounded."""

_EXPORT = (
    "EXPORT_SCHEMA_VERSION", "EXPORT_PARAM_TIME_NORMALIZE", "EXPORT_PARAM_TIME_SHIFT",
    "EXPORT_PARAM_TABLES_TO_EXPORT", "EXPORT_PARAM_TIMES_TO_EXPORT",
)  # fmt: skip
_CAPTURE = ("CAPTURE_EVENT_TYPE", "CUDA_GRAPH_TRACE_OPTIONS:MODE")
_TIMED = ("KERNEL", "GRAPH_TRACE", "MEMCPY", "MEMSET", "RUNTIME")
_PROFILER_COST = (3, 4, 5)
_COMMAND_BUFFER_FULL = 8
_WARNING = 2
_ERROR = 3
_WARNINGS: Final = (
    ("events lost or dropped", re.compile(r"\b(?:drop|lost|discard|overflow)", re.IGNORECASE)),
    ("events perhaps incomplete", re.compile(r"might have|may have|not all|incomplete|missing",
                                             re.IGNORECASE)),
    ("nothing collected", re.compile(r"\bno .{0,40}(?:collected|found|events)", re.IGNORECASE)),
    ("buffer full", re.compile(r"buffer", re.IGNORECASE)),
    ("not permitted or not supported", re.compile(r"permission|privileg|not support|unsupported",
                                                  re.IGNORECASE)),
)  # fmt: skip
_OF_OTHERS = re.compile(r"sampl|\bos\b|osrt|ftrace|context switch|nvtx|network|cpu", re.IGNORECASE)
_OF_GPUS = re.compile(r"cuda|cupti|gpu|kernel|graph", re.IGNORECASE)
_LOST = re.compile(r"(\d[\d,]{0,17}) [\w ]{0,40}?(?:dropped|lost|discarded)", re.IGNORECASE)


@dataclass
class Told:
    """Settings by name (the last value wins) and the kinds of events that were asked for."""

    settings: dict[str, str] = field(default_factory=dict)
    events: set[str] = field(default_factory=set)
    utc_ns: int | None = None
    duration_ns: int | None = None
    lost: int = 0
    loses_operations: bool = False
    """Whether a warning says that events were lost, and does not speak of the host alone."""
    overhead_ns: int | None = None

    @property
    def version(self) -> str | None:
        """The version of the export's schema."""
        version = self.settings.get("EXPORT_SCHEMA_VERSION")
        return version[:32] if version else None

    def first_instant(self, tables: Tables) -> int | None:
        """Return some instant of the file, to see what the instants are counted from."""
        for table in (*(f"CUPTI_ACTIVITY_KIND_{k}" for k in _TIMED), "NVTX_EVENTS", "GPU_METRICS"):
            name = "timestamp" if table == "GPU_METRICS" else "start"
            rows = records(tables, Query(table, (name,)), 1000)
            found = sorted(row[name] for row in rows if row[name] is not None)
            if found:
                return int(found[len(found) // 2])
        return None

    def graph_mode(self, node_rows: int, span_rows: int) -> str | None:
        """Return `node` or `graph`: as asked for, else as the rows show."""
        asked = self.settings.get("CUDA_GRAPH_TRACE_OPTIONS:MODE", "").lower()
        if asked in ("node", "graph"):
            return asked
        if node_rows:
            return "node"
        return "graph" if span_rows else None

    def clock(self, at_ns: int | None, tally: Tally) -> Clock:
        """Return the clock; `at_ns` is some instant of the file."""
        if at_ns is None:
            return Clock(ClockKind.NONE, method="no instants")
        if at_ns > EPOCH_FROM_NS:
            return Clock(ClockKind.UTC, method="nsys: instants since the epoch")
        if self.utc_ns is None:
            tally.add("NSYS012")
            return Clock(ClockKind.RELATIVE)
        shift = self.shift_ns()
        if shift:
            tally.add("NSYS013", text=f"{shift} ns")
        method = "nsys: session start in UTC"
        unsure = WHOLE_SECONDS_NS if self.utc_ns % WHOLE_SECONDS_NS == 0 else STATED_WITHIN_NS
        return Clock(ClockKind.RELATIVE, self.utc_ns - shift, unsure, method)

    def shift_ns(self) -> int:
        """Return what the exporter added to every instant."""
        text = self.settings.get("EXPORT_PARAM_TIME_SHIFT", "0")
        return int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else 0

    def window(self, first_ns: int | None, last_ns: int | None) -> tuple[int, int] | None:
        """Return start and end of the capture on the file's clock, where that is told."""
        if not self.duration_ns:
            return None
        start = self.shift_ns()
        if first_ns is not None and first_ns > EPOCH_FROM_NS:
            if self.utc_ns is None:
                return None
            start += self.utc_ns
        within = (
            first_ns is None
            or last_ns is None
            or (start <= first_ns and last_ns <= start + self.duration_ns)
        )
        return (start, start + self.duration_ns) if within else None


def read_told(tables: Tables, tally: Tally) -> Told:
    """Return what the export says of itself."""
    told = Told()
    for table, names in (("META_DATA_EXPORT", _EXPORT), ("META_DATA_CAPTURE", _CAPTURE)):
        for row in records(tables, Query(table, (), ("name", "value"))):
            if row["name"] in names and row["value"]:
                told.settings[row["name"]] = row["value"]
                if row["name"] == "CAPTURE_EVENT_TYPE":
                    told.events.add(row["value"])
    for row in records(tables, Query("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))):
        if row["utcEpochNs"] and 0 < row["utcEpochNs"] < 2**62:
            told.utc_ns = row["utcEpochNs"]
    lengths = records(tables, Query("ANALYSIS_DETAILS", ("duration",)))
    told.duration_ns = max((r["duration"] or 0 for r in lengths), default=0)
    told.duration_ns = told.duration_ns if 0 < told.duration_ns < FAR_NS else None
    for part in ("TABLES", "TIMES"):
        if told.settings.get(f"EXPORT_PARAM_{part}_TO_EXPORT"):
            tally.add("NSYS014", text=f"some {part.lower()}")
    _read_warnings(tables, tally, told)
    _read_overhead(tables, tally, told)
    return told


def _read_warnings(tables: Tables, tally: Tally, told: Told) -> None:
    """Count the warnings by class; their texts name paths and hosts, and are not kept."""
    classes: dict[str, int] = {}
    rows = records(tables, Query("DIAGNOSTIC_EVENT", ("severity",), ("text",)))
    for row in rows:
        if row["severity"] not in (_WARNING, _ERROR):
            continue
        text = (row["text"] or "")[:4096]
        word = next((w for w, pattern in _WARNINGS if pattern.search(text)), "other")
        classes[word] = classes.get(word, 0) + 1
        of_host = _OF_OTHERS.search(text) and not _OF_GPUS.search(text)
        told.loses_operations |= word == _WARNINGS[0][0] and not of_host
        told.lost += sum(int(n.replace(",", "")) for n in _LOST.findall(text)[:8])
    told.lost = min(told.lost, 2**62)
    if classes:
        words = ", ".join(f"{word}: {count}" for word, count in sorted(classes.items()))
        tally.add("NSYS015", text=words, count=sum(classes.values()))


def _read_overhead(tables: Tables, tally: Tally, told: Told) -> None:
    """Sum what the profiler itself cost on the host; loading and compiling are not its cost."""
    for table in ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD"):
        if not tables.columns(table):
            continue
        total = told.overhead_ns or 0
        for good, own in _own_work(tables, table):
            lengths = numbers_of(good, "end") - numbers_of(good, "start")
            total += sum(lengths[own].tolist())
            full = int((numbers_of(good, "overheadType") == _COMMAND_BUFFER_FULL).sum())
            if full:
                tally.add("NSYS021", count=full)
        told.overhead_ns = min(total, 2**62)


def overheads(tables: Tables) -> Iterator[Batch]:
    """Yield the stretches in which the profiler worked, as rows of gpu_overheads."""
    for table in ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD"):
        for good, own in _own_work(tables, table) if tables.columns(table) else ():
            some = filtered(good, own & (numbers_of(good, "end") > numbers_of(good, "start")))
            if not len(some):
                continue
            threads = coded(some.column("globalTid"))
            processes = [None if t is None else str(t & ~THREAD_MASK) for t in threads.values]
            rows = {
                "process_key": threads.text(processes),
                "start_at_ns": some.column("start"),
                "end_at_ns": some.column("end"),
            }
            yield Batch("gpu_overheads", pa.RecordBatch.from_pydict(rows))


def _own_work(tables: Tables, table: str) -> Iterator[tuple[pa.RecordBatch, Flags]]:
    """Yield the records that have sound times, and which of them are the profiler's own work."""
    for batch in tables.batches(Query(table, ("start", "end", "overheadType", "globalTid"))):
        if isinstance(batch, Damage):
            return
        good = filtered(batch, sound_times(batch))
        own = np.isin(numbers_of(good, "overheadType"), _PROFILER_COST)
        yield good, own | (table == "PROFILER_OVERHEAD")
