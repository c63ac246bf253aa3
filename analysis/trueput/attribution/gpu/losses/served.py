"""The requests of each record of a run, with what the accounts of tokens need of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from trueput.attribution.gpu.losses.unmade_tokens import SAME_HOST_NS, Served
from trueput.attribution.gpu.time.clock import SLACK_NS

MAX_REQUESTS: Final = 2_000_000
"""Of records of more nothing is said."""
_NEVER: Final = 1 << 60
_COUNTED: Final = ("engine_usage", "client_usage", "chunks")
_COLUMNS: Final = (
    "source_id", "vantage", "sent_at_ns", "arrived_at_ns", "first_token_at_ns",
    "last_token_at_ns", "ended_at_ns", "output_tokens", "output_tokens_source", "queue_ns",
    "kv_transfer_ns",
)  # fmt: skip


def served(parts: Sequence[Path], uncertain_ns: Mapping[str, int]) -> list[Served]:
    """Return the requests of each record that dates them, from parts of `requests` in UTC.

    `uncertain_ns` holds the files whose instants are known in UTC, and to how much.
    """
    rows = pl.scan_parquet(list(parts))
    if rows.select(pl.len()).collect().item() > MAX_REQUESTS:
        return []
    chunks = pl.col("gaps_ns").list.len().cast(pl.Int64) + 1
    # rows without an id are told apart by their place
    named = pl.coalesce("request_id", pl.format("row {}", "row_ix")).alias("request_id")
    table = rows.select(named, *_COLUMNS, chunks.alias("chunks")).collect(engine="streaming")
    if table["kv_transfer_ns"].count():
        return []  # another engine may have made the first token
    streamed = table.filter(pl.col("vantage") == "client").group_by("request_id").agg(
        pl.col("chunks").max().alias("streamed")
    )  # fmt: skip
    found = []
    for (source, vantage), mine in table.group_by(["source_id", "vantage"], maintain_order=True):
        uncertain = uncertain_ns.get(str(source), _NEVER)
        if vantage not in ("client", "engine") or uncertain > SAME_HOST_NS:
            continue
        one = mine.unique("request_id", keep="first", maintain_order=True)
        one = one.join(streamed, on="request_id", how="left", maintain_order="left")
        found.append(_of_record(one, SAME_HOST_NS + uncertain, is_client=vantage == "client"))
    return [f for f in found if f.tokens.any()]


def _of_record(rows: pl.DataFrame, near_ns: int, *, is_client: bool) -> Served:
    """Return the requests of one record that are dated from their begin to their end."""
    begin = pl.col("sent_at_ns") if is_client else pl.col("arrived_at_ns")
    last = pl.coalesce("last_token_at_ns", "ended_at_ns")
    counted = pl.when(pl.col("output_tokens_source").is_in(_COUNTED)).then("output_tokens")
    chunks = pl.when(pl.col("first_token_at_ns").is_not_null()).then("streamed")
    dated = rows.select(
        begin=begin if is_client else begin + pl.col("queue_ns").fill_null(0).clip(0),
        first=pl.coalesce("first_token_at_ns", last),
        last=last,
        tokens=pl.min_horizontal(counted, chunks).fill_null(0).clip(0),
    ).drop_nulls()
    # a record that puts an end before its begin tells nothing of the request
    dated = dated.filter((pl.col("begin") <= pl.col("first")) & (pl.col("first") <= pl.col("last")))
    begin_ns, first_ns, last_ns, tokens = (
        dated[name].cast(pl.Int64).to_numpy() for name in dated.columns
    )
    apart_ns = SLACK_NS if is_client else 0
    return Served(begin_ns, first_ns, last_ns, tokens, near_ns, apart_ns)
