"""Records that one file holds twice, as where a log was appended to itself: each counts once."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trueput.arrow import arrow_schema
from trueput.attribution.gpu.operations.doubled import Alike, Doubled, Look, doubled_rows
from trueput.attribution.gpu.profile.marks import DUPLICATE, numbers
from trueput.ingest.read import FileResult, rewrite
from trueput.source_api import Problem, Severity

_OPERATION: Final = Alike(
    "start_at_ns",
    "end_at_ns",
    ("kind", "device_key", "process_key", "context_id", "stream", "correlation_id",
     "graph_node_id", "name", "bytes"),
)  # fmt: skip
"""A stream runs one thing at a time: nothing else begins and ends with an operation."""
_BESIDE: Final = {
    "gpu_launches": Alike(
        "start_at_ns", "end_at_ns", ("process_key", "thread_key", "correlation_id", "api")
    ),
    "gpu_ranges": Alike(
        "start_at_ns", "end_at_ns", ("process_key", "thread_key", "name", "domain", "style")
    ),
}
"""What is looked at where operations stand twice."""
_SAMPLE: Final = Alike(
    "at_ns", "value", ("device", "metric", "interval_ns"), needs=("device", "value")
)
"""What is of no known device, or has no instant, may be another sample."""
_SECOND: Final = 10**9
_EXPORTS: Final = "nsys"
"""Sources whose samples are rows of a database."""
_FINE: Final = "nvidia_smi_csv"
"""The source that always prints more than seconds."""


def mark_doubled_operations(result: FileResult, look: Look | None = None) -> list[Problem]:
    """Mark the operations that a file holds twice, all but one of each, and tell them.

    `look` is shown the starts and ends of all, by row group.
    """
    part = result.parts["gpu_ops"]
    found = doubled_rows(part, _OPERATION, look)
    if not found.rows:
        return []
    at = arrow_schema("gpu_ops").get_field_index("quality")
    groups = iter(range(pq.read_metadata(part).num_row_groups))
    count = 0

    def marked(rows: pa.Table) -> pa.Table:
        nonlocal count
        which = found.rows.get(next(groups))
        if which is None:
            return rows
        # on a coarse clock two short ones may agree, where no launch tells them apart
        lasts = numbers(rows.column("end_at_ns")) > numbers(rows.column("start_at_ns"))
        which &= lasts | rows.column("correlation_id").is_valid().to_numpy()
        count += int(which.sum())
        quality: Any = pc.if_else(pa.array(which), DUPLICATE, rows.column("quality"))
        return rows.set_column(at, rows.schema.field(at), quality)

    rewrite(part, "gpu_ops", marked)
    if not count:
        return []
    text = (
        "operations stand in the file before, alike to the nanosecond; they stay in gpu_ops with "
        f"quality {DUPLICATE} and count nowhere"
    )
    problems = [Problem("INGEST014", Severity.WARNING, text, count=count)]
    more = sum(_drop(result, table, alike) for table, alike in _BESIDE.items())
    if more:
        text = "calls and annotations stand in the file before; they are left out"
        problems.append(Problem("INGEST014", Severity.WARNING, text, count=more))
    return problems


def _drop(result: FileResult, table: str, alike: Alike) -> int:
    """Leave out the rows of a table that stand twice; return how many these were."""
    part = result.parts.get(table)
    found = Doubled() if part is None else doubled_rows(part, alike)
    if part is None or not found.rows:
        return 0
    groups = iter(range(pq.read_metadata(part).num_row_groups))

    def left(rows: pa.Table) -> pa.Table:
        which = found.rows.get(next(groups))
        return rows if which is None else rows.filter(pa.array(~which))

    rewrite(part, table, left)
    result.rows[table] -= found.count
    return found.count


def drop_doubled_samples(result: FileResult) -> list[Problem]:
    """Leave out the samples of telemetry that a file holds twice, and tell them."""
    part = result.parts.get("gpu_samples")
    if part is None or result.source_name.startswith(_EXPORTS):
        return []
    if not (result.source_name == _FINE or _is_fine(result)):
        return []
    count = _drop(result, "gpu_samples", _SAMPLE)
    text = "samples stand in the file before, with instant, device and value; they are left out"
    return [Problem("INGEST014", Severity.WARNING, text, count=count)] if count else []


def _is_fine(result: FileResult) -> bool:
    """Say whether instants are told to a part of a second: else two samples may share one."""
    with pq.ParquetFile(result.parts["gpu_samples"]) as file:
        for group in range(file.num_row_groups):
            at = file.read_row_group(group, ["at_ns"]).column(0).drop_null().to_numpy()
            if (at % _SECOND).any():
                return True
    return False
