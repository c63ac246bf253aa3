"""Tying records of one request together across vantages, by id where there is one.

The i-th row of `vllm bench serve`, which is the i-th in order of sending, is the request
`cmpl-<prefix><i>-0` (completions) or `chatcmpl-<prefix><i>` (chat); other clients record
the id they sent. Where no id is shared, equal counts with equal lengths in order of arrival tie
them, with less confidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from trueput.attribution.requests import dating, families
from trueput.source_api import Problem

LINK_COLUMNS: Final = ["source_id", "row_ix", "session", "request_id", "method", "confidence"]
_LENGTHS_AGREE = 0.95
_PLACE = pl.col("row_ix") - pl.col("row_ix").min()
"""Position of a record in its own session: a file may hold several."""
_OWN = pl.coalesce("request_id", "correlation_id")
_SAME_SEND_NS = 1_000_000
"""Sends this near to each other are in the order of the rows: a client numbers before it sends."""
_CORRELATION_PATTERN = r"^(?P<stem>.*?)(?P<row>\d+)$"


def link(
    records: pl.DataFrame,
    engine_ids: pl.DataFrame,
    prefixes: Mapping[tuple[str, str | None], str | None],
    known: dating.Known = dating.NOTHING_KNOWN,
    problems: list[Problem] | None = None,
) -> pl.DataFrame:
    """Return one row per client, router or server record: LINK_COLUMNS.

    `records`: source_id, row_ix, vantage, session, request_id, correlation_id, sent_at_ns,
    prompt_tokens, output_tokens of all vantages but the engine. `engine_ids`: request_id,
    arrived_at_ns, prompt_tokens, output_tokens, one row per request the engine saw. `prefixes`: the
    request-id prefix of each client (source, session), where known. `known`: what tells loads apart
    that fit the same requests; what it does not tell is added to `problems`.
    """
    out = []
    clients = records.filter(pl.col("vantage") == "client")
    loads = {}
    for (source, session), rows in clients.group_by(["source_id", "session"], maintain_order=True):
        key = (str(source), None if session is None else str(session))
        loads[key] = _placed(rows.sort("row_ix").with_columns(_PLACE.alias("place")))
    named = all(_has_ids(rows) for rows in loads.values())
    members = families.in_families(engine_ids.clear() if named else engine_ids)
    chosen = _families(loads, members, prefixes, known, problems)
    for key, ordered in loads.items():
        prefix = prefixes.get(key)
        stem = prefix if prefix is not None else chosen.of.get(key)
        is_of_none = key in chosen.of and stem is None
        mine = members.clear() if is_of_none else members
        theirs = engine_ids.clear() if is_of_none else engine_ids
        out.append(_link_client(ordered, theirs, mine, prefix, stem))
    out = _once_by_order(out, problems)
    client_links = pl.concat(out) if out else None
    others = records.filter(pl.col("vantage") != "client")
    for _, rows in others.group_by(["source_id"], maintain_order=True):
        out.append(_link_server(rows, client_links, clients))
    return pl.concat(out) if out else _empty()


def _placed(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows whose order is not that of their sends with the places of that order.

    A client writes them as it sent them; what orders them otherwise changes nothing.
    """
    sends = rows["sent_at_ns"]
    behind = (sends.cum_max() - sends).max()
    unknown = sends.null_count() or not (sends > 0).all()
    if unknown or not isinstance(behind, int) or behind <= _SAME_SEND_NS:
        return rows
    near = (pl.col("sent_at_ns").diff().fill_null(0) > _SAME_SEND_NS).cum_sum().alias("burst")
    sent = rows.sort("sent_at_ns", "row_ix").with_columns(near).sort("burst", "row_ix")
    return sent.with_columns(rows["place"]).drop("burst").sort("row_ix")


def _empty() -> pl.DataFrame:
    return pl.DataFrame(
        schema={
            "source_id": pl.String,
            "row_ix": pl.Int64,
            "session": pl.String,
            "request_id": pl.String,
            "method": pl.String,
            "confidence": pl.Float64,
        }
    )


