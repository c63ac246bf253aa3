"""Ids that name several requests -> a name for each request, and what must be written for it.

A client that begins again, such as a warm-up or a second load with the same prefix, uses its ids
again. Of the requests of one id the first keeps it, the k-th in order of time gets `#k` behind it.
Nothing is read twice where no id is printed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from trueput.attribution.likely_offset import likely_offset
from trueput.attribution.lives import Record, lives
from trueput.attribution.log_lives import Line, LogLife, log_lives
from trueput.attribution.named_twice import outer_id
from trueput.clock import ClockFit
from trueput.source_api import Problem, Severity

Parts = Mapping[str, Sequence[Path]]
Fits = Mapping[str, ClockFit]

PRINTED_NS: Final = 1_000_000_000
"""A log prints whole seconds."""
UNSURE_NS: Final = 2_000_000_000
"""How far instants may be off on a clock of which no uncertainty is known."""
LATE_NS: Final = 50_000_000
"""What the clocks of two records may differ by where both are exact."""
_SUFFIX: Final = r"-[0-9a-f]{8}$"
_GOOD: Final = ("ok", "finished")


@dataclass
class Told:
    """What tells the requests of reused ids apart."""

    ids: dict[tuple[str, Path], dict[int, str]] = field(default_factory=dict)
    """Table and part -> place of a row in it -> the id that the row must have."""
    copies: dict[tuple[str, Path], list[int]] = field(default_factory=dict)
    """Table and part -> places of rows that stand there twice; the copy is left out."""
    tied: dict[tuple[str, int], str] = field(default_factory=dict)
    """File and row_ix of records beside the engine -> request."""
    gone: set[tuple[str, int]] = field(default_factory=set)
    """File and row_ix of records beside the engine that are copies."""
    problems: list[Problem] = field(default_factory=list)

    def applied(self, tied: pl.DataFrame) -> pl.DataFrame:
        """Return request_links with the requests that records beside the engine are of."""
        keys = list(self.tied)
        mine = pl.DataFrame(
            {
                "source_id": [source for source, _ in keys],
                "row_ix": [row for _, row in keys],
                "mine": [self.tied[key] for key in keys],
            },
            schema={"source_id": pl.String, "row_ix": pl.Int64, "mine": pl.String},
        )
        gone = pl.DataFrame(
            list(self.gone), schema={"source_id": pl.String, "row_ix": pl.Int64}, orient="row"
        )
        on = ["source_id", "row_ix"]
        left = tied.join(gone, on=on, how="anti", maintain_order="left")
        named = left.join(mine, on=on, how="left", maintain_order="left")
        ids = pl.coalesce("mine", "request_id").alias("request_id")
        return named.with_columns(ids).drop("mine")


@dataclass(frozen=True)
class _Row:
    """A record, and where its id must be written."""

    record: Record
    source: str
    at: int
    """Its row_ix, or, of an engine's record, its place in the part."""
    part: Path | None
    """None for lines of a log, which may be of several."""
    place: int = 0
    """Of a record in its part."""
    tokens: int | None = None
    lines: tuple[tuple[Path, int, str], ...] = ()
    """Of lines of a log: part, place and printed id of each."""


def tell_apart(
    parts: Parts, ids: Sequence[str], tied: pl.DataFrame | None, fit: Callable[[Counts], Fits]
) -> Told | None:
    """Return what tells the requests of these ids apart; None where each names one.

    `tied`: what request_links will say. `fit` is asked once for the clocks, with how many requests
    records and logs of the engine tell of under each id.
    """
    rows: dict[str, list[_Row]] = {name: [] for name in ids}
    logged = _logged(parts.get("request_events", ()), ids)
    frame = _recorded(parts.get("requests", ()), ids, tied)
    fits = dict(fit(_counts(frame, logged)))
    fits |= _log_fits(frame, logged, fits)
    for name, found in logged.items():
        rows[name] += [_log_row(life, lines, fits) for life, lines in found]
    for name, mine in _record_rows(frame, list(parts.get("requests", ())), fits).items():
        rows[name] += mine
    return _named(rows)


@dataclass(frozen=True)
class Counts:
    """How often each reused id stands in records of the engine, and in its log."""

    recorded: Mapping[str, int]
    logged: Mapping[str, int]


