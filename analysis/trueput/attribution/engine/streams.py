"""What the records of a run's clients and of its engine say of its requests: `Stream`s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from trueput.attribution.engine.record import EngineRecord, Parts, Row
from trueput.attribution.records import Stream

_LEFT = frozenset(["aborted", "cancelled", "timeout", "stream_error", "engine_lost", "failed"])
"""As clients say it: the engine may have given such a request more than they received."""
_COMING = ["received", "added"]
_NEVER_IN = frozenset(["refused", "not_sent"])


def streams_of(record: EngineRecord) -> list[Stream]:
    """Every request of the run, client and engine side together.

    None without any record of requests: log lines alone give neither lengths nor arrivals, so
    nothing can be replayed or counted with them.
    """
    requests = scan_of(record.parts, "requests")
    tied = record.tied
    if requests is None or tied is None:
        return []
    engine = _engine_side(record)
    client: dict[str, Row] = {}
    rows = requests.filter(pl.col("vantage") == "client").select(
        "source_id", "row_ix", "prompt_tokens", "output_tokens", "asked_output_tokens",
        "sent_at_ns", "first_token_at_ns", "ended_at_ns", "gaps_ns", "status",
    ).collect()  # fmt: skip
    named = rows.join(tied.select("source_id", "row_ix", "request_id"), on=["source_id", "row_ix"])
    for row in named.iter_rows(named=True):
        offset = record.offset(row["source_id"])
        for name in ("sent_at_ns", "first_token_at_ns", "ended_at_ns"):
            row[name] = row[name] + offset if row[name] is not None else None
        client[row["request_id"]] = row
    aborted = aborted_of(record)
    names = sorted({*engine, *_unrecorded(record, client)} if engine else _sent(client))
    return [_stream(n, client.get(n, {}), engine.get(n, {}), aborted) for n in names]


def _sent(client: Mapping[str, Row]) -> set[str]:
    return {name for name, row in client.items() if row["status"] not in _NEVER_IN}


def _unrecorded(record: EngineRecord, client: Mapping[str, Row]) -> set[str]:
    """Requests that left, where an engine says nothing of those that come: only of who finished."""
    events = scan_of(record.parts, "request_events")
    came = None if events is None else events.filter(pl.col("event").is_in(_COMING)).head(1)
    if came is not None and came.collect().height:
        return set()
    return {name for name, row in client.items() if row["status"] in _LEFT}


def _engine_side(record: EngineRecord) -> dict[str, Row]:
    found: dict[str, Row] = {}
    requests = scan_of(record.parts, "requests")
    if requests is not None:
        spans = requests.filter(pl.col("vantage") == "engine").select(
            "source_id", "request_id", "prompt_tokens", "cached_prompt_tokens", "output_tokens",
            "asked_output_tokens", "arrived_at_ns", "queue_ns", "prefill_ns", "decode_ns", "e2e_ns",
        )  # fmt: skip
        for row in spans.collect().iter_rows(named=True):
            if row["request_id"] is None:
                continue
            if row["arrived_at_ns"] is not None:
                row["arrived_at_ns"] += record.offset(row["source_id"])
            found[row["request_id"]] = row
    events = scan_of(record.parts, "request_events")
    if events is not None:
        seen = events.filter(
            pl.col("event").is_in(_COMING)
            & pl.col("request_id").is_not_null()
            & ~pl.col("request_id").str.starts_with("tokenize-")
        )
        limits = seen.group_by("request_id").agg(
            pl.col("max_tokens").max(), pl.col("prompt_tokens").max()
        )
        for name, max_tokens, prompt in limits.collect().iter_rows():
            row = found.setdefault(name, {})
            if row.get("asked_output_tokens") is None:
                row["asked_output_tokens"] = max_tokens
            if row.get("prompt_tokens") is None:
                row["prompt_tokens"] = prompt
    return found


def _first(*values: Any) -> Any:
    return next((v for v in values if v is not None), None)


def _stream(name: str, client: Row, engine: Row, aborted: Mapping[str, int | None]) -> Stream:
    gaps = client.get("gaps_ns")
    # a log may not say who was aborted; the engine's own record of an end outranks the client
    left = client.get("status") in _LEFT and engine.get("output_tokens") is None
    output = _first(engine.get("output_tokens"), client.get("output_tokens"))
    return Stream(
        request_id=name,
        prompt_tokens=_first(engine.get("prompt_tokens"), client.get("prompt_tokens")),
        cached_prompt_tokens=engine.get("cached_prompt_tokens"),
        output_tokens=output,
        asked_output_tokens=_first(
            client.get("asked_output_tokens"), engine.get("asked_output_tokens")
        ),
        sent_at_ns=client.get("sent_at_ns"),
        first_token_at_ns=client.get("first_token_at_ns"),
        ended_at_ns=client.get("ended_at_ns"),
        gaps_ns=np.asarray(gaps, np.int64) if gaps else None,
        arrived_at_ns=engine.get("arrived_at_ns"),
        queue_ns=engine.get("queue_ns"),
        prefill_ns=engine.get("prefill_ns"),
        decode_ns=engine.get("decode_ns"),
        e2e_ns=engine.get("e2e_ns"),
        aborted=left or name in aborted,
        aborted_at_ns=aborted.get(name),
    )


def aborted_of(record: EngineRecord) -> dict[str, int | None]:
    """Requests that the engine says were aborted -> when it said so first."""
    events = scan_of(record.parts, "request_events")
    if events is None:
        return {}
    key = pl.coalesce("request_id", pl.col("engine_request_id").str.replace(r"-[0-9a-f]{8}$", ""))
    found = events.filter(pl.col("event") == "aborted").select(key, "source_id", "at_ns").collect()
    said: dict[str, int | None] = {}
    for name, source, at in found.iter_rows():
        if name is None:
            continue
        when = None if at is None else at + record.offset(source)
        before = said.get(name)
        said[name] = min((x for x in (when, before) if x is not None), default=None)
    return said


def scan_of(parts: Parts, table: str) -> pl.LazyFrame | None:
    files = list(parts.get(table, ()))
    return pl.scan_parquet(files) if files else None
