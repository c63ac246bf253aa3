"""Perfetto protobuf traces (`.pftrace`) that rocprofv3 writes: kernels, copies, HIP calls, ranges.

Needs the extra `trueput[perfetto]`, whose package decodes the protobuf offline; nothing is
downloaded. Only the slices of rocprofv3 are read (categories kernel_dispatch, memory_copy, hip_api,
marker_api), each from its own annotations `begin_ns`, `end_ns`, `corr_id`; instants are on the
machine's boot clock. **rocprofv3 moves the instants of kernels that overlap on a queue when it
writes this format**, so that sums differ from its JSON, CSV and rocpd output: prefer those.

| code | meaning |
|---|---|
| PERFETTO001 | the package that decodes these files is not installed; nothing was read |
| PERFETTO002 | the file ends or breaks; what came before was read |
| PERFETTO003 | packets that cannot be decoded |
| PERFETTO004 | records without a start, or that end before it, were dropped |
| PERFETTO005 | kernels that ran absurdly far into their successor were clipped |
| PERFETTO006 | no slice of rocprofv3 in the file |
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trueput.clock import ClockKind
from trueput.rocm_rows import (
    HostCalls,
    Launch,
    Op,
    Operations,
    capture,
    copy_name,
    correlation_of,
    count_of,
    device_key,
    process_key,
    thread_key,
)
from trueput.source_api import NOT_MINE, Clock, Item, ReadOptions, Severity, Sniff, Source
from trueput.sources.perfetto_trace.packets import BrokenError, packets, unpacked
from trueput.tally import Codes, Tally, meanings

_CODES: Final[Codes] = {
    "PERFETTO001": (Severity.ERROR, "install `trueput[perfetto]` to read this file"),
    "PERFETTO002": (Severity.ERROR, "the file breaks, the rest is not read"),
    "PERFETTO003": (Severity.WARNING, "packet is not readable"),
    "PERFETTO004": (Severity.WARNING, "no start, or end before start: record dropped"),
    "PERFETTO005": (Severity.WARNING, "kernel ran over 100 ms into its successor: clipped"),
    "PERFETTO006": (Severity.INFO, "no slice of rocprofv3 in this trace"),
}
_CATEGORIES: Final = frozenset({"kernel_dispatch", "memory_copy", "hip_api", "marker_api"})
_NUMBER_AT_END: Final = re.compile(r"(\d{1,9})\s*$")
_NAMES: Final = (".pftrace", ".perfetto-trace", ".perfetto")
_SLICE_BEGIN: Final = 1
_STATE_CLEARED: Final = 1


def sniff(name: str, head: bytes) -> Sniff:
    """Say how sure it is that `head` begins a Perfetto trace."""
    if head[:1] != b"\n":
        return NOT_MINE
    if name.lower().endswith(_NAMES):
        return Sniff(0.9, "Perfetto packets, by name and first byte")
    if b"begin_ns" in head and b"kernel_dispatch" in head:
        return Sniff(0.7, "Perfetto packets of rocprofv3")
    return NOT_MINE


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield what rocprofv3 recorded in the trace, and what was wrong."""
    tally = Tally(_CODES)
    reader = _Reader(tally)
    try:
        proto = importlib.import_module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
        decode_error = importlib.import_module("google.protobuf.message").DecodeError
    except ImportError:
        tally.add("PERFETTO001")
    else:
        try:
            for packet in packets(path):
                yield from reader.packet(packet, proto.TracePacket, decode_error)
        except BrokenError as error:
            tally.add("PERFETTO002", text=str(error))
        yield from reader.finish()
    yield from tally.problems()
    timed = reader.ops.first_ns or reader.calls.calls or reader.calls.ranges
    yield Clock(ClockKind.MONOTONIC if timed else ClockKind.NONE, method="boot clock of rocprofv3")


@dataclass
class _Names:
    """The names that one sequence of packets refers to by number."""

    categories: dict[int, str] = field(default_factory=dict)
    events: dict[int, str] = field(default_factory=dict)
    annotations: dict[int, str] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)