def _counts(frame: pl.DataFrame, logged: Mapping[str, Sequence[Any]]) -> Counts:
    spans = frame.filter(pl.col("vantage") == "engine").group_by("outer").len()
    return Counts(dict(spans.iter_rows()), {name: len(found) for name, found in logged.items()})


def _named(rows: Mapping[str, Sequence[_Row]]) -> Told | None:
    told = Told()
    reused: list[tuple[str, int]] = []
    copies = 0
    for name, every in rows.items():
        mine = _without_copies(every, told)
        copies += len(every) - len(mine)
        groups = lives([row.record for row in mine])
        for number, group in enumerate(groups, 1):
            for place in group:
                _write(told, mine[place], name, number)
        if len(groups) > 1:
            reused.append((name, len(groups)))
    if not reused and not copies:
        return None
    if reused:
        first, times = reused[0]
        text = (
            f"{len(reused)} ids name {sum(n for _, n in reused)} requests (`{first}` {times}); "
            f"{_apart_by(rows, dict(reused))}, and the k-th has `#k` behind its id"
        )
        told.problems.append(Problem("ATTR013", Severity.WARNING, text, count=len(reused)))
    if copies:
        text = f"{copies} records of requests stand in the files twice; each is counted once"
        told.problems.append(Problem("ATTR014", Severity.WARNING, text, count=copies))
    return told


def _apart_by(rows: Mapping[str, Sequence[_Row]], reused: Mapping[str, int]) -> str:
    """Say what told the requests of reused ids apart, of what there is."""
    records = [row.record for name in reused for row in rows[name]]
    has_times = any(record.start is not None for record in records)
    if any(record.vantage in {"engine", "log"} for record in records):
        return "the engine's own ids and times tell them apart"
    if has_times:
        return "their times tell them apart"
    return "each record counts as one, in the order of the file"


def _without_copies(rows: Sequence[_Row], told: Told) -> list[_Row]:
    """Return the records without those that repeat another to the nanosecond."""
    seen: set[tuple[Any, ...]] = set()
    kept = []
    for row in rows:
        r = row.record
        what = (r.vantage, r.name, r.start, r.end, row.tokens, r.prompt_tokens)
        # a client's two sends within a second may read alike
        if r.vantage in {"client", "log"} or r.start is None or r.end is None or what not in seen:
            seen.add(what)
            kept.append(row)
        else:
            assert row.part is not None
            told.copies.setdefault(("requests", row.part), []).append(row.place)
            if r.vantage != "engine":
                told.gone.add((row.source, row.at))
    return kept


def _write(told: Told, row: _Row, name: str, number: int) -> None:
    behind = f"#{number}" if number > 1 else ""
    for part, at, printed in row.lines:
        if behind:
            told.ids.setdefault(("request_events", part), {})[at] = printed + behind
    if row.record.vantage == "log":
        return
    assert row.part is not None
    if row.record.vantage != "engine":
        told.tied[(row.source, row.at)] = name + behind
    elif behind:
        told.ids.setdefault(("requests", row.part), {})[row.at] = row.record.name + behind


