"""Requests of reused ids as records of clients, proxies and the engine tell of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from trueput.attribution.reused.likely_offset import likely_offset
from trueput.attribution.reused.lives import Record
from trueput.attribution.reused.named_twice import outer_id
from trueput.attribution.reused.rows import UNSURE_NS, Fits, ReusedRow, clock_of

LATE_NS: Final = 50_000_000
"""What the clocks of two records may differ by where both are exact."""
_GOOD: Final = ("ok", "finished")
_RECORDED: Final = ["source_id", "row_ix", "vantage", "request_id", "replica", "sent_at_ns",
                    "arrived_at_ns", "ended_at_ns", "status", "asked_output_tokens",
                    "prompt_tokens", "output_tokens", "e2e_ns"]  # fmt: skip


def recorded(parts: Sequence[Path], ids: Sequence[str], tied: pl.DataFrame | None) -> pl.DataFrame:
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


def record_rows(
    frame: pl.DataFrame, parts: Sequence[Path], fits: Fits
) -> dict[str, list[ReusedRow]]:
    """Return the records of `recorded` by reused id, their instants in UTC ns where they can be.

    `fits` are the clocks of files; of a client's load session without one, arrivals tell it.
    """
    found: dict[str, list[ReusedRow]] = {}
    if frame.is_empty():
        return found
    offsets = _client_offsets(frame, fits)
    for row in frame.iter_rows(named=True):
        is_client = row["vantage"] == "client"
        offset, slack = offsets.get((row["source_id"], row["session"]), (None, 0))
        if not is_client:
            offset, slack = clock_of(fits, row["source_id"])
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
        told = ReusedRow(
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
        .replace_strict({s: clock_of(fits, s)[0] for s in frame["source_id"].unique()})
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
