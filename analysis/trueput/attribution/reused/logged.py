"""Requests of reused ids as the engine's log tells of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from trueput.attribution.reused.likely_offset import likely_offset
from trueput.attribution.reused.lives import Record
from trueput.attribution.reused.log_lives import Line, LogLife, child_of, log_lives
from trueput.attribution.reused.named_twice import outer_id
from trueput.attribution.reused.rows import UNSURE_NS, Fits, ReusedRow, clock_of
from trueput.clock import ClockFit

PRINTED_NS: Final = 1_000_000_000
"""A log prints whole seconds."""
_SUFFIX: Final = r"-[0-9a-f]{8}$"


def logged_requests(
    parts: Sequence[Path], ids: Sequence[str]
) -> dict[str, list[tuple[LogLife, list[dict[str, Any]]]]]:
    """Return the requests that logs tell of under each id, with the lines of these ids."""
    found: dict[str, list[tuple[LogLife, list[dict[str, Any]]]]] = {}
    if not parts or not ids:
        return found
    wanted = pl.Series(list(ids)).implode()
    printed = pl.coalesce("request_id", pl.col("engine_request_id").str.replace(_SUFFIX, ""))
    frames = []
    for number, part in enumerate(parts):
        events = pl.scan_parquet(part, row_index_name="place").select(
            "place", "source_id", "event", "at_ns", "request_id", "engine_request_id",
            printed.alias("printed"), pl.lit(number).alias("part"),
        )  # fmt: skip
        mine = events.filter(
            outer_id(pl.col("printed")).is_in(wanted) & (pl.col("event") != "responded")
        )
        frames.append(mine.collect(engine="streaming").sort("place"))
    every = pl.concat(frames).with_columns(outer_id(pl.col("printed")).alias("outer"))
    for (name,), mine_rows in every.group_by("outer", maintain_order=True):
        rows = [{**row, "part": parts[row["part"]]} for row in mine_rows.iter_rows(named=True)]
        lines = [
            Line(r["source_id"], r["event"], r["request_id"], r["engine_request_id"], r["at_ns"])
            for r in rows
        ]
        found[str(name)] = [(life, [rows[n] for n in life.lines]) for life in log_lives(lines)]
    return found


def log_row(life: LogLife, lines: Sequence[dict[str, Any]], fits: Fits) -> ReusedRow:
    """Return a request of a log, and the lines that its id must be written into; UTC ns."""
    source = lines[0]["source_id"]
    offset, slack = clock_of(fits, source)
    times = [r["at_ns"] + offset for r in lines if r["at_ns"] is not None]
    answers = {child_of(r["engine_request_id"] or r["printed"]) for r in lines} - {None}
    record = Record(
        vantage="log",
        place=source,
        name="",
        start=min(times, default=None),
        end=max(times, default=None),
        slack=slack + PRINTED_NS,
        sequences=max(1, len(answers)),
    )
    where = tuple((r["part"], int(r["place"]), str(r["printed"])) for r in lines)
    return ReusedRow(record, source, 0, None, lines=where)


def log_fits(
    frame: pl.DataFrame,
    logged: Mapping[str, Sequence[tuple[LogLife, list[dict[str, Any]]]]],
    fits: Fits,
) -> dict[str, ClockFit]:
    """Return the clocks of logs that only sends of these requests date."""
    sends: dict[str, list[int]] = {}
    for row in frame.filter(pl.col("vantage") == "client").iter_rows(named=True):
        fit = fits.get(row["source_id"])
        is_sure = fit is not None and fit.uncertainty_ns is not None
        if fit is not None and is_sure and row["sent_at_ns"] is not None:
            sends.setdefault(row["outer"], []).append(row["sent_at_ns"] + (fit.offset_ns or 0))
    ahead: dict[str, list[int]] = {}
    for name, found in logged.items():
        for life, lines in found:
            source = str(life.place)
            at = next((r["at_ns"] for r in lines if r["at_ns"] is not None), None)
            known = fits.get(source)
            if at is not None and known is not None and known.uncertainty_ns is None:
                ahead.setdefault(source, []).extend(sent - at for sent in sends.get(name, ()))
    made = {}
    for source, spans in ahead.items():
        offset = likely_offset(np.array(spans, np.int64), fits[source].offset_ns)
        if offset is not None:
            made[source] = ClockFit(offset, UNSURE_NS, "sends of reused ids")
    return made
