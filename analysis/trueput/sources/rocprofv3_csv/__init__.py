"""The CSV files of rocprofv3: kernel, HIP API, marker and memory-copy traces, and agent lists.

Instants are nanoseconds of the machine's boot clock, never of the epoch. `*_kernel_trace.csv` has
no process id in it: it stands before its name (`908_kernel_trace.csv`), and without it kernels
join no launches; its devices are then told apart by folder and file name (`p?rank1:2`).
`Agent_Id` is the agent's number as printed (`1` or `Agent 1`), which counts CPUs too, and becomes
`device`; `GPU 0` is the ordinal among GPUs. `*_agent_info.csv` gives the GPUs their models, by the
same number. Every HIP call becomes a row of gpu_launches, roctx ranges become gpu_ranges (a mark
is a range of no length; a range on thread 0 was opened by id). When a kernel overflows into its
successors: see `trueput.rocm_rows`.

| code | meaning |
|---|---|
| ROCCSV001 | the header lacks a column that this trace needs; nothing was read |
| ROCCSV002 | lines that are no record of this trace |
| ROCCSV003 | the last line is cut |
| ROCCSV004 | the file is damaged from here on |
| ROCCSV005 | records without a start, or that end before it, were dropped |
| ROCCSV006 | kernels that ran absurdly far into their successor were clipped |
| ROCCSV007 | no process id in the file name: kernels cannot be joined to their launches |
| ROCCSV008 | host calls of other domains than HIP and markers, not stored |
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from trueput.clock import ClockKind
from trueput.lines import lines_of
from trueput.rocm_rows import (
    Device,
    HostCalls,
    Launch,
    Op,
    Operations,
    capture,
    copy_name,
    device_items,
    device_key,
    process_key,
    thread_key,
)
from trueput.scan import Block, Damage, plain_name, text_blocks
from trueput.source_api import NOT_MINE, Clock, Item, ReadOptions, Severity, Sniff, Source
from trueput.tally import Codes, Tally, meanings

_CODES: Final[Codes] = {
    "ROCCSV001": (Severity.ERROR, "the header lacks a column, nothing was read"),
    "ROCCSV002": (Severity.WARNING, "line is no record of this trace"),
    "ROCCSV003": (Severity.WARNING, "the last line is cut"),
    "ROCCSV004": (Severity.ERROR, "the file is damaged, the rest is not read"),
    "ROCCSV005": (Severity.WARNING, "no start, or end before start: record dropped"),
    "ROCCSV006": (Severity.WARNING, "kernel ran over 100 ms into its successor: clipped"),
    "ROCCSV007": (Severity.INFO, "no process id in the file name: kernels join no launches"),
    "ROCCSV008": (Severity.INFO, "host calls of other domains are not stored"),
}
_TIMES: Final = ("Start_Timestamp", "End_Timestamp")
_NEEDS: Final = {
    "kernel": ("Kind", "Agent_Id", "Kernel_Name", *_TIMES),
    "copy": ("Kind", "Direction", "Source_Agent_Id", "Destination_Agent_Id", *_TIMES),
    "call": ("Domain", "Function", "Process_Id", *_TIMES),
    "agent": ("Node_Id", "Agent_Type"),
}
_NAME: Final = re.compile(
    r"(?:(.+)_)?(?:(?:kernel|memory_copy|(?:hip|hsa|marker|rccl)(?:_\w+)?)_trace|agent_info)\.csv"
)
_PID: Final = re.compile(r"\d{1,10}")
_NUMBER: Final = re.compile(r"(?:[A-Za-z]+ )?(\d{1,19})")
_BLOCK_BYTES: Final = 4 << 20


def _header(line: str) -> list[str]:
    try:
        return [name.strip() for name in next(csv.reader([line]), [])]
    except csv.Error:
        return []


def _kind(names: list[str]) -> str | None:
    """Return which trace a header belongs to."""
    have = set(names)
    if {"Node_Id", "Logical_Node_Id", "Agent_Type"} <= have:
        return "agent"
    if "Counter_Name" in have or "Start_Timestamp" not in have:
        return None
    if "Kernel_Name" in have:
        return "kernel"
    if "Direction" in have:
        return "copy"
    return "call" if {"Domain", "Function"} <= have else None


def sniff(name: str, head: bytes) -> Sniff:
    """Say how sure it is that `head` begins a trace CSV of rocprofv3."""
    first = head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].decode("utf-8", "replace")
    kind = _kind(_header(first))
    return NOT_MINE if kind is None else Sniff(0.95, f"header of rocprofv3 ({kind} rows)")


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield the file's operations, host calls or ranges, and what was wrong."""
    reader = _Reader(options.relative_path or path.name)
    damaged = False
    for block in text_blocks(path, _BLOCK_BYTES):
        if isinstance(block, Damage):
            reader.tally.add("ROCCSV004", text=block.text)
            damaged = True
            continue
        yield from reader.block(block)
        if reader.unusable:
            break
    yield from reader.finish(partial=damaged)
    timed = reader.ops.first_ns or reader.calls.calls or reader.calls.ranges
    yield Clock(ClockKind.MONOTONIC if timed else ClockKind.NONE, method="boot clock of rocprofv3")


