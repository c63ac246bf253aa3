"""Events of requests -> one row per request: when it came, began, ended, and what was said of it.

Every question about requests needs these instants, and to group the events by ids of forty
characters was a third of its cost. Here it is done once. Requests are told apart by the codes of
their ids, so that each instant is one look-up in an array. Of a very long record no more is held
than the events of requests that more is still to come of, and a hash for each request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

AT_ONCE: Final = 1_000_000
"""More events than this are grouped batch by batch, at twice the cost; of these 150 MB are held."""
_WORDS: Final = ["event", "detail"]
_IDS: Final = ["event", "request_id"]
_COLUMNS: Final = ["event", "at_ns", "request_id", "engine_request_id", "max_tokens",
                   "prompt_tokens", "detail"]  # fmt: skip
_CHILD: Final = r"^\d+_((?:chat)?cmpl-)"
"""Before the id of each of the n > 1 replies to one request, which a client knows as one."""
_SUFFIX: Final = r"-[0-9a-f]{8}$"
"""After the external id, in an internal one."""
_OTHER: Final = "tokenize-"
"""The bench client asks /tokenize once: no generation request."""

_ARRIVALS: Final = ("received", "added", "queued")
_ENDS: Final = ("finished", "aborted", "failed")
_FIRST: Final = {
    "arrived_at_ns": _ARRIVALS,
    "queued_at_ns": ("queued",),
    "scheduled_at_ns": ("scheduled",),
    "first_token_at_ns": ("first_token",),
}
_LAST: Final = {"ended_at_ns": _ENDS, "finished_at_ns": ("finished",)}
_SAID: Final = {
    "was_received": ("received",),
    "was_admitted": ("added", "queued", "scheduled"),
    "was_aborted": ("aborted",),
    "was_failed": ("failed",),
    "was_finished": ("finished",),
}
_INT64: Final = np.iinfo(np.int64)
_NO: Final = np.zeros(1, np.bool_)
_NO_ROWS: Final = np.zeros(0, np.int64)

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def request_instants(run_id: str, parts: Sequence[Path]) -> Iterator[pa.Table]:
    """Yield the rows of `request_instants` of one run; no request is in two of the tables.

    `parts`: of `request_events`, on one clock.
    """
    for events in _whole_requests(parts):
        rows = _instants(events)
        if rows.num_rows:
            yield rows.append_column("run_id", pa.repeat(pa.scalar(run_id), rows.num_rows))


def _whole_requests(parts: Sequence[Path]) -> Iterator[pa.Table]:
    """Yield events in groups, each with all events of the requests that its `key` names.

    Batch by batch, each with what is left of those before it of requests that more is to come of.
    """
    count = sum(pq.read_metadata(path).num_rows for path in parts)
    last = _Last(parts) if count > AT_ONCE else None
    held: list[pa.Table] = []
    for number, batch in enumerate(_batches(parts, _COLUMNS)):
        held.append(batch)
        if last is not None:
            events = pa.concat_tables(held)
            more = last.is_after(number, events["key"])
            held = [events.filter(pa.array(more))] if more.any() else []
            yield _without(events, more) if held else events
    if held:
        yield pa.concat_tables(held)


class _Last:
    """In which batch the last event of each request is, of requests with events in several.

    Told by 44 bits of a hash of the id, with the batch in the others. Of two ids with the same hash
    one may seem to last longer than it does, which costs room and changes nothing.
    """

    _BITS: Final = np.uint64(20)
    _IN_BATCH: Final = (np.uint64(1) << _BITS) - np.uint64(1)

    def __init__(self, parts: Sequence[Path]) -> None:
        found = []
        for number, events in enumerate(_batches(parts, _IDS)):
            hashes = np.sort(_hashed(events["key"].drop_null()) << self._BITS)
            is_again = np.concatenate([_NO, hashes[1:] == hashes[:-1]])[: hashes.size]
            found.append(hashes[~is_again] | np.uint64(number))
        every = np.concatenate(found)
        every.sort()
        hashes, batch = every >> self._BITS, (every & self._IN_BATCH).astype(np.int64)
        same = np.concatenate([_NO, hashes[1:] == hashes[:-1], _NO])
        before, after = same[: hashes.size], same[1:][: hashes.size]
        is_first, is_last = after & ~before, before & ~after
        self._hashes, self._batch = hashes[is_last], batch[is_last]
        opened = np.bincount(batch[is_first], minlength=len(found))
        self._open = np.cumsum(opened - np.bincount(self._batch, minlength=len(found)))

    def is_after(self, number: int, keys: Any) -> Mask:
        """Return for each of these requests whether an event of it is in a later batch."""
        if not self._open[number]:
            return np.zeros(len(keys), np.bool_)
        mine = (_hashed(keys) << self._BITS) >> self._BITS
        at = np.minimum(np.searchsorted(self._hashes, mine), self._hashes.size - 1)
        later: Mask = (self._hashes[at] == mine) & (self._batch[at] > number)
        later &= keys.is_valid().combine_chunks().to_numpy(zero_copy_only=False)
        return later


def _hashed(keys: Any) -> NDArray[np.uint64]:
    series = pl.from_arrow(keys)
    assert isinstance(series, pl.Series)
    return series.hash().to_numpy()


def _batches(parts: Sequence[Path], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield events by row group, with the id a client can know, NULL without one, as `key`."""
    for path in parts:
        # buffers that are filled ahead are held until the end
        with pq.ParquetFile(path, read_dictionary=_WORDS, pre_buffer=False) as file:
            for group in range(file.num_row_groups):
                events = file.read_row_group(group, list(columns), use_threads=False)
                answers = _is(events["event"], "responded")
                key = events["request_id"]
                if pc.any(pc.and_not(key.is_null(), answers)).as_py():
                    inner = file.read_row_group(group, ["engine_request_id"], use_threads=False)
                    key = pc.coalesce(key, pc.replace_substring_regex(inner[0], _SUFFIX, ""))
                keyed = events.drop_columns(["request_id"]).append_column("key", _outer(key))
                # an access line names no request
                if pc.any(pc.and_(key.is_valid(), answers)).as_py():
                    keyed = _without(keyed, answers)
                yield keyed


