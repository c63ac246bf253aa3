"""Kernels that cannot have ended when a profile says: their ends are taken for lost, and told."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

from trueput.attribution.gpu.operations.early import Long
from trueput.attribution.gpu.operations.late import late_ends
from trueput.attribution.gpu.operations.no_length import ZERO_DURATION
from trueput.attribution.gpu.profile.marks import numbers
from trueput.ingest.read import rewrite
from trueput.ingest.words import with_quality
from trueput.source_api import Problem, Severity
from trueput.units import ns_text


def lose_late_ends(part: Path, long: Long) -> list[Problem]:
    """Let the kernels of a part of gpu_ops that end after their successor began end as they start.

    That is how a kernel without an end is told everywhere: it may have run until its successor
    began, and what is idle there is not known to be. A part without any is not written.
    """
    late = late_ends(part, long)
    if late is None:
        return []
    number = count()

    def changed(rows: pa.Table) -> pa.Table:
        which = late.of_group(next(number), rows.num_rows)
        if not which.any():
            return rows
        start, end = numbers(rows.column("start_at_ns")), numbers(rows.column("end_at_ns"))
        at = rows.schema.get_field_index("end_at_ns")
        ends = pa.array(np.where(which, start, end), pa.int64())
        return with_quality(rows.set_column(at, rows.schema.field(at), ends), which, ZERO_DURATION)

    rewrite(part, "gpu_ops", changed)
    text = (
        f"kernels that end after the next operation of their stream began, by up to "
        f"{ns_text(late.by_ns)}: a stream runs in turn, so that their ends are lost; they stay in "
        f"gpu_ops with quality {ZERO_DURATION}"
    )
    return [Problem("INGEST017", Severity.WARNING, text, count=late.row.size)]
