"""Nsight Systems exports as a folder of Parquet files: `nsys export --type parquetdir`.

One file holds one table, with the names of the SQLite export. One of the files speaks for the
folder: the first of a fixed order that is there; it is read together with its neighbours, and the
others yield nothing. What is read of each table is said in `trueput.nsys_rows`; the problem codes
are those of the SQLite source (NSYS001 to NSYS027).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from trueput.nsys_rows.codes import CODES
from trueput.nsys_rows.export import TABLES, read_export
from trueput.nsys_rows.operations import OPERATION_TABLES
from trueput.source_api import NOT_MINE, Item, Problem, ReadOptions, Sniff, Source
from trueput.tally import meanings

_SPEAKERS = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "NVTX_EVENTS",
    "GPU_METRICS",
    "META_DATA_EXPORT",
)
_TABLE = re.compile(
    r"(CUPTI_ACTIVITY_KIND_\w+|ENUM_\w+|TARGET_INFO_\w+|META_DATA_(?:EXPORT|CAPTURE)|NVTX_\w+"
    r"|CUDA_\w+|GPU_\w+|ANALYSIS_\w+|GENERIC_\w+|DIAGNOSTIC_EVENT|PROFILER_OVERHEAD|PROCESSES"
    r"|ProcessStreams|StringIds|ThreadNames|OSRT_\w+|COMPOSITE_EVENTS|SAMPLING_CALLCHAINS"
    r"|SCHED_EVENTS|MPI_\w+|NET_\w+|UnwindMethodType|EXPORT_\w+)\.parquet"
)


def sniff(name: str, head: bytes) -> Sniff:
    """Say how sure it is that a file is one table of a parquetdir export."""
    found = _TABLE.fullmatch(PurePosixPath(name).name)
    if found is None or not head.startswith(b"PAR1"):
        return NOT_MINE
    return Sniff(0.95, f"Parquet with the name of the table {found[1]}")


def read(path: Path, options: ReadOptions) -> Iterator[Item]:
    """Yield the whole export from the file that speaks for it, nothing from the others."""
    from trueput.sources.nsys_parquetdir.tables import ParquetTables

    files = _tables(path, options)
    own = _table(path.name)
    speaker = next((t for t in _SPEAKERS if t in files), own)
    if own != speaker:
        return
    tables = ParquetTables(files)
    broken = tables.unreadable()
    for table in broken:
        yield _problem("NSYS001" if len(broken) == len(files) else "NSYS002", table)
    lost = not OPERATION_TABLES.isdisjoint(broken)
    yield from read_export(tables, tables.names, partial=bool(broken), lost=lost)


def _table(name: str) -> str:
    found = _TABLE.fullmatch(name)
    return found[1] if found else ""


def _tables(path: Path, options: ReadOptions) -> dict[str, Path]:
    """Return the files of the export by table: those of the run that lie in the same folder."""
    files = {_table(path.name): path}
    folder = PurePosixPath(options.relative_path).parent
    for name in map(PurePosixPath, options.siblings):
        table = _table(name.name)
        if table and name.parent == folder and (path.parent / name.name).is_file():
            files[table] = path.parent / name.name
    return files


def _problem(code: str, text: str) -> Problem:
    severity, words = CODES[code]
    return Problem(code, severity, f"{words}: {text}")


SOURCE = Source(
    name="nsys_parquetdir",
    title="Nsight Systems export (folder of Parquet files)",
    versions="export schemas 3.1 to 3.28",
    tables=TABLES,
    sniff=sniff,
    read=read,
    problem_codes=meanings(CODES),
    proves="The same as the SQLite export: kernels, copies, launches and ranges.",
    turn_on="nsys export --type parquetdir REPORT.nsys-rep",
)
