"""What the sequences of each iteration have in the KV cache, by the work that reads it.

A log prints how much of the cache is in use, after an iteration and without saying whose. Where a
replay tells in which iterations each request computed what, every length follows: a request that
decodes has its prompt and what it generated, and one that prefills ends with its prompt.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trueput.attribution.records import Floats, Ints

Row = Mapping[str, Any]
Chunk = tuple[int, str, int]
"""An iteration, what it computed of a request's tokens (prefill or recompute), and how many."""

KV_WORKS: Final = ("prefill_kv", "decode_kv", "recompute_kv")
"""Names of the columns, in the order of works."""
_WORKS: Final = ("prefill", "decode", "recompute")
_DECODE: Final = 1
_LIFE: Final = ("engine", "incarnation")
_REQUESTS: Final = ("context_requests", "generation_requests")
MOST_SPARSE: Final = 4
"""Numbers of iterations that jump by more than this on average are no axis to count along."""


def with_kv(
    iterations: pa.Table, rows: Sequence[Row], prompts: Mapping[str, int | None]
) -> pa.Table:
    """Return the iterations with the columns KV_WORKS of `kv_by_work`."""
    found = kv_by_work(iterations, rows, prompts)
    for column, name in enumerate(KV_WORKS):
        iterations = iterations.append_column(name, pa.array(found[:, column]))
    return iterations


def kv_by_work(
    iterations: pa.Table, rows: Sequence[Row], prompts: Mapping[str, int | None]
) -> Floats:
    """Return (n, 3) tokens in the KV cache that prefill, decode and recompute read in `iterations`
    (engine, incarnation, step_ix, context_requests, generation_requests), NaN where not known.

    `rows` are those of request_steps, `prompts` the requests' prompt tokens. What an iteration
    reads is known where the rows tell of as many requests as it printed, and how long each is.
    """
    found = np.full((iterations.num_rows, 3), np.nan)
    names = list(zip(*(iterations.column(c).to_pylist() for c in _LIFE), strict=True))
    at: dict[Any, list[int]] = {}
    for position, name in enumerate(names):
        at.setdefault(name, []).append(position)
    step_ix = _numbers(iterations, "step_ix")
    requests = _numbers(iterations, _REQUESTS[0]) + _numbers(iterations, _REQUESTS[1])
    for name, mine in _by_life(rows).items():
        if (here := np.array(at.get(name, ()), np.int64)).size:
            found[here] = _of_life(step_ix[here], requests[here], mine, prompts)
    return found


def _numbers(iterations: pa.Table, name: str) -> Ints:
    column: Any = iterations.column(name)
    found: Ints = column.fill_null(0).to_numpy()
    return found


def _by_life(rows: Sequence[Row]) -> dict[Any, dict[str, list[Row]]]:
    """Rows of each request of each life of an engine, in order of iterations."""
    lives: dict[Any, dict[str, list[Row]]] = {}
    for row in rows:
        life = lives.setdefault(tuple(row[name] for name in _LIFE), {})
        life.setdefault(row["request_id"], []).append(row)
    for life in lives.values():
        for mine in life.values():
            mine.sort(key=lambda row: row["first_step_ix"])
    return lives


def _of_life(
    step_ix: Ints, requests: Ints, rows: Mapping[str, list[Row]], prompts: Mapping[str, int | None]
) -> Floats:
    first, size = int(step_ix.min()), int(step_ix.max() - step_ix.min()) + 1
    if size > MOST_SPARSE * len(step_ix):
        return np.full((len(step_ix), 3), np.nan)
    tally = _Tally.empty(first, size)
    for name, mine in rows.items():
        _add_request(tally, mine, prompts.get(name))
    return tally.read(step_ix, requests)


