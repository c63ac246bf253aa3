"""Which of the engine's requests each load of a run sent, where the rows fit those of several.

The ids of one load have one stem, so the engine's requests fall into families. Loads of one seed
ask for the same lengths, and each fits the families of all; then time tells: a load's sends and the
arrivals of its family lie as far apart as its clock lies from the engine's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import polars as pl

from trueput.attribution.requests import fitting
from trueput.attribution.requests.fitting import Choice, Loads, Offsets
from trueput.attribution.reused import named_twice
from trueput.clock import ClockAnchor, ClockKind, zone_offset_ns
from trueput.source_api import Clock, Problem, Severity

Key = tuple[str, str | None]
"""File and load session."""
_ID_PATTERN: Final = r"^(?:chat)?cmpl-(?P<stem>.*?)(?P<row>\d+)(?:-0)?$"
_LENGTHS_AGREE: Final = 0.95
_LEAST_SHARE: Final = 0.5
_PLACE: Final = pl.col("row_ix") - pl.col("row_ix").min()


@dataclass(frozen=True)
class Family:
    """How well the engine's requests of one stem fit the rows of one load."""

    stem: str
    rows: int
    """Rows of the load with a request of the family in their place."""
    agree: float
    """Share of them with the same prompt length, or one that is not known."""

    def fits(self, rows: int) -> bool:
        """Return whether a load of so many rows can be of this family."""
        return self.rows >= _LEAST_SHARE * rows and self.agree >= _LENGTHS_AGREE


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


def in_families(engine: pl.DataFrame) -> pl.DataFrame:
    """Return stem, place, engine_id, engine_prompt of the requests whose ids end in a row."""
    parts = engine.with_columns(
        pl.col("request_id").str.extract_groups(_ID_PATTERN).alias("parts")
    ).unnest("parts")
    parts = parts.filter(pl.col("row").is_not_null() & (pl.col("row").str.len_chars() < 12))
    return parts.select(
        "stem",
        pl.col("row").cast(pl.Int64).alias("place"),
        pl.col("request_id").alias("engine_id"),
        pl.col("prompt_tokens").alias("engine_prompt"),
    )


def ranked(rows: pl.DataFrame, members: pl.DataFrame, *, every: bool = False) -> list[Family]:
    """Return the families that have requests in the places of these rows, the largest first.

    With `every` prompt length of an id that the engine got several times, any may be the row's.
    """
    joined = members.join(rows.select("place", "prompt_tokens"), on="place", how="inner")
    same = (pl.col("engine_prompt") == pl.col("prompt_tokens")).fill_null(value=True)
    each = joined.select("stem", "place", same.alias("same"))
    if every:
        each = each.group_by("stem", "place").agg(pl.col("same").any())
    score = each.group_by("stem").agg(pl.len().alias("n"), pl.col("same").mean().alias("agree"))
    score = score.sort(["n", "stem"], descending=[True, False])
    return [Family(stem, n, agree) for stem, n, agree in score.iter_rows()]


def _every_length(members: pl.DataFrame, ids: Sequence[str], known: Known) -> pl.DataFrame:
    """Return `members` with each prompt length that the engine names under a reused id."""
    wanted = pl.Series(list(ids)).implode()
    frames = [
        pl.scan_parquet(list(known.parts[table]))
        .filter(which & pl.col("request_id").is_in(wanted))
        .select(pl.col("request_id").cast(pl.String).alias("engine_id"), "prompt_tokens")
        .drop_nulls()
        .collect(engine="streaming")
        for table, which in (
            ("requests", pl.col("vantage") == "engine"),
            ("request_events", pl.col("event").is_in(["received", "added", "queued"])),
        )
        if known.parts.get(table)
    ]
    more = pl.concat(frames).unique().rename({"prompt_tokens": "engine_prompt"})
    again = members.drop("engine_prompt").join(more, on="engine_id").select(members.columns)
    return pl.concat([members, again]).unique(maintain_order=True)


@dataclass(frozen=True)
class Families:
    """The family of each load that has none by its prefix, and what could not be told."""

    of: Mapping[Key, str | None] = field(default_factory=dict)
    """None: of no family, since all that fit are another load's, or nothing tells. A load that fits
    none is not in it."""
    problems: Sequence[Problem] = ()


