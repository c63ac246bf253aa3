"""The JSON output of rocprofv3: kernels, copies, HIP calls and roctx ranges, process by process.

Read in bounded memory, whatever the size. Instants are nanoseconds of the machine's boot clock,
never of the epoch. `device` is the ordinal among the GPUs, `device_key` the GPU's UUID where the
file has one; `stream` is the hardware queue. Every HIP call becomes a row of gpu_launches; roctx
ranges become gpu_ranges (a mark is a range of no length). Command lines, options, host names and
the environment are skipped. When a kernel overflows into its successors: see `trueput.rocm_rows`.

| code | meaning |
|---|---|
| ROCJSON001 | the document ends or breaks; what came before was read |
| ROCJSON002 | records that lack a field or have one of the wrong kind |
| ROCJSON003 | records without a start, or that end before it, were dropped |
| ROCJSON004 | kernels that ran absurdly far into their successor were clipped |
| ROCJSON005 | kernels or calls whose name is not in the file |
| ROCJSON006 | a section that describes the others could not be read |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

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
from trueput.sources.rocprofv3_json.records import (
    Agent,
    Call,
    Copy,
    Dispatch,
    Metadata,
    Strings,
    Symbol,
    gpu_of,
)
from trueput.sources.rocprofv3_json.walk import BrokenError, Walk
from trueput.tally import Codes, Tally, meanings

_CODES: Final[Codes] = {
    "ROCJSON001": (Severity.ERROR, "the document breaks, the rest is not read"),
    "ROCJSON002": (Severity.WARNING, "record lacks a field or has one of the wrong kind"),
    "ROCJSON003": (Severity.WARNING, "no start, or end before start: record dropped"),
    "ROCJSON004": (Severity.WARNING, "kernel ran over 100 ms into its successor: clipped"),
    "ROCJSON005": (Severity.INFO, "the name of a kernel or call is not in the file"),
    "ROCJSON006": (Severity.WARNING, "a section that describes the others is not readable"),
}
_ROOT: Final = "rocprofiler-sdk-tool"
_ROW_LISTS: Final[dict[str, type[Any]]] = {
    "kernel_dispatch": Dispatch,
    "memory_copy": Copy,
    "hip_api": Call,
    "marker_api": Call,
}
_OPERATIONS: Final = frozenset({"kernel_dispatch", "memory_copy"})


def sniff(name: str, head: bytes) -> Sniff:
    """Say how sure it is that `head` begins the JSON output of rocprofv3."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:200]
    if start.startswith(b"{") and b'"rocprofiler-sdk-tool"' in start:
        return Sniff(0.95, "begins with `rocprofiler-sdk-tool`")
    return NOT_MINE


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield what the file recorded, process by process, and what was wrong."""
    tally = Tally(_CODES)
    tools: list[_Tool] = []
    try:
        for tool, items in _tools(Walk(path), tally):
            if tool not in tools:
                tools.append(tool)
            yield from items
    except BrokenError as error:
        tally.add("ROCJSON001", text=str(error))
    for tool in tools:
        yield from tool.finish()
    if tools:
        yield capture(
            "rocprofv3",
            [(tool.ops, tool.calls) for tool in tools],
            partial=tally.count("ROCJSON001") > 0,
            windows=[(tool.meta.init_time, tool.meta.fini_time) for tool in tools],
        )
    yield from tally.problems()
    timed = any(t.ops.first_ns or t.calls.calls or t.calls.ranges for t in tools)
    yield Clock(ClockKind.MONOTONIC if timed else ClockKind.NONE, method="boot clock of rocprofv3")


def _tools(walk: Walk, tally: Tally) -> Iterator[tuple[_Tool, Iterator[Item]]]:
    for key in walk.members():
        if key != _ROOT:
            walk.skip()
            continue
        if walk.peek() == b"{":
            tool = _Tool(walk, tally)
            yield tool, tool.read()
            continue
        for _ in walk.items():
            tool = _Tool(walk, tally)
            yield tool, tool.read()


class _Tool:
    """One process of the file: its names and agents, and its rows on their way."""

    def __init__(self, walk: Walk, tally: Tally) -> None:
        self.walk = walk
        self.tally = tally
        self.ops = Operations()
        self.calls = HostCalls()
        self.meta = Metadata()
        self.strings = Strings()
        self.messages: dict[int, str] = {}
        self.devices: dict[int, Device] = {}
        self.agents: list[Agent] = []
        self.names: dict[int, str | None] = {}

    @property
    def process(self) -> str | None:
        """The process, as it stands in the rows."""
        return process_key(count_of(self.meta.pid))

    def read(self) -> Iterator[Item]:
        """Yield the rows of this process."""
        for key in self.walk.members():
            if key == "metadata":
                self.meta = self._section(Metadata) or self.meta
            elif key == "agents":
                self.agents = self._section(list[Agent]) or []
            elif key == "strings":
                self.strings = self._section(Strings) or self.strings
                self.messages = {m.key: m.value for m in self.strings.marker_api}
            elif key == "kernel_symbols":
                self._symbols()
            elif key in ("buffer_records", "callback_records"):
                yield from self._records(buffered=key == "buffer_records")
            else:
                self.walk.skip()

    def _section(self, kind: type[Any]) -> Any:
        try:
            return msgspec.json.decode(self.walk.value(), type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.tally.add("ROCJSON006")
            return None

    def _symbols(self) -> None:
        for symbols, bad in self.walk.array(Symbol):
            self.names.update((s.kernel_id, s.name()) for s in symbols)
            if bad:
                self.tally.add("ROCJSON002", count=bad)

    def _records(self, *, buffered: bool) -> Iterator[Item]:
        self._know_agents()
        takers: dict[str, Callable[[Any], None]] = {"marker_api": self._marker}
        if buffered:
            takers |= {
                "kernel_dispatch": self._kernel,
                "memory_copy": self._copy,
                "hip_api": self._call,
            }
        if self.walk.peek() != b"{":
            self.walk.skip()
            return
        for key in self.walk.members():
            if key not in takers:
                self.walk.skip()
                continue
            for records, bad in self.walk.array(_ROW_LISTS[key]):
                for record in records:
                    takers[key](record)
                if bad:
                    self.tally.add("ROCJSON002", count=bad)
                    self.ops.unread += bad * (key in _OPERATIONS)
                yield from self.ops.full()
                yield from self.calls.full()

    def _know_agents(self) -> None:
        for agent in self.agents:
            device = gpu_of(agent, self.process, len(self.devices))
            if device is not None:
                self.devices[agent.id.handle] = device
        self.agents = []

    def _device(self, handle: int) -> tuple[int | None, str]:
        found = self.devices.get(handle)
        if found is None:
            return None, device_key(None, self.process, handle)
        return found.device, found.device_key

    def _name(self, record: Copy | Call) -> str | None:
        kinds = self.strings.buffer_records
        if 0 <= record.kind < len(kinds):
            names = kinds[record.kind].operations
            if 0 <= record.operation < len(names):
                return names[record.operation]
        self.tally.add("ROCJSON005")
        return None

    def _kernel(self, record: Dispatch) -> None:
        info = record.dispatch_info
        device, key = self._device(info.agent_id.handle)
        name = self.names.get(info.kernel_id)
        if name is None:
            self.tally.add("ROCJSON005")
        self.ops.add(
            Op(
                kind="kernel",
                start_at_ns=record.start_timestamp,
                end_at_ns=record.end_timestamp,
                device=device,
                device_key=key,
                process_key=self.process,
                stream=count_of(info.queue_id.handle),
                correlation_id=correlation_of(record.correlation_id.internal),
                name=name,
            )
        )

    def _copy(self, record: Copy) -> None:
        name = copy_name(self._name(record))
        to_host = record.dst_agent_id.handle not in self.devices
        agent = record.src_agent_id if to_host else record.dst_agent_id
        device, key = self._device(agent.handle)
        self.ops.add(
            Op(
                kind="memcpy",
                start_at_ns=record.start_timestamp,
                end_at_ns=record.end_timestamp,
                device=device,
                device_key=key,
                process_key=self.process,
                stream=count_of(record.stream_id.handle) if record.stream_id else None,
                correlation_id=correlation_of(record.correlation_id.internal),
                name=name,
                bytes=count_of(record.bytes),
            )
        )

    def _launch(self, record: Call, name: str | None) -> Launch:
        return Launch(
            process_key=self.process,
            thread_key=thread_key(self.process, record.thread_id),
            correlation_id=correlation_of(record.correlation_id.internal),
            api=name,
            start_at_ns=record.start_timestamp,
            end_at_ns=record.end_timestamp,
        )

    def _call(self, record: Call) -> None:
        self.calls.call(self._launch(record, self._name(record)))

    def _marker(self, record: Call) -> None:
        operation = self._name(record)
        kinds = self.strings.buffer_records
        domain = kinds[record.kind].kind if 0 <= record.kind < len(kinds) else None
        text = self.messages.get(record.correlation_id.internal, operation)
        by_id = not record.thread_id or "Process" in (operation or "")
        self.calls.range(self._launch(record, text), domain or None, by_id=by_id)

    def finish(self) -> Iterator[Item]:
        """Yield what is left and the devices, and count what was odd."""
        self._know_agents()
        yield from self.ops.finish()
        yield from self.calls.finish()
        yield from device_items(list(self.devices.values()))
        if dropped := self.ops.dropped + self.calls.dropped:
            self.tally.add("ROCJSON003", count=dropped)
        if self.ops.clipped:
            self.tally.add("ROCJSON004", count=self.ops.clipped)


SOURCE = Source(
    name="rocprofv3_json",
    title="rocprofv3 JSON (kernels, copies, HIP calls, roctx ranges)",
    versions="ROCm 6.2 and later",
    tables=("gpu_ops", "gpu_launches", "gpu_ranges", "gpu_devices", "gpu_captures"),
    sniff=sniff,
    read=read,
    problem_codes=meanings(_CODES),
    proves="Every kernel and copy on AMD GPUs with its queue, launch and step annotations.",
    turn_on="rocprofv3 --sys-trace --output-format json",
)
