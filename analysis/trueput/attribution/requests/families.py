"""Which of the engine's requests each load of a run sent, where the rows fit those of several.

The ids of one load have one stem, so the engine's requests fall into families. Loads of one seed
ask for the same lengths, and each fits the families of all; then time tells: a load's sends and the
arrivals of its family lie as far apart as its clock lies from the engine's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from trueput.attribution.requests import fitting
from trueput.attribution.requests.dating import Key, Known, offsets_of
from trueput.attribution.requests.fitting import Choice, Loads
from trueput.attribution.reused import named_twice
from trueput.source_api import Problem, Severity

_ID_PATTERN: Final = r"^(?:chat)?cmpl-(?P<stem>.*?)(?P<row>\d+)(?:-0)?$"
_LENGTHS_AGREE: Final = 0.95
_LEAST_SHARE: Final = 0.5


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
    wanted: dict[Any, Sequence[Any]] = {k: [f.stem for f in fs] for k, fs in open_to.items()}
    offsets = offsets_of(loads, wanted, members.filter(pl.col("stem").is_in(stems)), known)
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
