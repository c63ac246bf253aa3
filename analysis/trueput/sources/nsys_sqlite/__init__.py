"""Nsight Systems exports as SQLite: `nsys export --type sqlite`, `nsys stats`, `--export=sqlite`.

Columns appear and vanish between versions and tables are made only when something was recorded;
what is read of each table, and how, is said in `trueput.nsys_rows`. The file is opened read-only
and nothing is written beside it. Instants are on the session's clock, which the export itself
carries to UTC. The problem codes are those of every form of this export:

| code | meaning |
|---|---|
| NSYS001 | not readable as an Nsight Systems export |
| NSYS002 | damaged: the rest of a table is not read |
| NSYS003 | operations that end before they start, or have no time |
| NSYS004 | operations of no length, kept and marked zero_duration |
| NSYS005 | operations longer than half the capture, marked |
| NSYS006 | graph spans whose times could not be collected |
| NSYS007 | ranges that were never closed, not read |
| NSYS008 | ranges that end on another thread: not projected on the GPU |
| NSYS009 | ranges or calls that end before they start, not read |
| NSYS010 | no operation on a GPU in this export |
| NSYS011 | blind to graphs: graph launches, but neither kernels nor spans |
| NSYS012 | no start of the session in UTC: instants cannot be dated |
| NSYS013 | instants were shifted by the exporter; the shift is taken back |
| NSYS014 | only some tables or times were exported |
| NSYS015 | the profiler warns of its own capture |
| NSYS016 | launches without any operation: the GPU side was not recorded |
| NSYS017 | devices without an identity: keyed by process and ordinal |
| NSYS018 | processes not told for operations: they join no launch |
| NSYS019 | unfinished journal beside the file; it is not read |
| NSYS021 | launches that waited for a full command buffer |
| NSYS022 | graph spans instead of kernels: gaps inside a span are not seen |
| NSYS023 | sampled ratios outside 0..1: missing |
| NSYS027 | no launch and no graph span exported: graphs may run in gaps |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from trueput.clock import ClockKind
from trueput.nsys_rows.codes import CODES
from trueput.nsys_rows.export import TABLES, read_export
from trueput.scan import whole_file
from trueput.source_api import NOT_MINE, Clock, Item, Problem, ReadOptions, Sniff, Source
from trueput.tally import meanings

_MAGIC = b"SQLite format 3\x00"
_TABLE = re.compile(
    rb"CREATE TABLE [\"'`\[]?(CUPTI_ACTIVITY_KIND_\w+|NVTX_EVENTS|META_DATA_(?:EXPORT|CAPTURE)"
    rb"|TARGET_INFO_\w+|ENUM_NSYS_\w+|ENUM_CUPTI_\w+|GPU_METRICS)"
)


def sniff(name: str, head: bytes) -> Sniff:
    """Say how sure it is that `head` begins an SQLite export of Nsight Systems."""
    if not head.startswith(_MAGIC):
        return NOT_MINE
    if found := _TABLE.search(head):
        return Sniff(0.95, f"SQLite with a table {found[1].decode()}")
    if "nsys" in name.lower():
        return Sniff(0.4, "SQLite, and nsys in the file's name")
    return NOT_MINE


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield the operations, launches, ranges and samples of an export."""
    from trueput.sources.nsys_sqlite.database import BROKEN, Database

    clocks = 0
    try:
        with whole_file(path) as (plain, damage):
            if damage is not None:
                yield _problem("NSYS002", damage.text)
            database = Database(plain)
            try:
                if database.is_cut:
                    yield _problem("NSYS002", "the file is shorter than it says")
                partial = database.is_cut or damage is not None
                for item in read_export(database, database.names, partial=partial):
                    clocks += isinstance(item, Clock)
                    yield item
            finally:
                database.close()
    except (*BROKEN, OSError) as error:
        yield _problem("NSYS001", type(error).__name__)
    if not clocks:
        yield Clock(ClockKind.NONE)
    own = options.relative_path or path.name
    if any(f"{own}{end}" in options.siblings for end in ("-wal", "-journal")):
        yield _problem("NSYS019", "")


def _problem(code: str, text: str) -> Problem:
    severity, words = CODES[code]
    return Problem(code, severity, f"{words}: {text}" if text else words)


SOURCE = Source(
    name="nsys_sqlite",
    title="Nsight Systems export (SQLite)",
    versions="export schemas of 2020 to 3.28",
    tables=TABLES,
    sniff=sniff,
    read=read,
    problem_codes=meanings(CODES),
    proves=(
        "Every kernel, copy and memset with its device, stream and launch, and the annotated ranges"
        " that launched it; kernels inside CUDA graphs only when traced node by node."
    ),
    turn_on="nsys profile --trace=cuda,nvtx --cuda-graph-trace=node --export=sqlite",
)
