"""Profiles that lie outside of everything else that a run recorded.

A worker whose clock is an hour off gives a profile of which no operation falls into the window of
the run: its figures would be missing without a word. Only what is dated can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from trueput.arrow import arrow_schema
from trueput.attribution.gpu.time.axis import is_dated, source_of
from trueput.clock import ClockFit
from trueput.source_api import Clock, Problem, Severity
from trueput.units import ns_text

RECORDS: Final = ("requests", "request_events", "engine_steps")
"""Tables that tell when the run was."""

Span = tuple[int, int]


def profiles_outside(
    parts: Mapping[str, Sequence[Path]],
    clocks: Mapping[str, Clock],
    fits: Mapping[str, ClockFit],
) -> list[tuple[str, Problem]]:
    """Return a problem for each profile no operation of which lies within the run's records."""
    records = [
        span
        for table in RECORDS
        for part in parts.get(table, ())
        if (span := _dated_span(part, table, clocks, fits)) is not None
    ]
    if not records:
        return []
    first, last = min(r[0] for r in records), max(r[1] for r in records)
    found: list[tuple[str, Problem]] = []
    for part in parts.get("gpu_ops", ()):
        span, source = _dated_span(part, "gpu_ops", clocks, fits), source_of(part)
        if span is None or source is None:
            continue
        apart = max(first - span[1], span[0] - last)
        if apart <= 0:
            continue
        side = "before" if span[1] < first else "after"
        text = (
            f"every operation of `{source}` lies {ns_text(apart)} or more {side} the requests and "
            "iterations of the run: none is in the window; is its clock that of the others?"
        )
        found.append((source, Problem("ATTR009", Severity.WARNING, text)))
    return found


def _dated_span(
    part: Path, table: str, clocks: Mapping[str, Clock], fits: Mapping[str, ClockFit]
) -> Span | None:
    """Return the first and the last instant of a part in UTC; None where it is not dated."""
    source = source_of(part)
    if source is None or not is_dated(source, clocks, fits):
        return None
    fit = fits.get(source)
    offset = (fit.offset_ns if fit is not None else None) or 0
    schema = arrow_schema(table)
    names = {f.name for f in schema if (f.metadata or {}).get(b"type") == b"time"}
    metadata: Any = pq.read_metadata(part)
    told = [
        column.statistics
        for group in range(metadata.num_row_groups)
        for at in range(metadata.num_columns)
        if (column := metadata.row_group(group).column(at)).path_in_schema in names
    ]
    ends = [(int(t.min), int(t.max)) for t in told if t is not None and t.has_min_max]
    if not ends:
        return None
    return min(e[0] for e in ends) + offset, max(e[1] for e in ends) + offset