def _result(rows: pl.DataFrame, ids: pl.Expr, method: str, confidence: float) -> pl.DataFrame:
    return rows.select(
        "source_id",
        "row_ix",
        "session",
        ids.alias("request_id"),
        pl.lit(method).alias("method"),
        pl.lit(confidence).alias("confidence"),
    )


def _link_client(
    rows: pl.DataFrame,
    engine: pl.DataFrame,
    members: pl.DataFrame,
    prefix: str | None,
    stem: str | None,
) -> pl.DataFrame:
    named = rows.filter(_OWN.is_not_null())
    if named.height:
        # what one record lacks says nothing of the others
        nameless = _result(rows.filter(_OWN.is_null()), _row_name(), "row", 1.0)
        return pl.concat([_by_own_id(named, engine, _OWN), nameless])
    if engine.is_empty():
        if prefix is not None:
            ids = pl.format("cmpl-{}{}-0", pl.lit(prefix), pl.col("place"))
            return _result(rows, ids, "own_id", 1.0)
        return _result(rows, _row_name(), "row", 1.0)
    chosen = _of_stem(rows, members, stem)
    if chosen is not None:
        matched = rows.join(chosen, on="place", how="left")
        made = pl.format("cmpl-{}{}-0", pl.lit(prefix or ""), pl.col("place"))
        unseen = made if prefix is not None else _row_name()
        ids = pl.coalesce("engine_id", unseen)
        return _result(matched, ids, "id" if prefix is not None else "id_prefix", 1.0)
    by_order = _by_order(rows, engine)
    return by_order if by_order is not None else _result(rows, _row_name(), "row", 1.0)


def _row_name() -> pl.Expr:
    """The client's own row as an id; unique in the run through the session's name."""
    session = pl.col("session")
    return (
        pl.when(session.is_null())
        .then(pl.format("row-{}", pl.col("place")))
        .otherwise(pl.format("{}-row-{}", session, pl.col("place")))
    )


def _by_own_id(rows: pl.DataFrame, engine: pl.DataFrame, own: pl.Expr) -> pl.DataFrame:
    """Records with ids of their own: as they are, or inside the engine's `cmpl-<id>-0`."""
    mine = rows.with_columns(own.alias("own"))
    known = engine.select(
        pl.col("request_id").alias("engine_id"),
        pl.col("request_id")
        .str.replace(r"^(?:chat)?cmpl-", "")
        .str.replace(r"-0$", "")
        .alias("own"),
    ).unique("own", keep="first")
    exact = engine.select(pl.col("request_id").alias("own"), pl.lit(True).alias("is_exact"))
    joined = mine.join(known, on="own", how="left").join(exact.unique("own"), on="own", how="left")
    ids = pl.when(pl.col("is_exact")).then("own").otherwise(pl.coalesce("engine_id", "own"))
    return _result(joined, ids, "correlation_id", 1.0)


def _families(
    loads: Mapping[dating.Key, pl.DataFrame],
    members: pl.DataFrame,
    prefixes: Mapping[dating.Key, str | None],
    known: dating.Known,
    problems: list[Problem] | None,
) -> families.Families:
    """Return the families of loads that have neither ids nor a prefix and fit several."""
    nameless = {
        key: rows for key, rows in loads.items() if prefixes.get(key) is None and not _has_ids(rows)
    }
    if not nameless or members.is_empty():
        return families.Families()
    taken = [p for key, p in prefixes.items() if p is not None and key in loads]
    chosen = families.choose(nameless, members, taken, known)
    if problems is not None:
        problems += chosen.problems
    return chosen


def _has_ids(rows: pl.DataFrame) -> bool:
    return bool(rows.select(_OWN.is_not_null().any()).item())


def _of_stem(rows: pl.DataFrame, members: pl.DataFrame, stem: str | None) -> pl.DataFrame | None:
    """Return place -> engine_id for the requests of one stem in the places of these rows."""
    mine = members.filter(pl.col("stem") == stem).join(rows.select("place"), on="place", how="semi")
    return mine.select("place", "engine_id").unique("place", keep="first") if mine.height else None