def _logged(
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


def _log_row(life: LogLife, lines: Sequence[dict[str, Any]], fits: Fits) -> _Row:
    source = lines[0]["source_id"]
    offset, slack = _clock(fits, source)
    times = [r["at_ns"] + offset for r in lines if r["at_ns"] is not None]
    record = Record(
        vantage="log",
        place=source,
        name="",
        start=min(times, default=None),
        end=max(times, default=None),
        slack=slack + PRINTED_NS,
    )
    where = tuple((r["part"], int(r["place"]), str(r["printed"])) for r in lines)
    return _Row(record, source, 0, None, lines=where)


def _clock(fits: Fits, source: str) -> tuple[int, int]:
    fit = fits.get(source)
    if fit is None or fit.offset_ns is None:
        return 0, UNSURE_NS
    return fit.offset_ns, UNSURE_NS if fit.uncertainty_ns is None else fit.uncertainty_ns


def _log_fits(
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


_RECORDED: Final = ["source_id", "row_ix", "vantage", "request_id", "replica", "sent_at_ns",
                    "arrived_at_ns", "ended_at_ns", "status", "asked_output_tokens",
                    "prompt_tokens", "output_tokens", "e2e_ns"]  # fmt: skip


def _recorded(parts: Sequence[Path], ids: Sequence[str], tied: pl.DataFrame | None) -> pl.DataFrame:
    """Return the records of these ids: `outer` is the id, `part` and `place` where each stands."""
    if not parts:
        return pl.DataFrame(schema=["outer", "vantage", "source_id", "session"])
    wanted = pl.Series(list(ids)).implode()
    links = None
    if tied is not None:
        links = tied.filter(pl.col("request_id").is_in(wanted)).select(
            "source_id", "row_ix", "session", pl.col("request_id").alias("tied")
        )
    frames = []
    for number, part in enumerate(parts):
        rows = pl.scan_parquet(part, row_index_name="place").select(
            *_RECORDED, "place", pl.lit(number).alias("part")
        )
        engine = rows.filter(
            (pl.col("vantage") == "engine") & outer_id(pl.col("request_id")).is_in(wanted)
        ).with_columns(
            pl.lit(None, pl.String).alias("session"), outer_id(pl.col("request_id")).alias("outer")
        )
        frames.append(engine.collect(engine="streaming"))
        if links is not None and links.height:
            beside = rows.filter(pl.col("vantage") != "engine").join(
                links.lazy(), on=["source_id", "row_ix"]
            )
            frames.append(
                beside.rename({"tied": "outer"})
                .collect(engine="streaming")
                .select(frames[-1].columns)
            )
    return pl.concat(frames).sort("part", "place")


def _record_rows(frame: pl.DataFrame, parts: Sequence[Path], fits: Fits) -> dict[str, list[_Row]]:
    found: dict[str, list[_Row]] = {}
    if frame.is_empty():
        return found
    offsets = _client_offsets(frame, fits)
    for row in frame.iter_rows(named=True):
        is_client = row["vantage"] == "client"
        offset, slack = offsets.get((row["source_id"], row["session"]), (None, 0))
        if not is_client:
            offset, slack = _clock(fits, row["source_id"])
        start, end = row["sent_at_ns" if is_client else "arrived_at_ns"], row["ended_at_ns"]
        if end is None and start is not None and row["e2e_ns"] is not None:
            end = start + row["e2e_ns"]
        record = Record(
            vantage=row["vantage"],
            place=(row["source_id"], row["session"] if is_client else row["replica"]),
            name=row["request_id"] if row["vantage"] == "engine" else row["outer"],
            start=None if start is None or offset is None else start + offset,
            end=None if end is None or offset is None else end + offset,
            slack=slack + LATE_NS,
            failed=row["status"] is not None and row["status"] not in _GOOD,
            one_token=1 in (row["asked_output_tokens"], row["output_tokens"]),
            prompt_tokens=None if is_client else row["prompt_tokens"],
        )
        at = row["place"] if row["vantage"] == "engine" else row["row_ix"]
        told = _Row(
            record, row["source_id"], at, parts[row["part"]], row["place"], row["output_tokens"]
        )
        found.setdefault(row["outer"], []).append(told)
    return found


def _client_offsets(
    frame: pl.DataFrame, fits: Fits
) -> dict[tuple[str, str | None], tuple[int | None, int]]:
    """Return for each load session the way of its instants to UTC, and how far that may be off."""
    found: dict[tuple[str, str | None], tuple[int | None, int]] = {}
    engine = frame.filter(pl.col("vantage") == "engine").with_columns(
        pl.col("source_id")
        .replace_strict({s: _clock(fits, s)[0] for s in frame["source_id"].unique()})
        .alias("offset")
    )
    arrivals = engine.select("outer", (pl.col("arrived_at_ns") + pl.col("offset")).alias("utc"))
    clients = frame.filter(pl.col("vantage") == "client")
    for (source, session), rows in clients.group_by(["source_id", "session"], maintain_order=True):
        fit = fits.get(str(source))
        key = (str(source), None if session is None else str(session))
        if fit is not None and fit.offset_ns is not None and fit.uncertainty_ns is not None:
            found[key] = (fit.offset_ns, fit.uncertainty_ns)
            continue
        about = None if fit is None else fit.offset_ns
        pairs = (
            rows.select("outer", "sent_at_ns").drop_nulls().join(arrivals.drop_nulls(), on="outer")
        )
        ahead = (pairs["utc"] - pairs["sent_at_ns"]).to_numpy()
        found[key] = (likely_offset(ahead, about), UNSURE_NS)
    return found