class _Reader:
    """The state of reading one file: its header, and rows not yet handed out."""

    def __init__(self, relative_path: str) -> None:
        self.tally = Tally(_CODES)
        self.ops = Operations()
        self.calls = HostCalls()
        self.unusable = False
        self._kind: str | None = None
        self._names: list[str] = []
        self._take: Callable[[dict[str, str]], None] | None = None
        self._devices: list[Device] = []
        self._process, self._owner = _owner(relative_path)
        self._cut = False

    def block(self, block: Block) -> Iterator[Item]:
        """Read whole lines."""
        self._cut = False
        for number, line, ended, _ in lines_of(block):
            if self._take is None:
                self._begin(line, number)
                if self.unusable:
                    return
            elif not self._record(line):
                self._cut = not ended
                self.tally.add("ROCCSV002" if ended else "ROCCSV003", number)
                self.ops.unread += self._was_operation(line)
        yield from self.ops.full()
        yield from self.calls.full()

    def _begin(self, line: str, number: int) -> None:
        self._names = _header(line)
        self._kind = _kind(self._names)
        missing = set(_NEEDS.get(self._kind or "", ("Start_Timestamp",))) - set(self._names)
        if self._kind is None or missing:
            self.tally.add("ROCCSV001", number, ", ".join(sorted(missing)))
            self.unusable = True
            return
        takers = {
            "kernel": self._kernel,
            "copy": self._copy,
            "call": self._call,
            "agent": self._agent,
        }
        self._take = takers[self._kind]

    def _record(self, line: str) -> bool:
        try:
            fields = next(csv.reader([line]), [])
            if fields == self._names:
                return True
            assert self._take is not None
            self._take(dict(zip(self._names, fields, strict=True)))
        except (csv.Error, ValueError):
            return False
        return True

    def _was_operation(self, line: str) -> bool:
        """Say whether a line that cannot be read looks like a record of an operation."""
        return self._kind in ("kernel", "copy") and line.count(",") * 2 > len(self._names)

    def _kernel(self, row: dict[str, str]) -> None:
        agent = _number(row["Agent_Id"])
        self.ops.add(
            Op(
                kind="kernel",
                start_at_ns=_whole(row["Start_Timestamp"]),
                end_at_ns=_whole(row["End_Timestamp"]),
                device=agent,
                device_key=device_key(None, self._owner, agent),
                process_key=self._process,
                stream=_stream(row),
                correlation_id=_number(row.get("Correlation_Id")) or None,
                name=row["Kernel_Name"] or None,
            )
        )

    def _agent(self, row: dict[str, str]) -> None:
        number = _number(row.get("Logical_Node_Id"))
        if row["Agent_Type"].upper() == "GPU" and number is not None:
            name = row.get("Product_Name") or row.get("Name") or None
            key = device_key(None, self._owner, number)
            self._devices.append(Device(key, number, self._process, name, None, None))

    def _copy(self, row: dict[str, str]) -> None:
        name = copy_name(row["Direction"])
        side = "Source_Agent_Id" if name == "DtoH" else "Destination_Agent_Id"
        agent = _number(row[side])
        op = Op(
            kind="memcpy",
            start_at_ns=_whole(row["Start_Timestamp"]),
            end_at_ns=_whole(row["End_Timestamp"]),
            device=agent,
            device_key=device_key(None, self._owner, agent),
            process_key=self._process,
            stream=_stream(row),
            correlation_id=_number(row.get("Correlation_Id")) or None,
            name=name,
        )
        self.ops.add(op)

    def _call(self, row: dict[str, str]) -> None:
        domain = row["Domain"]
        process = process_key(_number(row["Process_Id"])) or self._process
        thread = _number(row.get("Thread_Id"))
        launch = Launch(
            process_key=process,
            thread_key=thread_key(process, thread),
            correlation_id=_number(row.get("Correlation_Id")) or None,
            api=row["Function"] or None,
            start_at_ns=_whole(row["Start_Timestamp"]),
            end_at_ns=_whole(row["End_Timestamp"]),
        )
        if domain.startswith("MARKER"):
            self.calls.range(launch, domain, by_id=not thread)
        elif domain.startswith("HIP"):
            self.calls.call(launch)
        else:
            self.tally.add("ROCCSV008", text=domain[:40])

    def finish(self, *, partial: bool) -> Iterator[Item]:
        """Yield what is left, the capture and the problems."""
        yield from self.ops.finish()
        yield from self.calls.finish()
        yield from device_items(self._devices)
        operations = self._take is not None and self._kind in ("kernel", "copy")
        if operations or self.calls.calls:
            yield capture("rocprofv3", [(self.ops, self.calls)], partial=partial or self._cut)
        if operations and self._process is None:
            self.tally.add("ROCCSV007")
        if dropped := self.ops.dropped + self.calls.dropped:
            self.tally.add("ROCCSV005", count=dropped)
        if self.ops.clipped:
            self.tally.add("ROCCSV006", count=self.ops.clipped)
        yield from self.tally.problems()