def _by_order(rows: pl.DataFrame, engine: pl.DataFrame) -> pl.DataFrame | None:
    """Tie the k-th sent to the k-th arrived, when counts and nearly all lengths agree."""
    if rows.height != engine.height or rows["sent_at_ns"].null_count():
        return None
    if engine["arrived_at_ns"].null_count() or engine["prompt_tokens"].null_count():
        return None
    mine, theirs = rows.sort("sent_at_ns"), engine.sort("arrived_at_ns")
    agree = (mine["prompt_tokens"] == theirs["prompt_tokens"]).fill_null(value=False).mean()
    if not isinstance(agree, float) or agree < _LENGTHS_AGREE:
        return None
    tied = mine.with_columns(theirs["request_id"].alias("engine_id"))
    return _result(tied, pl.col("engine_id"), "order_and_lengths", 0.8)


def _once_by_order(links: list[pl.DataFrame], problems: list[Problem] | None) -> list[pl.DataFrame]:
    """Undo ties by order where several loads are tied so: they are tied to the same requests."""
    tied = [rows for rows in links if (rows["method"] == "order_and_lengths").any()]
    if len(tied) < 2:
        return links
    if problems is not None:
        names = sorted(str(rows["session"][0] or rows["source_id"][0]) for rows in tied)
        problems.append(families.untold(names, "come in the order and lengths of their rows"))
    place = pl.col("row_ix") - pl.col("row_ix").min()
    name = pl.format("{}-row-{}", pl.coalesce("session", "source_id"), place)
    return [
        _result(rows, name, "row", 1.0) if any(rows is one for one in tied) else rows
        for rows in links
    ]


def _link_server(
    rows: pl.DataFrame, client_links: pl.DataFrame | None, clients: pl.DataFrame
) -> pl.DataFrame:
    """Tie server and router records to client rows through the correlation id."""
    own = pl.coalesce("correlation_id", "request_id")
    named = rows.with_columns(own.alias("own"))
    fallback = pl.coalesce("own", pl.format("{}#{}", pl.col("source_id"), pl.col("row_ix")))
    if client_links is None or client_links.is_empty():
        return _result(named, fallback, "own_id", 1.0)
    exact = clients.select("source_id", "row_ix", own.alias("own")).drop_nulls("own")
    exact = exact.join(client_links, on=["source_id", "row_ix"]).select(
        "own", pl.col("request_id").alias("client_request"), pl.col("session").alias("of_session")
    )
    joined = named.join(exact.unique("own", keep="first"), on="own", how="left")
    if joined["client_request"].null_count() == joined.height:
        joined = _by_trailing_number(named, client_links, clients)
    tied = pl.col("client_request").is_not_null()
    return joined.select(
        "source_id",
        "row_ix",
        pl.coalesce("of_session", "session").alias("session"),
        pl.coalesce("client_request", fallback).alias("request_id"),
        pl.when(tied).then(pl.lit("correlation_id")).otherwise(pl.lit("own_id")).alias("method"),
        pl.lit(1.0).alias("confidence"),
    )


def _by_trailing_number(
    named: pl.DataFrame, client_links: pl.DataFrame, clients: pl.DataFrame
) -> pl.DataFrame:
    """`bench-<hex>-<row>`: the trailing number is the client's row; needs one client session."""
    sessions = clients.select("source_id", "session").unique()
    none = pl.lit(None, dtype=pl.String)
    if sessions.height != 1:
        return named.with_columns(none.alias("client_request"), none.alias("of_session"))
    parts = named.with_columns(
        pl.col("own").str.extract_groups(_CORRELATION_PATTERN).alias("parts")
    ).unnest("parts")
    stems = parts.drop_nulls("stem").group_by("stem").len().sort(["len", "stem"], descending=True)
    best = stems["stem"][0] if stems.height else ""
    ids = client_links.select(
        pl.col("row_ix").alias("number"),
        pl.col("request_id").alias("client_request"),
        pl.col("session").alias("of_session"),
    )
    number = pl.when(pl.col("stem") == best).then(pl.col("row").cast(pl.Int64, strict=False))
    return parts.with_columns(number.alias("number")).join(ids, on="number", how="left")