def _is(words: Any, word: str) -> Any:
    """Return where a column of words is this one, as one chunk."""
    coded = words.unify_dictionaries().combine_chunks()
    return pc.equal(coded.indices, pa.scalar(coded.dictionary.index(word).as_py(), pa.int32()))


def _outer(ids: Any) -> Any:
    """Return the id a client can know: replies to one request are folded into it."""
    could = pc.and_(pc.greater_equal(ids, pa.scalar("0")), pc.less(ids, pa.scalar(":")))
    return pc.replace_substring_regex(ids, _CHILD, r"\1") if pc.any(could).as_py() else ids


def _without(events: pa.Table, which: Any) -> pa.Table:
    """Return the events with those `which` is true of naming no request."""
    key = pc.if_else(pa.chunked_array([which]), pa.scalar(None, pa.string()), events["key"])
    return events.drop_columns(["key"]).append_column("key", key)


class _Kind:
    """The events of one kind: the requests they tell of, as codes, and when they were."""

    def __init__(self, rows: Ints, code: Ints, at_ns: Ints, timed: Mask | None) -> None:
        rows = rows[code[rows] >= 0]
        self.rows, self.code = rows, code[rows]
        known = rows if timed is None else rows[timed[rows]]
        self.timed_code, self.at_ns = code[known], at_ns[known]


