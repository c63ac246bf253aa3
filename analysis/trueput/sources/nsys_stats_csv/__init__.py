"""CSV of `nsys stats`: the report cuda_gpu_trace, with what may stand before and beside it.

The unit stands in the header (`Start (ns)`; `--timeunit` changes it, and rounds). Lines before the
header and between reports are notices. The report names no process: correlation ids of several
processes collide, and so do their device ordinals; the ids are not kept. The report
cuda_gpu_kern_sum holds sums per kernel and no instant: nothing of it becomes an operation.

| code | meaning |
|---|---|
| NSTAT001 | no cuda_gpu_trace in the file: sums per kernel have no instants, nothing is stored |
| NSTAT002 | lines with another number of fields than the header |
| NSTAT003 | rows without a readable start and duration, or that end before they start |
| NSTAT004 | the file is damaged from here on |
| NSTAT005 | the last line is cut |
| NSTAT006 | other reports in the file, not read |
| NSTAT007 | no process told: launches cannot be joined, equal ordinals count as one device |
| NSTAT008 | times are rounded: the report was not printed in nanoseconds |
| NSTAT009 | operations of no length, kept and marked zero_duration |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trueput.clock import ClockKind
from trueput.scan import Block, Damage, text_blocks
from trueput.source_api import (
    NOT_MINE,
    Batch,
    Clock,
    Fact,
    Item,
    ReadOptions,
    Severity,
    Sniff,
    Source,
)
from trueput.sources.nsys_stats_csv.rows import Header, Operations, header_of
from trueput.tally import Codes, Tally, meanings

_CODES: Final[Codes] = {
    "NSTAT001": (Severity.WARNING, "no cuda_gpu_trace: no instants, nothing is stored"),
    "NSTAT002": (Severity.WARNING, "line with another number of fields than the header"),
    "NSTAT003": (Severity.WARNING, "row without a readable start and duration"),
    "NSTAT004": (Severity.ERROR, "the file is damaged, the rest is not read"),
    "NSTAT005": (Severity.WARNING, "the last line is cut"),
    "NSTAT006": (Severity.INFO, "another report in the file, not read"),
    "NSTAT007": (Severity.INFO, "no process told: no launch can be joined"),
    "NSTAT008": (Severity.WARNING, "times are rounded to a part of the report's unit"),
    "NSTAT009": (Severity.INFO, "operation of no length"),
}
_BLOCK_BYTES = 8 << 20
_NO_DATA = re.compile(rb"^(?!\"?-?\d)[^\n]*\n?", re.MULTILINE)
_FIELDS = 8
_UNIT = rb" ?\((?:ns|us|ms|s|nsec|usec|msec|sec)\)\"?,\"?"
_TRACE = re.compile(
    rb"^(?:\xef\xbb\xbf)?\"?Start" + _UNIT + rb"Duration" + _UNIT + rb"CorrId\"?,[^\n]*Strm\"?,",
    re.MULTILINE,
)
_SUMS = re.compile(
    rb"^(?:\xef\xbb\xbf)?\"?Time ?\(%\)\"?,\"?Total Time" + _UNIT + rb"Instances\"?,", re.MULTILINE
)


def sniff(name: str, head: bytes) -> Sniff:
    """Say how sure it is that `head` begins a CSV of `nsys stats`."""
    del name
    if _TRACE.search(head):
        return Sniff(0.95, "header of the nsys report cuda_gpu_trace")
    if _SUMS.search(head):
        return Sniff(0.8, "header of the nsys report cuda_gpu_kern_sum")
    return NOT_MINE


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield the operations of every cuda_gpu_trace in the file."""
    del options
    tally = Tally(_CODES)
    operations = Operations(tally)
    header: Header | None = None
    tail = b""
    damaged = False
    for block in text_blocks(path, _BLOCK_BYTES):
        if isinstance(block, Damage):
            tally.add("NSTAT004", text=block.text)
            damaged = True
            continue
        for piece, line in _pieces(block):
            if isinstance(piece, Header):
                header = piece
                operations.header(piece)
            elif header is not None and header.is_trace:
                yield from operations.rows(piece, header, line)
        tail = block.data[-4096:]
    if operations.kernels + operations.others == 0 and not operations.traces:
        tally.add("NSTAT001")
    else:
        tally.add("NSTAT007")
        if not damaged and tail and not tail.endswith(b"\n"):
            operations.last_line(tail)
        devices = operations.devices()
        if devices:
            yield Batch("gpu_devices", devices)
        yield Batch(
            "gpu_captures", [operations.capture(partial=damaged or tally.count("NSTAT005") > 0)]
        )
        yield Fact("profiled", True)
        names = {row["name"] for row in devices} - {None}
        if len(names) == 1:
            yield Fact("hardware", names.pop())
    found = operations.kernels + operations.others > 0
    yield Clock(ClockKind.RELATIVE if found else ClockKind.NONE, method="nsys stats")
    yield from tally.problems()


def _pieces(block: Block) -> Iterator[tuple[Header | bytes, int]]:
    """Cut a block into headers and runs of data lines; notices end a report's data.

    A line of many fields is data, even where its start is no number.
    """
    at, line = 0, block.first_line
    for found in _NO_DATA.finditer(block.data):
        if found.start() == found.end():
            continue
        data = block.data[at : found.start()]
        if data:
            yield data, line
        line += data.count(b"\n")
        header = header_of(found[0])
        if header is not None:
            yield header, line
        elif found[0].count(b",") >= _FIELDS:
            yield found[0], line
        line += found[0].count(b"\n")
        at = found.end()
    if at < len(block.data):
        yield block.data[at:], line


SOURCE = Source(
    name="nsys_stats_csv",
    title="nsys stats CSV (cuda_gpu_trace)",
    versions="Nsight Systems 2020 to 2026",
    tables=("gpu_captures", "gpu_devices", "gpu_ops"),
    sniff=sniff,
    read=read,
    problem_codes=meanings(_CODES),
    proves="When each kernel, copy and memset ran; not what launched it, nor in which process.",
    turn_on="nsys stats --report cuda_gpu_trace --format csv --timeunit nsec REPORT.nsys-rep",
)
