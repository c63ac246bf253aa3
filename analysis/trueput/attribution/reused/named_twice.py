"""Ids of requests that a log or records name more than once; they may name several requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

Parts = Mapping[str, Sequence[Path]]

_CHILD: Final = r"^\d+_((?:chat)?cmpl-)"
_COMES: Final = ("added", "received")
_NONE: Final = np.zeros(0, np.uint64)
_OTHER: Final = "tokenize-"


def outer_id(name: pl.Expr) -> pl.Expr:
    """Return the id that a client knows: replies to one request are folded into it."""
    return name.str.replace(_CHILD, "${1}")


def reused_ids(parts: Parts, tied: pl.DataFrame | None) -> list[str]:
    """Return the ids that some place names more than once, in order."""
    found = _printed_twice(parts.get("request_events", ()))
    found |= _recorded_twice(parts.get("requests", ()))
    if tied is not None and tied.height:
        # a load session at a time has each id once; two sessions may not share one
        again = tied.filter(pl.struct("source_id", "request_id").is_duplicated())
        found |= set(again["request_id"].to_list())
        sessions = tied.filter(pl.col("session").is_not_null())
        named = sessions.group_by("request_id").agg(pl.col("session").n_unique().alias("n"))
        found |= set(named.filter(pl.col("n") > 1)["request_id"].to_list())
    return sorted(n for n in found if n is not None and not n.startswith(_OTHER))


def _printed_twice(parts: Sequence[Path]) -> set[str]:
    """Return the ids that logs say twice came to the engine.

    By a hash of each id first: of a long record no more is held.
    """
    found: set[str] = set()
    for word in _COMES:
        hashes = np.concatenate([_NONE, *(_hashed(names) for names in _named_by(parts, word))])
        hashes.sort()
        twice = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
        if twice.size:
            for names in _named_by(parts, word):
                again = names.filter(np.isin(_hashed(names), twice))
                found |= set(again.to_frame("id").select(outer_id(pl.col("id")))["id"].to_list())
        if hashes.size:
            break  # an engine's log has both lines of every request, or one kind of them
    return found


def _hashed(names: pl.Series) -> NDArray[np.uint64]:
    return names.hash().to_numpy()


def _named_by(parts: Sequence[Path], word: str) -> Iterator[pl.Series]:
    """Yield the ids in events of one kind, some rows at a time."""
    for part in parts:
        with pq.ParquetFile(part, read_dictionary=["event"], pre_buffer=False) as file:
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group, ["event", "request_id"], use_threads=False)
                said: Any = rows["event"].unify_dictionaries().combine_chunks()
                code = pa.scalar(said.dictionary.index(word).as_py(), pa.int32())
                mine = rows["request_id"].filter(pc.equal(said.indices, code))
                yield pl.Series(values=mine.drop_null(), dtype=pl.String)


def _recorded_twice(parts: Sequence[Path]) -> set[str]:
    if not parts:
        return set()
    mine = pl.scan_parquet(list(parts)).filter(
        (pl.col("vantage") == "engine") & pl.col("request_id").is_not_null()
    )
    names = mine.select("request_id").collect(engine="streaming")
    twice = names.filter(pl.col("request_id").is_duplicated())
    return set(twice.select(outer_id(pl.col("request_id")).unique())["request_id"].to_list())