def choose(
    loads: Mapping[Key, pl.DataFrame],
    members: pl.DataFrame,
    taken: Sequence[str],
    known: Known,
) -> Families:
    """Return which family each load is of, where its rows alone do not tell.

    `loads`: rows of clients without ids and without a known prefix (place, sent_at_ns, ended_at_ns,
    prompt_tokens); `members` is of `in_families`; `taken`: prefixes of other loads.
    """
    fitting_of = {
        key: [f for f in ranked(rows, members) if f.fits(rows.height)]
        for key, rows in loads.items()
    }
    only = {key: found[0].stem for key, found in fitting_of.items() if len(found) == 1}
    if len(only) == len(loads) == len(set(only.values()) - set(taken)):
        return Families(dict(only))
    reused = named_twice.reused_ids(known.parts, None)
    shared = set(members.filter(pl.col("engine_id").is_in(reused))["stem"].unique().to_list())
    lost = [key for key, found in fitting_of.items() if not found] if reused else []
    if lost:
        every = _every_length(members, reused, known)
        for key in lost:
            rows = loads[key]
            found = ranked(rows, every, every=True)
            fitting_of[key] = [f for f in found if f.fits(rows.height)]
    free = {
        key: [f for f in found if f.stem in shared or f.stem not in taken]
        for key, found in fitting_of.items()
    }
    open_to = _contended(free, shared)
    out: dict[Key, str | None] = {k: None for k, f in fitting_of.items() if f and not free[k]}
    out |= {key: found[0].stem for key, found in free.items() if found and key not in open_to}
    if not open_to:
        return Families(out)
    stems = sorted({f.stem for found in open_to.values() for f in found})
    offsets = _offsets(loads, open_to, members.filter(pl.col("stem").is_in(stems)), known)
    wanted: dict[Any, Sequence[Any]] = {k: [f.stem for f in fs] for k, fs in open_to.items()}
    choice = fitting.choose(Loads(wanted, shared), offsets)
    _by_size(choice, open_to, loads, members, shared)
    out |= choice.told | dict.fromkeys(choice.untold)
    return Families(out, _untold(choice, open_to))


def _contended(
    free: Mapping[Key, Sequence[Family]], shared: set[str]
) -> dict[Key, Sequence[Family]]:
    """Return the loads that fit several families, or one that another load fits as well."""
    wanted: dict[str, int] = {}
    for found in free.values():
        for family in found:
            wanted[family.stem] = wanted.get(family.stem, 0) + 1
    return {
        key: found
        for key, found in free.items()
        if len(found) > 1 or any(wanted[f.stem] > 1 and f.stem not in shared for f in found)
    }


def _by_size(
    choice: Choice,
    open_to: Mapping[Key, Sequence[Family]],
    loads: Mapping[Key, pl.DataFrame],
    members: pl.DataFrame,
    shared: set[str],
) -> None:
    """Where time tells nothing: the family whose size alone is nearest to that of the load."""
    sizes = dict(members.group_by("stem").agg(pl.col("place").n_unique()).iter_rows())
    best: dict[Key, str] = {}
    for key in choice.untold:
        ranks = sorted(
            ((-f.rows, abs(sizes[f.stem] - loads[key].height)), f.stem)
            for f in open_to[key]
            if f.stem in shared or f.stem not in choice.told.values()
        )
        if ranks and (len(ranks) == 1 or ranks[0][0] < ranks[1][0]):
            best[key] = ranks[0][1]
    stems = list(best.values())
    wanted = [f.stem for key in choice.untold for f in open_to[key]]
    for key, stem in best.items():
        alone = stem in shared or (stems.count(stem) == 1 and wanted.count(stem) == 1)
        if alone or (stems.count(stem) == 1 and len(best) == len(choice.untold)):
            choice.tell(key, stem)


def _untold(choice: Choice, open_to: Mapping[Key, Sequence[Family]]) -> list[Problem]:
    left = [key for key in choice.untold if open_to[key]]
    if not left:
        return []
    stems = sorted({f.stem for key in left for f in open_to[key]})
    ids = ", ".join(f"`{stem}`" for stem in stems)
    return [untold([session or source for source, session in left], f"have ids with {ids}")]


def untold(names: Sequence[str], which: str) -> Problem:
    """Return the problem of loads that fit the same requests of the engine."""
    loads = ", ".join(f"`{name}`" for name in names)
    text = (
        f"the rows of {loads} fit requests of the engine that {which}; no clock tells which are "
        "whose, and the rows are joined to none"
    )
    return Problem("ATTR018", Severity.WARNING, text, count=len(names))


def _offsets(
    loads: Mapping[Key, pl.DataFrame],
    open_to: Mapping[Key, Sequence[Family]],
    members: pl.DataFrame,
    known: Known,
) -> Offsets:
    """Return how far arrivals lie behind sends, and what is known of the clocks."""
    arrivals, kind = _arrivals(members, known)
    ahead: dict[tuple[Any, Any], list[Any]] = {}
    is_timed = True
    for key, found in open_to.items():
        sends = loads[key].filter(pl.col("sent_at_ns") > 0).select("place", "sent_at_ns")
        for family in found:
            mine = arrivals.filter(pl.col("stem") == family.stem)
            every = [rows for _, rows in mine.group_by("nth", maintain_order=True)]
            if sends.is_empty():
                # only the printed end dates such a load, soon after its last request came
                last = [rows["arrived_at_ns"].sort().tail(1).to_numpy() for rows in every]
                ahead[key, family.stem] = last
                is_timed = False
                continue
            joined = [rows.join(sends, on="place") for rows in every]
            ahead[key, family.stem] = [
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
        logs = {s for s in found["source_id"].unique() if clocks[s].kind is ClockKind.LOCAL}
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
