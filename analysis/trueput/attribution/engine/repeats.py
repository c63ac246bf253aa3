"""Iterations that stand in an engine's log twice -> the rows to leave out.

Rotated files that overlap, and a collector that sends a window again, repeat lines. The same engine
does not print one number twice with the same instant and counts. Looks closer only where numbers
and times step back, or where two files hold the same numbers at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from trueput.attribution.reused.told import Told
from trueput.source_api import Problem, Severity

Parts = Mapping[str, Sequence[Path]]
Found = list[tuple[str, Problem]]

BATCH_ROWS: Final = 65_536
ALIKE: Final = 0.99
"""Of two files of one engine all lines that both could hold agree; of two engines hardly any do."""
_CONTENT: Final = [
    "engine", "step_ix", "logged_at_ns", "elapsed_ns", "context_requests", "context_tokens",
    "generation_requests", "generation_tokens", "kv_used_ratio", "dummy",
]  # fmt: skip
_EVENT: Final = [
    "event", "at_ns", "request_id", "engine_request_id", "process", "route", "http_status",
    "detail",
]  # fmt: skip


def repeated(parts: Parts) -> tuple[Told, Found] | None:
    """Return the rows of engine_steps and request_events that repeat others; None without any."""
    steps = list(parts.get("engine_steps", ()))
    gone: dict[Path, set[int]] = {}
    for part in steps:
        if (span := _steps_back(part)) is not None:
            rows = _rows(part, *span).filter(~pl.struct(_CONTENT).is_first_distinct())
            gone.setdefault(part, set()).update(rows["place"].to_list())
    for one, other in combinations(steps, 2):
        gone.setdefault(other, set()).update(_shared(one, other))
    told, found = Told(), Found()
    for part, places in gone.items():
        if not places:
            continue
        told.copies[("engine_steps", part)] = sorted(places)
        source, blocks = _blocks(part, places)
        text = f"{len(places)} iterations stand in the log twice; each is counted once"
        problem = Problem("ATTR015", Severity.WARNING, text, blocks[0][0], len(places))
        found.append((source, problem))
        _events(parts.get("request_events", ()), source, blocks, told)
    return (told, found) if found else None


def _steps_back(part: Path) -> tuple[int, int] | None:
    """Return the numbers between which an engine prints again what it may have printed; None where
    numbers or times only grow. Streams."""
    most: dict[str, tuple[int, int]] = {}
    low, high = np.iinfo(np.int64).max, -1
    columns = ["engine", "step_ix", "logged_at_ns"]
    with pq.ParquetFile(part, pre_buffer=False) as file:
        for batch in file.iter_batches(BATCH_ROWS, columns=columns):
            rows = pl.DataFrame(pl.from_arrow(batch)).drop_nulls()
            for (engine,), mine in rows.group_by(["engine"], maintain_order=True):
                number, at = (mine[name].to_numpy() for name in columns[1:])
                last = most.get(str(engine), (-1, -1))
                before = np.maximum.accumulate(np.concatenate([[last[0]], number]))
                until = np.maximum.accumulate(np.concatenate([[last[1]], at]))
                again = number[(number <= before[:-1]) & (at <= until[:-1])]
                if again.size:
                    low, high = min(low, int(again.min())), max(high, int(again.max()))
                most[str(engine)] = int(before[-1]), int(until[-1])
    return (low, high) if high >= low else None


def _scan(part: Path) -> pl.LazyFrame:
    columns = ["source_id", "line", *_CONTENT]
    rows = pl.scan_parquet(part, row_index_name="place").select("place", *columns)
    return rows.filter(pl.col("step_ix").is_not_null() & pl.col("logged_at_ns").is_not_null())


def _rows(part: Path, low: int, high: int) -> pl.DataFrame:
    """Return the iterations of these numbers, in order of the lines."""
    mine = _scan(part).filter(pl.col("step_ix").is_between(low, high))
    return mine.collect(engine="streaming").sort("place")


def _spans(part: Path) -> dict[str, tuple[int, int, int, int]]:
    """Return for each engine the least and greatest number and instant."""
    ends = [f(name) for name in ("step_ix", "logged_at_ns") for f in (pl.min, pl.max)]
    named = [e.alias(str(n)) for n, e in enumerate(ends)]
    rows = _scan(part).group_by("engine").agg(named).collect(engine="streaming")
    return {row[0]: row[1:] for row in rows.iter_rows()}


def _shared(one: Path, other: Path) -> list[int]:
    """Return the places in the other part of rows that the one holds too, if of the same engine."""
    found: list[int] = []
    mine, theirs = _spans(one), _spans(other)
    for engine in sorted(mine.keys() & theirs.keys()):
        a, b = mine[engine], theirs[engine]
        low, high = max(a[0], b[0]), min(a[1], b[1])
        since, until = max(a[2], b[2]), min(a[3], b[3])
        if low > high or since > until:
            continue

        def both(
            high: int, low: int = low, engine: str = engine, at: tuple[int, int] = (since, until)
        ) -> tuple[pl.DataFrame, pl.DataFrame]:
            inside = (pl.col("engine") == engine) & pl.col("logged_at_ns").is_between(*at)
            first, second = (_rows(part, low, high).filter(inside) for part in (one, other))
            again = second.join(first, on=_CONTENT, how="semi", nulls_equal=True)
            return again, second if second.height < first.height else first

        again, least = both(min(high, low + BATCH_ROWS))
        if least.is_empty() or again.height < ALIKE * least.height:
            continue
        if high > low + BATCH_ROWS:
            again, least = both(high)
        if again.height >= ALIKE * least.height:
            found += again["place"].to_list()
    return found


def _blocks(part: Path, places: set[int]) -> tuple[str, list[tuple[int, int]]]:
    """Return the file, and the lines from and to which nothing but repeated iterations stands."""
    rows = _scan(part).select("place", "source_id", "line").collect(engine="streaming")
    rows = rows.sort("place").with_columns(pl.col("place").is_in(sorted(places)).alias("again"))
    blocks = (
        rows.with_columns(pl.col("again").rle_id().alias("block"))
        .filter("again")
        .group_by("block", maintain_order=True)
        .agg(pl.col("line").min().alias("first"), pl.col("line").max().alias("last"))
    )
    ends = [(int(a or 0), int(b or 0)) for _, a, b in blocks.iter_rows()]
    return str(rows["source_id"][0]), ends


def _events(
    parts: Sequence[Path], source: str, blocks: Sequence[tuple[int, int]], told: Told
) -> None:
    """Add the events that stand among repeated iterations, and elsewhere too."""
    inside = pl.any_horizontal(pl.col("line").is_between(a, b) for a, b in blocks)
    is_again = (pl.col("source_id") == source) & inside.fill_null(value=False)
    every: list[pl.DataFrame] = []
    for number, part in enumerate(parts):
        rows = pl.scan_parquet(part, row_index_name="place")
        again = rows.filter(is_again).select("place", *_EVENT, pl.lit(number).alias("part"))
        every.append(again.collect(engine="streaming"))
    if not every or not (suspects := pl.concat(every)).height:
        return
    wanted = suspects.select(_EVENT).unique().lazy()
    known: list[Any] = []
    for part in parts:
        others = pl.scan_parquet(part).filter(~is_again).select(_EVENT)
        same = wanted.join(others, on=_EVENT, how="semi", nulls_equal=True)
        known.append(same.collect(engine="streaming"))
    copies = suspects.join(pl.concat(known).unique(), on=_EVENT, how="semi", nulls_equal=True)
    for number, place in copies.select("part", "place").iter_rows():
        told.copies.setdefault(("request_events", parts[number]), []).append(place)
