"""Marking GPU operations that stay in the store and count nowhere: `quality` of gpu_ops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from trueput.arrow import arrow_schema
from trueput.attribution.gpu_marks import numbers
from trueput.attribution.gpu_plausible import bounds_of
from trueput.ingest.read import rewrite
from trueput.source_api import Problem, Severity
from trueput.units import ns_text

IMPLAUSIBLE = "implausible"
"""Word of gpu_ops.quality for an operation whose times cannot be."""


def mark_implausible(part: Path) -> Problem | None:
    """Mark the operations of a part of gpu_ops whose times cannot be, and tell them.

    A part without any is not written.
    """
    bounds = bounds_of(part)
    if bounds is None:
        return None
    found: list[tuple[int, int]] = []
    count = 0

    def marked(rows: pa.Table) -> pa.Table:
        nonlocal count
        start, end = numbers(rows.column("start_at_ns")), numbers(rows.column("end_at_ns"))
        broken = bounds.broken_by(start, end)
        count += int(broken.sum())
        if broken.any() and not found:
            at = int(np.flatnonzero(broken)[0])
            found.append((int(start[at]), int(end[at])))
        return _with_quality(rows, broken, IMPLAUSIBLE)

    if not bounds.is_broken_in(part):
        return None
    rewrite(part, "gpu_ops", marked)
    start, end = found[0]
    text = (
        f"operations with times that cannot be, the first {ns_text(end - start)} long from "
        f"{start} ns on; they stay in gpu_ops with quality {IMPLAUSIBLE} and count nowhere"
    )
    return Problem("INGEST007", Severity.WARNING, text, count=count)


def mark_all(part: Path, word: str) -> None:
    """Write a word into `quality` of every operation of a part of gpu_ops."""
    rewrite(part, "gpu_ops", lambda rows: _with_quality(rows, np.ones(len(rows), np.bool_), word))


def _with_quality(rows: pa.Table, which: Any, word: str) -> pa.Table:
    """Return the rows with a word in `quality` where told; an implausible row stays that."""
    at = arrow_schema("gpu_ops").get_field_index("quality")
    said = rows.column("quality").to_pylist()
    told = [
        word if here and now != IMPLAUSIBLE else now
        for here, now in zip(which.tolist(), said, strict=True)
    ]
    return rows.set_column(at, rows.schema.field(at), pa.array(told, pa.string()))
