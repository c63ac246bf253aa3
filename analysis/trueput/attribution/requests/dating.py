"""When a run's loads sent and its engine got their requests: on which clocks, and how far apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import polars as pl

from trueput.attribution.requests import fitting
from trueput.attribution.requests.fitting import Offsets
from trueput.clock import ClockAnchor, ClockKind, zone_offset_ns
from trueput.source_api import Clock

Key = tuple[str, str | None]
"""File and load session."""


@dataclass(frozen=True)
class Known:
    """What tells instants of a run's files apart: their clocks, and when loads ended."""

    parts: Mapping[str, Sequence[Path]]
    clocks: Mapping[str, Clock] = field(default_factory=dict)
    anchors: Sequence[ClockAnchor] = ()
    timezone: str | None = None
    ended: Mapping[Key, int | None] = field(default_factory=dict)
    """Local end of each load, as its client printed it."""


NOTHING_KNOWN: Final = Known({})


def offsets_of(
    loads: Mapping[Key, pl.DataFrame],
    open_to: Mapping[Key, Sequence[str]],
    members: pl.DataFrame,
    known: Known,
) -> Offsets:
    """Return how far arrivals lie behind sends, and what is known of the clocks.

    `open_to`: the stems that each load may be of; `members`: stem, place, engine_id of these.
    """
    arrivals, kind = _arrivals(members, known)
    ahead: dict[tuple[Any, Any], list[Any]] = {}
    is_timed = True
    for key, found in open_to.items():
        sends = loads[key].filter(pl.col("sent_at_ns") > 0).select("place", "sent_at_ns")
        for stem in found:
            mine = arrivals.filter(pl.col("stem") == stem)
            every = [rows for _, rows in mine.group_by("nth", maintain_order=True)]
            if sends.is_empty():
                # only the printed end dates such a load, soon after its last request came
                last = [rows["arrived_at_ns"].sort().tail(1).to_numpy() for rows in every]
                ahead[key, stem] = last
                is_timed = False
                continue
            joined = [rows.join(sends, on="place") for rows in every]
            ahead[key, stem] = [
                (rows["arrived_at_ns"] - rows["sent_at_ns"]).to_numpy() for rows in joined
            ]
    kinds = {known.clocks[source].kind for source, _ in open_to if source in known.clocks}
    is_one = kinds == {ClockKind.MONOTONIC} or len({source for source, _ in open_to}) == 1
    return Offsets(
        ahead,
        arrivals=kind,
        to_utc=_to_utc(open_to, known) if is_timed else None,
        by_date=_by_date(loads, open_to, known),
        one_clock=is_timed and is_one,
    )


def _to_utc(open_to: Mapping[Key, Any], known: Known) -> dict[Any, int] | None:
    """Return the way of each load's instants to UTC, where every one is known."""
    found: dict[Any, int] = {}
    shifts = sorted(a.unix_ns - a.monotonic_ns for a in known.anchors)
    for key in open_to:
        clock = known.clocks.get(key[0])
        if clock is not None and clock.offset_ns is not None:
            found[key] = clock.offset_ns
        elif clock is not None and clock.kind is ClockKind.UTC:
            found[key] = 0
        elif clock is not None and clock.kind is ClockKind.MONOTONIC and shifts:
            found[key] = shifts[len(shifts) // 2]
        else:
            return None
    return found


def _by_date(
    loads: Mapping[Key, pl.DataFrame], open_to: Mapping[Key, Any], known: Known
) -> dict[Any, int] | None:
    """Return the way of each load's instants to local time, by the end that its client printed."""
    found: dict[Any, int] = {}
    for key in open_to:
        ended = known.ended.get(key)
        rows = loads[key]
        if ended is None:
            return None
        last: Any = rows.select(pl.max_horizontal("sent_at_ns", "ended_at_ns").max()).item()
        found[key] = ended - (last or 0)
    return found


def _arrivals(members: pl.DataFrame, known: Known) -> tuple[pl.DataFrame, fitting.Arrivals]:
    """Return when the engine got these requests: stem, place, nth (of an id), arrived_at_ns.

    From records of the engine in UTC where every family has some, else from its log.
    """
    ids = members["engine_id"].implode()
    clocks = known.clocks
    utc = [s for s, c in clocks.items() if c.kind is ClockKind.UTC]
    found = _collected(
        known.parts.get("requests", ()),
        (pl.col("vantage") == "engine") & pl.col("source_id").is_in(utc),
        pl.col("arrived_at_ns"),
        ids,
    )
    kind = fitting.Arrivals(is_utc=True, resolution_ns=fitting.EXACT_NS)
    stems = members["stem"].n_unique()
    if members.join(found, on="engine_id", how="semi")["stem"].n_unique() < stems:
        came = pl.col("event").is_in(["received", "added", "queued"])
        parts = known.parts.get("request_events", ())
        found = _collected(parts, came, pl.col("at_ns").alias("arrived_at_ns"), ids, one=True)
        zone = known.timezone
        local = {s for s, c in clocks.items() if c.kind is ClockKind.LOCAL}
        logs = local & set(found["source_id"].to_list())
        if zone is not None and found.height:
            first: Any = found["arrived_at_ns"].min()
            shift = zone_offset_ns(zone, first)
            is_local = pl.col("source_id").is_in(list(logs))
            at = pl.col("arrived_at_ns") + pl.when(is_local).then(shift).otherwise(0)
            found = found.with_columns(at.alias("arrived_at_ns"))
        is_utc = zone is not None or not logs
        kind = fitting.Arrivals(is_utc=is_utc, resolution_ns=fitting.PRINTED_NS)
    nth = pl.col("arrived_at_ns").rank("ordinal").over("engine_id").alias("nth")
    joined = members.join(found, on="engine_id").with_columns(nth)
    return joined.select("stem", "place", "nth", "arrived_at_ns"), kind


def _collected(
    parts: Sequence[Path], which: pl.Expr, at: pl.Expr, ids: Any, *, one: bool = False
) -> pl.DataFrame:
    """Return engine_id, source_id, arrived_at_ns of these ids; with `one` of one kind of event."""
    empty = {"engine_id": pl.String, "source_id": pl.String, "arrived_at_ns": pl.Int64}
    if not parts:
        return pl.DataFrame(schema=empty)
    rows = pl.scan_parquet(list(parts)).filter(which & pl.col("request_id").is_in(ids))
    word = [pl.col("event").cast(pl.String)] if one else []
    seen = rows.select(pl.col("request_id").alias("engine_id"), "source_id", at, *word)
    found = seen.drop_nulls("arrived_at_ns").collect(engine="streaming")
    if one and found.height:
        first = found["event"].value_counts(sort=True)["event"][0]
        found = found.filter(pl.col("event") == first).drop("event")
    return found.select(list(empty)).cast({"source_id": pl.String, "engine_id": pl.String})