@dataclass(frozen=True)
class _Tally:
    """Sums over requests along the numbers of iterations; stretches are kept as their ends."""

    first: int
    present: Ints
    """Differences of how many requests are known."""
    ramps: Ints
    """Differences of how many decode, each one token longer than in the iteration before."""
    bases: Ints
    """Differences of their lengths less the iteration's place."""
    kv: Floats
    """(n, 3) lengths of those that prefill or recompute."""

    @classmethod
    def empty(cls, first: int, size: int) -> _Tally:
        """Nothing in `size` iterations from number `first`."""
        present, ramps, bases = np.zeros((3, size + 1), np.int64)
        return cls(first, present, ramps, bases, np.zeros((size, 3)))

    def decode(self, first: int, last: int, length: int) -> None:
        """One request decodes in a stretch, and is `length` tokens long in the first of it."""
        low, high = self._places(first, last)
        base = length - (first - self.first)
        for ends, value in ((self.present, 1), (self.ramps, 1), (self.bases, base)):
            ends[low] += value
            ends[high] -= value

    def chunk(self, at: int, works: Collection[str], length: int) -> None:
        """One request of a length does some works in an iteration.

        It is read once for all of them; as each alone would read it, they share it evenly.
        """
        low, high = self._places(at, at)
        self.present[low] += 1
        self.present[high] -= 1
        for work in works if low < high else ():
            self.kv[low, _WORKS.index(work)] += length / len(works)

    def _places(self, first: int, last: int) -> tuple[int, int]:
        size = len(self.kv)
        low = min(max(first - self.first, 0), size)
        return low, max(low, min(last + 1 - self.first, size))

    def read(self, step_ix: Ints, requests: Ints) -> Floats:
        """Return the lengths in some iterations, NaN where others than these requests ran."""
        place = step_ix - self.first
        kv: Floats = self.kv[place]
        kv[:, _DECODE] += np.cumsum(self.bases)[place] + place * np.cumsum(self.ramps)[place]
        kv[np.cumsum(self.present)[place] != requests] = np.nan
        return kv


def _add_request(tally: _Tally, rows: Sequence[Row], prompt: int | None) -> None:
    """Add what is known of one request; iterations that miss it will miss a request.

    Chunks are laid out backwards from what the request has when it decodes (again), since what of
    its begin a prefix cache held may not be told. One that never decodes ends with its prompt.
    """
    if prompt is None or any(row["tokens"] is None for row in rows if row["work"] != "decode"):
        return
    chunks = [(r["first_step_ix"], r["work"], r["tokens"]) for r in rows if r["work"] != "decode"]
    made = 1
    for row in rows:
        if row["work"] != "decode":
            continue
        first, last = row["first_step_ix"], row["last_step_ix"]
        mine = [chunk for chunk in chunks if chunk[0] <= last]
        chunks = chunks[len(mine) :]
        # those within a stretch of decode compute again what a preemption lost; with the last of
        # it comes the next token
        again = bool(mine) and mine[-1][0] >= first
        if again:
            _add_chunks(tally, mine, prompt + made, last="decode")
        else:
            _add_chunks(tally, mine, prompt)
        begin = mine[-1][0] + 1 if again else first
        made += again
        if begin <= last:
            tally.decode(begin, last, prompt + made)
            made += last + 1 - begin
    _add_chunks(tally, chunks, prompt)


def _add_chunks(tally: _Tally, chunks: Sequence[Chunk], length: int, last: str = "") -> None:
    """Chunks after which the request has `length` tokens; earlier ones than fit were in vain.

    `last` is what the request does in the iteration of the last chunk as well.
    """
    by_step: dict[int, tuple[set[str], int]] = {}
    for at, work, tokens in chunks:
        works, before = by_step.get(at, (set(), 0))
        by_step[at] = works | {work}, before + tokens
    for at, (works, tokens) in reversed(by_step.items()):
        if length <= 0:
            return
        is_last = at == chunks[-1][0]
        tally.chunk(at, works | {last} if last and is_last else works, length)
        length -= tokens