def _owner(relative_path: str) -> tuple[str | None, str]:
    """Return the process of a file and the word that its devices begin with."""
    folder, _, name = plain_name(relative_path).rpartition("/")
    found = _NAME.fullmatch(name)
    prefix = (found[1] or "") if found else name
    if _PID.fullmatch(prefix):
        return process_key(int(prefix)), f"p{int(prefix)}"
    return None, "p?" + "/".join(part for part in (folder, prefix) if part)


def _number(text: str | None) -> int | None:
    """Return the number in `1`, `Agent 1` or `GPU 0`; None where there is none."""
    found = _NUMBER.fullmatch((text or "").strip())
    value = int(found[1]) if found else None
    return value if value is not None and value < 1 << 63 else None


def _whole(text: str) -> int:
    if not text.strip().isascii() or not text.strip().isdigit() or len(text) > 20:
        raise ValueError(text[:40])
    return int(text)


def _stream(row: dict[str, Any]) -> int | None:
    queue = _number(row.get("Queue_Id"))
    return _number(row.get("Stream_Id")) if queue is None else queue


SOURCE = Source(
    name="rocprofv3_csv",
    title="rocprofv3 CSV (kernel, HIP API, marker and memory-copy traces, agents)",
    versions="ROCm 6.2 and later",
    tables=("gpu_ops", "gpu_launches", "gpu_ranges", "gpu_devices", "gpu_captures"),
    sniff=sniff,
    read=read,
    problem_codes=meanings(_CODES),
    proves="Every kernel and copy of one process on AMD GPUs, its queue and its launch.",
    turn_on="rocprofv3 --kernel-trace --hip-trace --marker-trace --memory-copy-trace -f csv",
)
