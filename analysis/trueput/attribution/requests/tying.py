"""A run's request records -> what ties them together, and the clocks that they prove."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl

from trueput.arrow import arrow_schema
from trueput.attribution import clocks
from trueput.attribution.requests import dating, links
from trueput.attribution.reused import apart as reuse
from trueput.attribution.reused import named_twice
from trueput.attribution.reused.told import Told
from trueput.attribution.run_io import RunInput, RunOutput
from trueput.attribution.sessions import Sessions
from trueput.clock import ClockFit, ClockKind
from trueput.source_api import Problem, Severity

MAX_RECORDS = 3_000_000
"""More request records than this are linked by their own ids only."""
_RECORD_COLUMNS = [
    "source_id", "row_ix", "vantage", "session", "request_id", "correlation_id", "traffic",
    "sent_at_ns", "arrived_at_ns", "ended_at_ns", "prompt_tokens", "output_tokens",
]  # fmt: skip


def scan(parts: Mapping[str, Sequence[Path]], table: str) -> pl.LazyFrame:
    """Return a lazy frame over a table's parts; empty and typed without parts."""
    files = list(parts.get(table, ()))
    if files:
        return pl.scan_parquet(files)
    empty = pl.from_arrow(arrow_schema(table).empty_table())
    assert isinstance(empty, pl.DataFrame)
    return empty.lazy()


def records_of(run: RunInput) -> pl.DataFrame:
    """Return the records of all vantages, without a session yet."""
    return scan(run.parts, "requests").select(_RECORD_COLUMNS).collect(engine="streaming")


def client_files(records: pl.DataFrame) -> list[str]:
    """Return the files that hold client records, in order."""
    clients = records.filter(pl.col("vantage") == "client")
    return clients["source_id"].unique().sort().to_list()


Write = Callable[[Told], None]
"""Writes into the parts what tells requests of one id apart."""


def tie(
    run: RunInput, records: pl.DataFrame, out: RunOutput, write: Write | None = None
) -> pl.DataFrame:
    """Add request_links and the clock fits to `out`; return the ties.

    Ids that name several requests are told apart where `write` can put that into the parts.
    """
    records = _with_session(records, out.sessions)
    # without records there is nothing to tie, and a long log names many requests
    engine = _engine_ids(run.parts if records.height else {})
    prefixes = {
        (r["source_id"], r["session"]): r.get("request_id_prefix") for r in out.sessions.rows
    }
    tied = links.link(
        records.filter(pl.col("vantage") != "engine"), engine, prefixes,
        _known(run, out.sessions), out.problems,
    )  # fmt: skip
    told = _told_apart(run, records, tied, out.sessions) if write is not None else None
    if told is not None and write is not None:
        write(told)
        out.problems += told.problems
        tied = told.applied(tied)
        records = _with_session(records_of(run), out.sessions)
        engine = _engine_ids(run.parts)
    out.rows["request_links"] = tied.with_columns(pl.lit(run.run_id).alias("run_id"))
    out.clock_fits = _fit_clocks(run, records, tied, out.sessions)
    _count_unmatched(tied, engine, records, out)
    return tied


def _known(run: RunInput, sessions: Sessions) -> dating.Known:
    """Return what dates the loads of a run and the engine's requests."""
    ended = {(r["source_id"], r["session"]): r.get("ended_local_at_ns") for r in sessions.rows}
    return dating.Known(run.parts, run.clocks, run.anchors, run.timezone, ended)


def _told_apart(
    run: RunInput, records: pl.DataFrame, tied: pl.DataFrame, sessions: Sessions
) -> Told | None:
    """Return what tells the requests of reused ids apart, by the clocks that the others prove."""
    ids = named_twice.reused_ids(run.parts, tied)
    if not ids:
        return None

    def fit(counts: reuse.Counts) -> Mapping[str, ClockFit]:
        outer = named_twice.outer_id(pl.col("request_id"))
        again = outer.is_in(ids).fill_null(value=False)
        others = records.filter((pl.col("vantage") != "engine") | ~again)
        # printed times are fitted to a quarter of an hour: the first of as many is the same request
        alike = [n for n in ids if counts.recorded.get(n) == counts.logged.get(n)]
        first = records.filter((pl.col("vantage") == "engine") & outer.is_in(alike))
        first = first.sort("arrived_at_ns").unique("request_id", keep="first", maintain_order=True)
        return _fit_clocks(run, pl.concat([others, first]), tied.filter(~again), sessions)

    return reuse.tell_apart(run.parts, ids, tied, fit)


def _with_session(records: pl.DataFrame, sessions: Sessions) -> pl.DataFrame:
    """Give each client record the session of its file, or of its part of the file."""
    names = [
        (r["source_id"], (r["session"] or "").rpartition("#")[2] or None, r["session"])
        for r in sessions.rows
    ]
    inner = pl.DataFrame(
        {
            "source_id": [n[0] for n in names],
            "session": [n[1] for n in names],
            "named": [n[2] for n in names],
        },
        schema={"source_id": pl.String, "session": pl.String, "named": pl.String},
    )
    by_part = records.join(inner, on=["source_id", "session"], how="left", maintain_order="left")
    of_file = pl.DataFrame(
        {"source_id": list(sessions.of_source), "of_file": list(sessions.of_source.values())},
        schema={"source_id": pl.String, "of_file": pl.String},
    )
    joined = by_part.join(of_file, on="source_id", how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("named", "of_file").alias("session")).drop(
        "named", "of_file"
    )


