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

LINK_COLUMNS: Final = ["source_id", "row_ix", "session", "request_id", "method", "confidence"]
_LENGTHS_AGREE = 0.95
_PLACE = pl.col("row_ix") - pl.col("row_ix").min()
"""Position of a record in its own session: a file may hold several."""
_SAME_SEND_NS = 1_000_000
"""Sends this near to each other are in the order of the rows: a client numbers before it sends."""
_ID_PATTERN = r"^(?:chat)?cmpl-(?P<stem>.*?)(?P<row>\d+)(?:-0)?$"
_CORRELATION_PATTERN = r"^(?P<stem>.*?)(?P<row>\d+)$"


def link(
    records: pl.DataFrame,
    engine_ids: pl.DataFrame,
    prefixes: Mapping[tuple[str, str | None], str | None],
) -> pl.DataFrame:
    """Return one row per client, router or server record: LINK_COLUMNS.

    `records`: source_id, row_ix, vantage, session, request_id, correlation_id, sent_at_ns,
    prompt_tokens, output_tokens of all vantages but the engine. `engine_ids`: request_id,
    arrived_at_ns, prompt_tokens, output_tokens, one row per request the engine saw. `prefixes`: the
    request-id prefix of each client (source, session), where known.
    """
    out = []
    clients = records.filter(pl.col("vantage") == "client")
    for (source, session), rows in clients.group_by(["source_id", "session"], maintain_order=True):
        key = (str(source), None if session is None else str(session))
        ordered = _placed(rows.sort("row_ix").with_columns(_PLACE.alias("place")))
        out.append(_link_client(ordered, engine_ids, prefixes.get(key)))
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


def _link_client(rows: pl.DataFrame, engine: pl.DataFrame, prefix: str | None) -> pl.DataFrame:
    own = pl.coalesce("request_id", "correlation_id")
    named = rows.filter(own.is_not_null())
    if named.height:
        # what one record lacks says nothing of the others
        nameless = _result(rows.filter(own.is_null()), _row_name(), "row", 1.0)
        return pl.concat([_by_own_id(named, engine, own), nameless])
    if engine.is_empty():
        if prefix is not None:
            ids = pl.format("cmpl-{}{}-0", pl.lit(prefix), pl.col("place"))
            return _result(rows, ids, "own_id", 1.0)
        return _result(rows, _row_name(), "row", 1.0)
    chosen = _best_stem(rows, engine, prefix)
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


def _best_stem(rows: pl.DataFrame, engine: pl.DataFrame, prefix: str | None) -> pl.DataFrame | None:
    """Return place -> engine_id for the family of engine ids that fits the client best."""
    parts = engine.with_columns(
        pl.col("request_id").str.extract_groups(_ID_PATTERN).alias("parts")
    ).unnest("parts")
    parts = parts.filter(pl.col("row").is_not_null() & (pl.col("row").str.len_chars() < 12))
    parts = parts.select(
        "stem",
        pl.col("row").cast(pl.Int64).alias("place"),
        pl.col("request_id").alias("engine_id"),
        pl.col("prompt_tokens").alias("engine_prompt"),
    )
    if prefix is not None:
        parts = parts.filter(pl.col("stem") == prefix)
    joined = parts.join(rows.select("place", "prompt_tokens"), on="place", how="inner")
    if joined.is_empty():
        return None
    same = (pl.col("engine_prompt") == pl.col("prompt_tokens")).fill_null(True)
    score = joined.group_by("stem").agg(pl.len().alias("n"), same.mean().alias("agree"))
    score = score.sort(["n", "stem"], descending=[True, False])
    for stem, n, agree in score.iter_rows():
        enough = prefix is not None or (n >= 0.5 * rows.height and agree >= _LENGTHS_AGREE)
        if enough:
            family = joined.filter(pl.col("stem") == stem)
            return family.select("place", "engine_id").unique("place", keep="first")
    return None


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
