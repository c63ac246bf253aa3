"""Files whose kernels all communicate, while steps ran that compute.

No engine's step is communication alone: such a file was filtered, or lost every other kernel with
its launch. Statistics of the parts tell which files may be so; only those are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trueput.attribution.gpu.losses.empty_steps import computing
from trueput.attribution.gpu.profile.marks import Marks, has_word, numbers, row_groups, set_aside
from trueput.attribution.gpu.time.clock import SECOND_NS, logged

FEW: Final = 3
"""Of fewer steps nothing is concluded."""


@dataclass(frozen=True)
class Uncomputed:
    """How many steps ran while a file watched that shows none of their computing."""

    steps: int
    is_annotated: bool
    """By annotations of the file itself; else by the log's iterations."""
    span_ns: int


def only_communicates(operations: Path) -> bool:
    """Return whether a file shows kernels, and all of them are known to communicate."""
    return _may_only_communicate(operations) and all(
        not bool((_kernels(rows) & ~has_word(rows.column("class"), "communication")).any())
        for rows in row_groups([operations], ("kind", "class", "quality"))
    )


def has_compute(operations: Path) -> bool:
    """Return whether a file shows a kernel that computes."""
    return any(
        bool((_kernels(rows) & has_word(rows.column("class"), "compute")).any())
        for rows in row_groups([operations], ("kind", "class", "quality"))
    )


def uncomputed(
    source: str,
    operations: Path,
    marks: Marks | None,
    iterations: pa.Table,
    offsets: Mapping[str, int],
    *,
    is_dated: bool,
) -> Uncomputed | None:
    """Return the steps that ran in the time of a file that shows only communication.

    `marks` are the annotations of the file. Without any the iterations count that the log printed
    in the time of the file, where it `is_dated`: `offsets` (ns by file) take instants to UTC.
    """
    if not only_communicates(operations):
        return None
    first, last = _reach(operations)
    if marks is not None:
        inside = computing(marks) & (marks.start_ns >= first) & (marks.end_ns <= last)
    elif is_dated and iterations.num_rows:
        printed, known = logged(iterations, offsets)
        at = printed - offsets.get(source, 0)
        tokens = numbers(iterations.column("context_tokens"))
        tokens = tokens + numbers(iterations.column("generation_tokens"))
        inside = known & (tokens > 0) & (at - SECOND_NS >= first) & (at + SECOND_NS <= last)
    else:
        return None
    steps = int(inside.sum())
    return Uncomputed(steps, marks is not None, last - first) if steps >= FEW else None


def _may_only_communicate(operations: Path) -> bool:
    """Return whether no row group is told to hold an operation of another class."""
    metadata: Any = pq.read_metadata(operations)
    at = metadata.schema.to_arrow_schema().get_field_index("class")
    some = False
    for number in range(metadata.num_row_groups):
        told = metadata.row_group(number).column(at).statistics
        if told is None or not told.has_null_count:
            return True
        if told.null_count == metadata.row_group(number).num_rows:
            continue
        if not told.has_min_max or {told.min, told.max} != {"communication"}:
            return not told.has_min_max
        some = True
    return some


def _kernels(rows: Any) -> Any:
    kind = rows.column("kind")
    kernel = has_word(kind, "kernel") | has_word(kind, "graph_span")
    return kernel & ~set_aside(rows.column("quality"))


def _reach(operations: Path) -> tuple[int, int]:
    first: list[int] = []
    last: list[int] = []
    for rows in row_groups([operations], ("quality", "start_at_ns", "end_at_ns")):
        keep = pa.array(~set_aside(rows.column("quality")))
        first.append(pc.min(rows.column("start_at_ns").filter(keep)).as_py())
        last.append(pc.max(rows.column("end_at_ns").filter(keep)).as_py())
    return (
        min((x for x in first if x is not None), default=0),
        max((x for x in last if x is not None), default=0),
    )