def _engine_ids(parts: Mapping[str, Sequence[Path]]) -> pl.DataFrame:
    """One row per request that the engine saw, by external id."""
    spans = scan(parts, "requests").filter(pl.col("vantage") == "engine")
    seen = spans.select("request_id", "arrived_at_ns", "prompt_tokens", "output_tokens")
    events = scan(parts, "request_events").filter(pl.col("request_id").is_not_null())
    logged = events.filter(pl.col("event").is_in(["received", "added", "queued"])).select(
        "request_id",
        pl.lit(None, dtype=pl.Int64).alias("arrived_at_ns"),
        "prompt_tokens",
        pl.lit(None, dtype=pl.Int64).alias("output_tokens"),
    )
    both = pl.concat([seen, logged]).drop_nulls("request_id")
    both = both.filter(~pl.col("request_id").str.starts_with("tokenize-"))
    return both.group_by("request_id").agg(pl.all().max()).sort("request_id").collect()


def _count_unmatched(
    tied: pl.DataFrame, engine: pl.DataFrame, records: pl.DataFrame, out: RunOutput
) -> None:
    if engine.is_empty() or tied.is_empty():
        return
    client = records.filter(pl.col("vantage") == "client").select("source_id", "row_ix")
    mine = tied.join(client, on=["source_id", "row_ix"], how="semi")
    lost = mine.join(engine, on="request_id", how="anti").height
    if lost:
        text = f"{lost} of {mine.height} client rows match no engine record"
        out.problems.append(Problem("ATTR001", Severity.INFO, text, count=lost))


def _fit_clocks(
    run: RunInput, records: pl.DataFrame, tied: pl.DataFrame, sessions: Sessions
) -> dict[str, ClockFit]:
    known: dict[str, clocks.ClockFacts] = {}
    spans = records.filter((pl.col("vantage") == "engine") & pl.col("arrived_at_ns").is_not_null())
    utc = {s for s, c in run.clocks.items() if c.kind is ClockKind.UTC}
    arrivals = spans.filter(pl.col("source_id").is_in(list(utc))).select(
        "request_id", pl.col("arrived_at_ns").alias("utc")
    )
    ended = {r["source_id"]: r.get("ended_local_at_ns") for r in sessions.rows}
    for source, clock in run.clocks.items():
        mine = records.filter(pl.col("source_id") == source)
        pairs = last = None
        if clock.kind is ClockKind.LOCAL:
            pairs = _log_pairs(run.parts, source, arrivals)
        elif clock.kind in {ClockKind.MONOTONIC, ClockKind.RELATIVE}:
            pairs = _send_pairs(mine, tied, arrivals)
            last = mine.select(pl.max_horizontal("ended_at_ns", "sent_at_ns").max()).item()
        known[source] = clocks.ClockFacts(clock, pairs, last, ended.get(source))
    first = clocks.align_all(known, run.anchors, run.timezone)
    return _second_round(run, records, tied, known, first)


def _second_round(
    run: RunInput,
    records: pl.DataFrame,
    tied: pl.DataFrame,
    known: dict[str, clocks.ClockFacts],
    first: dict[str, ClockFit],
) -> dict[str, ClockFit]:
    """Where the engine left only a log: fit its wall clock to a client that reached UTC."""
    unsure = [
        s
        for s, c in run.clocks.items()
        if c.kind is ClockKind.LOCAL and first[s].uncertainty_ns is None
    ]
    if not unsure:
        return first
    sends = []
    for source, fitted in first.items():
        sure = fitted.offset_ns is not None and fitted.uncertainty_ns is not None
        if sure and source not in unsure:
            rows = records.filter(
                (pl.col("source_id") == source) & (pl.col("vantage") == "client")
            ).join(tied.select("source_id", "row_ix", pl.col("request_id").alias("tied")),
                   on=["source_id", "row_ix"])  # fmt: skip
            sends.append(
                rows.select(
                    pl.col("tied").alias("request_id"),
                    (pl.col("sent_at_ns") + fitted.offset_ns).alias("utc"),
                )
            )
    if not sends:
        return first
    arrivals = pl.concat(sends).drop_nulls()
    for source in unsure:
        pairs = _log_pairs(run.parts, source, arrivals)
        facts = clocks.ClockFacts(known[source].clock, pairs)
        first[source] = clocks.fit(facts, run.anchors, run.timezone)
    return first


def _log_pairs(
    parts: Mapping[str, Sequence[Path]], source: str, arrivals: pl.DataFrame
) -> clocks.Pairs | None:
    if arrivals.is_empty():
        return None
    events = scan(parts, "request_events").filter(
        (pl.col("source_id") == source)
        & pl.col("event").is_in(["received", "added"])
        & pl.col("request_id").is_not_null()
        & pl.col("at_ns").is_not_null()
    )
    seen = events.group_by("request_id").agg(pl.col("at_ns").min()).head(MAX_RECORDS).collect()
    joined = seen.join(arrivals, on="request_id")
    if joined.is_empty():
        return None
    return clocks.Pairs(joined["at_ns"].to_numpy(), joined["utc"].to_numpy())


def _send_pairs(
    mine: pl.DataFrame, tied: pl.DataFrame, arrivals: pl.DataFrame
) -> clocks.Pairs | None:
    named = mine.drop("request_id").join(
        tied.select("source_id", "row_ix", "request_id"), on=["source_id", "row_ix"]
    )
    at = pl.coalesce("sent_at_ns", "arrived_at_ns").alias("mine")
    joined = named.select("request_id", at).drop_nulls().join(arrivals, on="request_id")
    if joined.is_empty():
        return None
    return clocks.Pairs(joined["mine"].to_numpy(), joined["utc"].to_numpy())