class _Reader:
    """The state of reading one trace."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.ops = Operations()
        self.calls = HostCalls()
        self._sequences: dict[int, _Names] = {}
        self._process: str | None = None
        self._bundles = 0

    def packet(self, data: bytes, kind: Any, decode_error: type[Exception]) -> Iterator[Item]:
        """Read one packet, or those of a compressed bundle."""
        try:
            packet = kind.FromString(data)
        except decode_error:
            self.tally.add("PERFETTO003")
            self.ops.unread += 1
            return
        if packet.compressed_packets and self._bundles < 1:
            self._bundles += 1
            try:
                for inner in unpacked(packet.compressed_packets):
                    yield from self.packet(inner, kind, decode_error)
            finally:
                self._bundles -= 1
            return
        try:
            names = self._learn(packet)
            if packet.HasField("track_event"):
                self._event(packet.track_event, names)
        except UnicodeDecodeError:
            # Some versions of protobuf decode a text when it is looked at.
            self.tally.add("PERFETTO003")
            self.ops.unread += 1
        yield from self.ops.full()
        yield from self.calls.full()

    def _learn(self, packet: Any) -> _Names:
        sequence = packet.trusted_packet_sequence_id
        if packet.sequence_flags & _STATE_CLEARED:
            self._sequences.pop(sequence, None)
        names = self._sequences.setdefault(sequence, _Names())
        data = packet.interned_data
        names.categories.update((n.iid, _text(n.name)) for n in data.event_categories)
        names.events.update((n.iid, _text(n.name)) for n in data.event_names)
        names.annotations.update((n.iid, _text(n.name)) for n in data.debug_annotation_names)
        names.texts.update((n.iid, _text(n.str)) for n in data.debug_annotation_string_values)
        track = packet.track_descriptor
        pid = track.process.pid or track.thread.pid
        if self._process is None and pid > 0:
            self._process = process_key(pid)
        return names

    def _event(self, event: Any, names: _Names) -> None:
        if event.type != _SLICE_BEGIN:
            return
        own = {
            *map(_text, event.categories),
            *(names.categories.get(n, "") for n in event.category_iids),
        }
        category = next(iter(own & _CATEGORIES), None)
        if category is None:
            return
        values = {}
        for note in event.debug_annotations:
            key = _text(note.name) or names.annotations.get(note.name_iid, "")
            values[key] = _value(note, names)
        name = _text(event.name) or names.events.get(event.name_iid) or None
        if category in ("kernel_dispatch", "memory_copy"):
            self._operation(category, name, values)
        else:
            self._call(category, name, values)

    def _operation(self, category: str, name: str | None, values: dict[str, Any]) -> None:
        copy = category == "memory_copy"
        shown = copy_name(name) if copy else (name.removesuffix(".kd") if name else None)
        side = "src_agent" if shown == "DtoH" else "dst_agent"
        agent = _agent(values.get(side if copy else "agent"))
        stream = values.get("queue", values.get("stream_ID"))
        self.ops.add(
            Op(
                kind="memcpy" if copy else "kernel",
                start_at_ns=count_of(values.get("begin_ns")) or 0,
                end_at_ns=count_of(values.get("end_ns")) or 0,
                device=agent,
                device_key=device_key(None, self._process, agent),
                process_key=self._process,
                stream=count_of(stream),
                correlation_id=correlation_of(values.get("corr_id")),
                name=shown,
                bytes=count_of(values.get("copy_bytes")) if copy else None,
            )
        )

    def _call(self, category: str, name: str | None, values: dict[str, Any]) -> None:
        thread = count_of(values.get("tid"))
        launch = Launch(
            process_key=self._process,
            thread_key=thread_key(self._process, thread),
            correlation_id=correlation_of(values.get("corr_id")),
            api=name,
            start_at_ns=count_of(values.get("begin_ns")) or 0,
            end_at_ns=count_of(values.get("end_ns")) or 0,
        )
        if category == "marker_api":
            self.calls.range(launch, "marker_api", by_id=not thread)
        else:
            self.calls.call(launch)

    def finish(self) -> Iterator[Item]:
        """Yield what is left and the capture, and count what was odd."""
        yield from self.ops.finish()
        yield from self.calls.finish()
        dropped = self.ops.dropped + self.calls.dropped
        if self.ops.first_ns is None and not self.calls.calls and not self.calls.ranges:
            self.tally.add("PERFETTO006")
        else:
            partial = self.tally.count("PERFETTO002") > 0
            yield capture("rocprofv3", [(self.ops, self.calls)], partial=partial)
        if dropped:
            self.tally.add("PERFETTO004", count=dropped)
        if self.ops.clipped:
            self.tally.add("PERFETTO005", count=self.ops.clipped)


def _text(value: str | bytes) -> str:
    """Return a text; protobuf hands out bytes where they are no UTF-8."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _value(note: Any, names: _Names) -> int | str | None:
    """Return a whole number or a text; None for a value of another kind."""
    if note.HasField("uint_value"):
        return int(note.uint_value)
    if note.HasField("int_value"):
        return int(note.int_value)
    if note.HasField("string_value"):
        return _text(note.string_value)
    if note.HasField("string_value_iid"):
        return names.texts.get(note.string_value_iid)
    return None


def _agent(value: int | str | None) -> int | None:
    """Return the number of an agent, given as a number or as `Agent-2`."""
    if isinstance(value, int):
        return count_of(value)
    found = _NUMBER_AT_END.search(value or "")
    return int(found[1]) if found else None


SOURCE = Source(
    name="perfetto_trace",
    title="Perfetto trace of rocprofv3 (.pftrace)",
    versions="ROCm 6.2 and later; needs trueput[perfetto]",
    tables=("gpu_ops", "gpu_launches", "gpu_ranges", "gpu_captures"),
    sniff=sniff,
    read=read,
    problem_codes=meanings(_CODES),
    proves="Kernels, copies, launches and annotations on AMD GPUs; overlapping kernels are moved.",
    turn_on="rocprofv3 --sys-trace --output-format pftrace (prefer rocpd or json)",
)
