"""What the quick reading of one block found, as columns: steps, events, and the lines left.

The columns go straight to Arrow. Frames of them are made only for a block that also holds lines
which the careful readers must look at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from trueput.sources.vllm_log.places import Flags, Places, Text

if TYPE_CHECKING:
    import polars as pl

NO_TIME: Final = np.iinfo(np.int64).min
EVENTS: Final = ("received", "added", "finished", "aborted", "responded")
RECEIVED, ADDED, FINISHED, ABORTED, RESPONDED = range(5)
NOUNS: Final = ("request", "request(s)")


def instants(at_ns: Places) -> Any:
    """Return instants as a column; NO_TIME becomes NULL."""
    missing = at_ns == NO_TIME
    return pa.array(at_ns, mask=missing if missing.any() else None)


def named(codes: Places, names: list[Any], kind: pa.DataType | None = None) -> Any:
    """Return the name of each code; a code below 0 gives NULL."""
    missing = codes < 0
    indices: Any = pa.array(codes.astype(np.int32), mask=missing if missing.any() else None)
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, kind or pa.string()))


@dataclass(frozen=True)
class Rows:
    """Lines with a prefix: line number, time, and process (a place in `names`, -1 without)."""

    line: Places
    at_ns: Places
    process: Places
    names: list[str | None]

    def columns(self) -> dict[str, Any]:
        """Return line, at_ns and process."""
        process = named(self.process, self.names)
        return {"line": pa.array(self.line), "at_ns": instants(self.at_ns), "process": process}


@dataclass(frozen=True)
class Steps:
    """Iteration lines. `engine` and `tail` are places in `engines` and `tails` (KV use, filler)."""

    line: Places
    at_ns: Places
    numbers: dict[str, Places]
    engine: Places
    engines: list[str]
    tail: Places
    tails: list[tuple[float | None, bool]]

    def columns(self) -> dict[str, Any]:
        """Return the columns of `engine_steps` without incarnation."""
        tail: Any = pa.array(self.tail)
        kv, dummy = [t[0] for t in self.tails], np.array([t[1] for t in self.tails], np.bool_)
        return {
            "line": pa.array(self.line),
            "engine": named(self.engine, self.engines),
            "logged_at_ns": instants(self.at_ns),
            **{name: pa.array(values) for name, values in self.numbers.items()},
            "kv_used_ratio": pa.array(kv, pa.float64()).take(tail),
            "dummy": pa.array(dummy[self.tail]),
            "covers_steps": pa.array(np.ones(len(self.line), np.int64)),
        }

    def frame(self) -> pl.DataFrame:
        """Return the columns as a frame, for the careful readers."""
        return _frame(self.columns())


@dataclass(frozen=True)
class Events:
    """Request and access lines in line order.

    `kind` is a place in EVENTS; `id_at` and `id_length` say where the id stands (below 0 without
    one), `id_text` what it is, `noun` which of NOUNS stood before it; `max_tokens` is -1 without a
    limit; `tail` is a place in `tails` (method, route, status), -1 without.
    """

    text: Text
    rows: Rows
    kind: Places
    id_at: Places
    id_length: Places
    id_text: pa.StringArray
    noun: Places
    max_tokens: Places
    tail: Places
    tails: list[tuple[str, str, int]]

    def ids(self, which: Flags) -> list[str]:
        """Return the ids of some lines."""
        found: list[Any] = self.id_text.filter(pa.array(which)).to_pylist()
        return found

    def columns(self) -> dict[str, Any]:
        """Return what is the same whatever the form of ids: all but the two ids."""
        limit, tail = self.max_tokens, self.tail
        return {
            **self.rows.columns(),
            "event": named(self.kind, list(EVENTS)),
            "route": named(tail, [t[1] for t in self.tails]),
            "http_status": named(tail, [t[2] for t in self.tails], pa.int64()),
            "max_tokens": pa.array(limit, mask=limit < 0),
            "detail": named(tail, [t[0] for t in self.tails]),
        }

    def received(self) -> pl.DataFrame:
        """Return the received lines, for the careful readers."""
        which = self.kind == RECEIVED
        ids = self.id_text.filter(pa.array(which))
        return self._frame(which, ["max_tokens"], request_id=ids)

    def life(self) -> pl.DataFrame:
        """Return the added, finished and aborted lines, for the careful readers."""
        which = (self.kind >= ADDED) & (self.kind <= ABORTED)
        ids = self.id_text.filter(pa.array(which))
        nouns = named(self.noun[which], list(NOUNS))
        return self._frame(which, [], engine_request_id=ids, noun=nouns)

    def access(self) -> pl.DataFrame:
        """Return the access lines, for the careful readers."""
        return self._frame(self.kind == RESPONDED, ["route", "http_status", "detail"])

    def _frame(self, which: Flags, names: list[str], **more: Any) -> pl.DataFrame:
        mask = pa.array(which)
        columns = self.columns()
        names = ["line", "at_ns", "process", "event", *names]
        return _frame({**{name: columns[name].filter(mask) for name in names}, **more})


@dataclass(frozen=True)
class Block:
    """One block, read quickly.

    `messages` are lines with a prefix that are left (`message` is their text), `rest` (line, text)
    those without prefix; `times` is line and instant of every line with a prefix; `count` the
    number of newlines. `has_left` says that `messages` may hold step or request lines.
    """

    steps: Steps
    events: Events
    messages: Rows
    message: pa.StringArray
    rest_line: Places
    rest: pa.StringArray
    times: tuple[Places, Places]
    count: int
    has_left: bool

    def message_frame(self) -> pl.DataFrame:
        """Return the messages as a frame, for the careful readers."""
        return _frame({**self.messages.columns(), "message": self.message})

    def rest_frame(self) -> pl.DataFrame:
        """Return the lines without prefix as a frame, for the careful readers."""
        return _frame({"line": pa.array(self.rest_line), "text": self.rest})

    def time_frame(self) -> pl.DataFrame:
        """Return line and at_ns of all lines with a prefix as a frame."""
        return _frame({"line": pa.array(self.times[0]), "at_ns": instants(self.times[1])})

    def time_before(self, line: int, carried: int | None) -> int | None:
        """Return the last known instant before a line, `carried` without one."""
        lines, at_ns = self.times
        known = np.flatnonzero((lines < line) & (at_ns != NO_TIME))
        return int(at_ns[known[-1]]) if len(known) else carried

    def last_time(self) -> int | None:
        """Return the last known instant of a line with a prefix, None without one."""
        known = np.flatnonzero(self.times[1] != NO_TIME)
        return int(self.times[1][known[-1]]) if len(known) else None


def _frame(columns: dict[str, Any]) -> pl.DataFrame:
    import polars as pl

    plain = {
        name: column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        for name, column in columns.items()
    }
    frame = pl.from_arrow(pa.table(plain))
    assert isinstance(frame, pl.DataFrame)
    return frame
