"""One trace from its first byte to its last: segments, repairs, and what the file adds up to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from trueput.clock import ClockKind
from trueput.scan import Damage, JsonTexts, byte_chunks
from trueput.source_api import Batch, Clock, Fact, Item, ReadOptions, loses_much
from trueput.sources.kineto_json.framing import MAX_TAIL, Framer, Segment
from trueput.sources.kineto_json.metadata import Device, Metadata
from trueput.sources.kineto_json.names import file_rank, process_key
from trueput.sources.kineto_json.problems import Problems
from trueput.sources.kineto_json.repair import (
    Mended,
    is_cut,
    list_end,
    log_lines,
    mend,
    whole_events,
)
from trueput.sources.kineto_json.rows import STRUCTURE, WANTED, Rows, Totals

SEGMENT_BYTES = 512 << 10
WINDOW_BYTES = 8 << 20
ROWS = 16_384
"""A query covers a window of segments and gives its rows in batches."""
_MAX_JOINED = 8
_LOST_EVENTS = ("KINETO004", "KINETO007", "KINETO008", "KINETO009")


class Reader:
    """Reads one file. `size` is how much is looked at at once; the rows do not depend on it."""

    def __init__(self, path: Path, options: ReadOptions, size: int) -> None:
        self._path = path
        self._where = options.relative_path or path.name
        self._siblings = options.siblings
        self._problems = Problems()
        self._metadata = Metadata()
        self._framer = Framer(WANTED, size)
        self._size = size
        self._columns = JsonTexts(STRUCTURE)
        self._rows: Rows | None = None
        self._partial = False

    def items(self) -> Iterator[Item]:
        """Yield everything that the file says."""
        try:
            for events in self._events():
                yield from self._ready.batches(events)
            if not self._framer.begun:
                self._problems.add("KINETO001")
                yield from self._problems.items(self._path)
                yield Clock(ClockKind.NONE, method="no events")
                return
            yield from self._last()
            yield from self._summary()
        finally:
            self._columns.close()

    def _chunks(self) -> Iterator[bytes]:
        for chunk in byte_chunks(self._path, self._size):
            if isinstance(chunk, Damage):
                self._problems.add("KINETO002", detail=chunk.text)
                self._partial = True
            else:
                yield chunk

    @property
    def _ready(self) -> Rows:
        """The builder of rows, made when the text before the events is known."""
        if self._rows is None:
            self._take_aside(self._framer.head)
            told = self._metadata.rank
            key = process_key(self._where, self._siblings, told)
            self._rows = Rows(key, self._metadata.base_ns, self._problems)
        return self._rows

    def _events(self) -> Iterator[pa.Table]:
        """Yield the fields of all events, a window of segments after the other."""
        segments = self._framer.segments(self._chunks())
        while True:
            taken: list[Segment] = []
            done = 0
            for events in self._columns.stream(_window(segments, taken), ROWS):
                done += events.num_rows
                yield events
            if not taken:
                return
            yield from self._left_over(taken, done)

    def _left_over(self, taken: list[Segment], done: int) -> Iterator[pa.Table]:
        """Read what is left of a window after the first text that is no JSON."""
        for index, segment in enumerate(taken):
            if done >= len(segment.starts):
                done -= len(segment.starts)
                continue
            left = replace(segment, starts=segment.starts[done:], lengths=segment.lengths[done:])
            done = 0
            events = self._columns.read(_views(left)) if _is_utf8(left.data) else None
            if events is None:
                texts = self._mended(left, taken[index + 1 :])
                events = self._columns.read(pa.array(texts, pa.string()))
            if events is not None:
                yield events
            if self._framer.ended:
                return

    def _mended(self, segment: Segment, later: list[Segment]) -> list[str]:
        """Return the texts of a segment one by one, those that are no JSON as far as can be."""
        texts = []
        for start, length in zip(segment.starts.tolist(), segment.lengths.tolist(), strict=True):
            raw = segment.data[start : start + length]
            text = raw.decode("utf-8", "replace")
            if "\ufffd" in text and not _is_utf8(raw):
                self._problems.add("KINETO006", place=segment.place + start)
            texts.append(text)
        good = self._columns.valid(pa.array(texts, pa.string()))
        result: list[str] = []
        done = -1
        for at, (text, fine) in enumerate(zip(texts, good, strict=True)):
            if fine and at > done:
                result.append(text)
            if fine or at <= done:
                continue
            joined, done = _joined(segment, at)
            mended = joined or mend(text, WANTED)
            start = int(segment.starts[at])
            self._note(mended, segment.place + start)
            result += mended.events
            if mended.end is not None:
                end = start + len(text[: mended.end].encode("utf-8", "replace"))
                rest = self._framer.after(segment, end, later)
                if b'"ph"' not in rest:
                    self._framer.end_at(segment.place + end, rest)
                    break
        return result

    def _note(self, mended: Mended, place: int) -> None:
        self._problems.add("KINETO005", mended.recovered, place)
        self._problems.add("KINETO004", mended.lost, place)

    def _last(self) -> Iterator[Item]:
        """Read the last events and what stands behind the list; tell whether it is cut."""
        framer, rest = self._framer, self._framer.rest
        text = rest.decode("utf-8", "replace")
        if "\ufffd" in text and not _is_utf8(rest):
            self._problems.add("KINETO006", place=framer.rest_place)
        found = whole_events(text)
        end = found.end
        if found.broken is not None:
            end = list_end(text, found.broken)
            if end is not None:
                mended = mend(text[found.broken : end], WANTED)
                found.events += mended.events
                found.recovered += mended.recovered
                found.lost += mended.lost
        self._note(found, framer.rest_place)
        self._problems.add("KINETO004", framer.given_up, framer.given_up_place)
        if end is None:
            self._partial = True
            self._problems.add("KINETO003", place=framer.rest_place)
        events = self._columns.read(pa.array(found.events, pa.string()))
        if events is not None:
            yield from self._ready.batches(events)
        self._ready.key  # noqa: B018  the head is read even where no event is
        if end is not None:
            depth = 1 + (b"{" in framer.head)
            if len(rest) < MAX_TAIL and is_cut(text[end:], depth):
                self._problems.add("KINETO021", place=framer.rest_place)
            self._problems.add("KINETO022", found.commas, framer.rest_place, "a comma")
            self._take_aside(text[end:].encode("utf-8", "replace"))

    def _take_aside(self, raw: bytes) -> None:
        """Read the text before or behind the events."""
        self._metadata.take(raw)
        lines = log_lines(raw.decode("utf-8", "replace"))
        self._problems.add("KINETO022", lines, detail="a log line")

    def _summary(self) -> Iterator[Item]:
        rows, metadata = self._ready, self._metadata
        devices = list(self._devices())
        if devices:
            yield Batch("gpu_devices", devices)
        yield Batch("gpu_captures", [self._capture()])
        yield from self._facts({d["name"] for d in devices if d["name"]})
        self._judge()
        yield self._clock(rows, metadata)
        yield from self._problems.items(self._path)

    def _clock(self, rows: Rows, metadata: Metadata) -> Clock:
        if rows.absolute is None:
            return Clock(ClockKind.NONE, method="no times")
        if rows.absolute:
            if metadata.base_ns is not None:
                self._problems.add("KINETO017")
            return Clock(ClockKind.UTC, method="epoch times")
        if rows.base_ns is not None:
            return Clock(ClockKind.UTC, method="baseTimeNanoseconds")
        if metadata.base_ns is not None:
            return Clock(ClockKind.RELATIVE, metadata.base_ns, None, "baseTimeNanoseconds")
        self._problems.add("KINETO016")
        return Clock(ClockKind.RELATIVE, method="no base")

    def _devices(self) -> Iterator[dict[str, Any]]:
        rows, known = self._ready, {d.device: d for d in self._metadata.devices}
        alike = {(d.name, d.memory_bytes) for d in known.values()}
        for process, number in sorted(rows.totals.devices):
            device = known.get(number)
            if device is None and len(alike) == 1:  # ROCm numbers agents, not devices
                device = Device(number, *next(iter(alike)))
            yield {
                "device_key": f"{process}:{number}",
                "device": number,
                "process_key": process,
                "rank": self._rank(),
                "name": device.name if device else None,
                "uuid": None,
                "memory_bytes": device.memory_bytes if device else None,
            }

    def _rank(self) -> int | None:
        named = file_rank(self._where)
        return named if named is not None else self._metadata.rank

    def _capture(self) -> dict[str, Any]:
        totals, metadata = self._ready.totals, self._metadata
        from_graphs = _from_graphs(totals)
        broken = bool(self._partial or self._problems.count("KINETO004"))
        # a file that ends behind its list of events, or was repaired, may hold all of them
        partial = broken or bool(self._problems.count("KINETO005", "KINETO021", "KINETO022"))
        lost = broken or metadata.stopped_early or totals.begins > 0 or _drops_much(totals)
        return {
            "profiler": "kineto",
            "schema_version": metadata.schema_version,
            "status": "partial" if partial else "whole",
            "graph_mode": "node" if from_graphs else None,
            "graph_launches": totals.graph_launches if totals.launches else None,
            "graphs_hidden": (totals.graph_launches > 0 and not from_graphs)
            if totals.launches
            else None,
            "operations_lost": lost,
            "kernel_rows": totals.kernels,
            "graph_span_rows": 0,
            "dropped_rows": self._problems.count(*_LOST_EVENTS),
            "dropped_operations": totals.dropped or None,
            "overhead_ns": totals.overhead_ns,
            "started_at_ns": totals.first_ns,
            "ended_at_ns": totals.last_ns,
        }

    def _facts(self, names: set[str]) -> Iterator[Item]:
        yield Fact("profiled", value=True)
        if names:
            yield Fact("hardware", ", ".join(sorted(names)))
        if self._metadata.engine_version:
            yield Fact("engine", "vllm")
            yield Fact("engine_version", self._metadata.engine_version)

    def _judge(self) -> None:
        """Say what the sums tell: blind captures, lost operations, one that is too long."""
        totals, metadata, add = self._ready.totals, self._metadata, self._problems.add
        if not totals.operations:
            add("KINETO012" if totals.launches else "KINETO011")
        elif totals.graph_launches and not _from_graphs(totals):
            add("KINETO013", totals.graph_launches)
        span = totals.ops_last_ns - totals.ops_first_ns
        if totals.operations >= 20 and totals.longest_ns * 2 > span:
            add("KINETO014", detail=f"{totals.longest_ns} ns of {span} ns")
        add("KINETO015", int(metadata.stopped_early))
        add("KINETO023", metadata.outside_records)
        add("KINETO024", totals.begins)
        if _drops_much(totals):
            add("KINETO025", totals.dropped)
        if metadata.unreadable:
            add("KINETO018", len(metadata.unreadable), detail=", ".join(metadata.unreadable))
        if totals.capture_ranges:
            add("KINETO019")


def _drops_much(totals: Totals) -> bool:
    return loses_much(totals.dropped, totals.operations + totals.dropped)


def _window(segments: Iterator[Segment], taken: list[Segment]) -> Iterator[Any]:
    """Yield segments as arrays of texts, up to one that is no UTF-8; note each in `taken`."""
    size = 0
    for segment in segments:
        taken.append(segment)
        if not _is_utf8(segment.data):
            return
        if len(segment.starts):
            yield _views(segment)
        size += len(segment.data)
        if size >= WINDOW_BYTES:
            return


def _views(segment: Segment) -> Any:
    """Return the events as an Arrow array that points into the segment, without copying them."""
    data, starts = segment.data, segment.starts
    octets = np.frombuffer(data, np.uint8)
    views = np.zeros((len(starts), 16), np.uint8)
    views[:, 0:4] = segment.lengths.astype("<i4").view(np.uint8).reshape(-1, 4)
    views[:, 4:8] = octets[starts[:, None] + np.arange(4)]
    views[:, 12:16] = starts.astype("<i4").view(np.uint8).reshape(-1, 4)
    buffers = [None, pa.py_buffer(views.tobytes()), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string_view(), len(starts), buffers)


def _joined(segment: Segment, at: int) -> tuple[Mended | None, int]:
    """Read an event that was cut at objects within it: with some of what follows it is whole.

    Return what was found and the last piece that it took, or None where joining does not help.
    """
    start = int(segment.starts[at])
    for last in range(at + 1, min(at + 1 + _MAX_JOINED, len(segment.starts))):
        end = int(segment.starts[last] + segment.lengths[last])
        found = whole_events(segment.data[start:end].decode("utf-8", "replace"))
        if found.broken is None and found.end is None and found.events:
            return found, last
    return None, at


def _from_graphs(totals: Totals) -> bool:
    """Say whether any kernel is seen to come from a graph launch."""
    return bool(totals.graph_nodes or totals.graph_kernels or totals.graphs & totals.shared)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