def _instants(events: pa.Table) -> pa.Table:
    """Return one row per `key`."""
    coded: Any = events["key"].combine_chunks().dictionary_encode()
    code, names = coded.indices.fill_null(-1).to_numpy(), coded.dictionary
    count = len(names)
    word: Any = events["event"].unify_dictionaries().combine_chunks()
    kind = word.indices.to_numpy()
    at_ns, timed = _numbers(events["at_ns"])
    kinds = {
        name: _Kind(np.flatnonzero(kind == n), code, at_ns, timed)
        for n, name in enumerate(word.dictionary.to_pylist())
    }
    columns: dict[str, Any] = {"request_id": names}
    for wanted, first in ((_FIRST, True), (_LAST, False)):
        for name, of in wanted.items():
            told = [(kinds[k].timed_code, kinds[k].at_ns) for k in of if k in kinds]
            columns[name] = _extreme(told, count, first=first)
    for name, of in _SAID.items():
        said = np.zeros(count, np.bool_)
        for k in of:
            if k in kinds:
                said[kinds[k].code] = True
        columns[name] = pa.array(said)
    if "preempted" in kinds:
        preempted = np.bincount(kinds["preempted"].code, minlength=count).astype(np.int64)
        columns["preempted_events"] = pa.array(preempted, mask=preempted == 0)
    for name, printed in (
        ("asked_output_tokens", "max_tokens"),
        ("prompt_tokens", "prompt_tokens"),
    ):
        values, there = _numbers(events[printed])
        rows = np.flatnonzero(code >= 0 if there is None else there & (code >= 0))
        columns[name] = _extreme([(code[rows], values[rows])], count, first=False)
    columns["engine_request_id"] = _inner_ids(code, events, names)
    finished = kinds["finished"].rows if "finished" in kinds else _NO_ROWS
    columns["finish_reason"] = _greatest(code, events["detail"], finished, count)
    found = pa.table(columns)
    other = pc.starts_with(names, _OTHER)
    return found.filter(pc.invert(other)) if pc.any(other).as_py() else found


def _numbers(column: Any) -> tuple[Ints, Mask | None]:
    """Return the numbers of a column, and which are there; None where all are."""
    values = column.combine_chunks()
    if not values.null_count:
        return values.to_numpy(), None
    return values.fill_null(0).to_numpy(), values.is_valid().to_numpy(zero_copy_only=False)


def _extreme(told: Sequence[tuple[Ints, Ints]], count: int, *, first: bool) -> Any:
    """Return the least or the greatest value told of each code; NULL where none is."""
    if not any(code.size for code, _ in told):
        return pa.nulls(count, pa.int64())
    found = np.full(count, _INT64.max if first else _INT64.min)
    seen = np.zeros(count, np.bool_)
    for code, values in told:
        (np.minimum if first else np.maximum).at(found, code, values)
        seen[code] = True
    return pa.array(found, mask=~seen)


def _inner_ids(code: Ints, events: pa.Table, names: Any) -> Any:
    """Return the engine's own id of each request; many engines take the client's."""
    inner = events["engine_request_id"]
    there = inner.is_valid().combine_chunks().to_numpy(zero_copy_only=False) & (code >= 0)
    if pc.all(pc.equal(inner, events["key"])).as_py():
        named = np.zeros(len(names), np.bool_)
        named[code[there]] = True
        return pc.if_else(pa.array(named), names, pa.scalar(None, pa.string()))
    return _greatest(code, inner, np.flatnonzero(there), len(names))


def _greatest(code: Ints, texts: Any, rows: Ints, count: int) -> Any:
    """Return the last in order of text of these rows' texts for each code; NULL without one."""
    mine = texts.take(pa.array(rows))
    if mine.null_count == len(mine):
        return pa.nulls(count, pa.string())
    mine = mine.cast(pa.string())
    some = pl.DataFrame({"code": code[rows], "text": pl.from_arrow(mine)}).drop_nulls()
    last = some.group_by("code").agg(pl.col("text").max())
    at = np.full(count, -1, np.int64)
    at[last["code"].to_numpy()] = np.arange(last.height)
    found: Any = last["text"].to_arrow(compat_level=pl.CompatLevel.oldest())
    return found.cast(pa.string()).take(pa.array(at, mask=at < 0))
