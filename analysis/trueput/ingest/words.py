"""Words of gpu_ops.quality that ingest writes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from trueput.arrow import arrow_schema
from trueput.attribution.gpu.profile.marks import DUPLICATE

IMPLAUSIBLE = "implausible"
"""Word of gpu_ops.quality for an operation whose times cannot be."""
NO_DEVICE = "no_device"
"""Word of gpu_ops.quality for an operation whose device is not known."""
CLIPPED = "clipped"
"""Word of gpu_ops.quality for a kernel that was cut at its successor's start."""


def with_quality(rows: pa.Table, which: Any, word: str) -> pa.Table:
    """Return the rows with a word in `quality` where told; an implausible row stays that, and so
    does one that stands twice."""
    at = arrow_schema("gpu_ops").get_field_index("quality")
    said = rows.column("quality").to_pylist()
    told = [
        word if here and now not in (IMPLAUSIBLE, DUPLICATE) else now
        for here, now in zip(which.tolist(), said, strict=True)
    ]
    return rows.set_column(at, rows.schema.field(at), pa.array(told, pa.string()))
