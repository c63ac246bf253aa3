"""Lines of a log -> messages: every prefix style from 0.4 to 0.33, collectors' prefixes, JSON.

A message is anchored at its start: text inside a prompt never begins one. A line that a collector
put something in front of is looked at from its first vLLM prefix on, unless what stands before
holds a quote or a brace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from trueput.clock import ClockKind
from trueput.sources.vllm_log.block import Block
from trueput.sources.vllm_log.careful import wrapped
from trueput.sources.vllm_log.careful.frames import line_frame, split_off
from trueput.sources.vllm_log.dates import DAY_NS, SECOND_NS
from trueput.sources.vllm_log.prefix import LEVEL, PLACE, PREFIX, PROCESS
from trueput.sources.vllm_log.reader import LineReader

ACCESS: Final = rf'^{PROCESS}INFO: +(?:[^ ]+ )?- "[A-Z]+ [^ ]+ HTTP/[0-9.]+" [0-9]{{3}}'
JSON_ACCESS: Final = r'^(?:[^ ]+ )?- "[A-Z]+ [^ ]+ HTTP/[0-9.]+" [0-9]{3}'
OWN_START: Final = (
    r"^(?:Engine [0-9]{3,6}: )?(?:Iteration\([0-9]+\): |Avg prompt throughput: |"
    r"(?:Received|Added|Finished|Aborted) request [^ ]+[.:])"
)
"""A line of its own, unless a user's text says the same."""
LOOSE: Final = rf'{PROCESS}(?:{PLACE} |INFO: +(?:[^ ]+ )?- "[A-Z]+ [^ ]+ HTTP/)'
LEAD: Final = r"^[^'\"{}]{1,200}$"
HEAD: Final = (
    rf"^(?:\((?P<process>[^(),]*)[^()]*\) +)*{LEVEL} "
    r"(?P<month_day>[0-9-]{5}) (?P<h>[01][0-9]|2[0-3]):(?P<m>[0-5][0-9]):(?P<s>[0-5][0-9]|60) "
)
RAY_REPEATED: Final = r" \[repeated [0-9]+x across cluster\].*$"

MESSAGE_SCHEMA: Final = {
    "line": pl.Int64,
    "at_ns": pl.Int64,
    "process": pl.String,
    "message": pl.String,
}
TEXT: Final = pl.col("text")


@dataclass(frozen=True)
class Lines:
    """One block: messages, uvicorn's access lines, and every other line, each in file order.

    `messages` and `access` have the columns of MESSAGE_SCHEMA; an access line has the time of the
    last line before it that has one. `rest` has `line` and `text`, `times` line and at_ns of all
    lines with a prefix, `later` the later lines of messages of several lines; `count` is the number
    of newlines. With `block`, the common kinds are there already, and not in `messages`.
    """

    messages: pl.DataFrame
    access: pl.DataFrame
    rest: pl.DataFrame
    times: pl.DataFrame
    later: pl.DataFrame
    count: int
    block: Block | None = None

    @classmethod
    def of_block(cls, block: Block) -> Lines:
        """Return the lines that a quick reading left, with what it found."""
        none = pl.DataFrame(schema=MESSAGE_SCHEMA)
        messages = _shown(block.message_frame())
        rest, times = block.rest_frame(), block.time_frame()
        return cls(messages, none, rest, times, none, block.count, block)

    def time_before(self, line: int, carried: int | None) -> int | None:
        """Return the last known instant before a line, `carried` without one."""
        before = self.times.filter((pl.col("line") < line) & pl.col("at_ns").is_not_null())
        return carried if before.is_empty() else int(before["at_ns"][-1])


@dataclass
class Reading:
    """One block on its way from bytes to lines; what lasts is kept in `reader`."""

    reader: LineReader

    def lines(self, data: bytes, first_line: int, *, continues: bool) -> Lines:
        """Return the lines of clean data; with `continues`, the first one began in the block
        before and is not looked at."""
        frame = line_frame(data, first_line)
        count = frame.height - (not data.endswith(b"\n"))
        if continues:
            frame = frame[1:]
        reader = self.reader
        unwrapped = wrapped.unwrap(frame, reader.unfinished, reader.problems)
        frame = unwrapped.frame
        prefixed, rest = split_off(frame, TEXT.str.contains(PREFIX))
        access, rest = split_off(rest, TEXT.str.contains(ACCESS))
        loose = _without_lead(rest)
        if not loose.is_empty():
            again, others = split_off(loose, TEXT.str.contains(PREFIX))
            prefixed = pl.concat([prefixed, again]).sort("line")
            access = pl.concat([access, others]).sort("line")
            rest = rest.join(loose, on="line", how="anti", maintain_order="left")
        self._settle_clock(unwrapped, prefixed)
        messages, later = self._messages(prefixed, unwrapped.structured)
        access_rows = self._access(access, messages)
        told, messages = _json_access(messages, unwrapped.structured)
        if not told.is_empty():
            access_rows = pl.concat([access_rows.select(told.columns), told]).sort("line")
        stamped = messages.get_column("at_ns").drop_nulls()
        if len(stamped):
            reader.last_at = int(stamped[-1])
        reader.prefixed += messages.height
        times = messages.select("line", "at_ns")
        rest = rest.select("line", "text")
        return Lines(_shown(messages), access_rows, rest, times, later, count)

    def _settle_clock(self, unwrapped: wrapped.Unwrapped, prefixed: pl.DataFrame) -> None:
        """The first line with a time decides: an outer stamp with a zone is UTC."""
        if self.reader.clock is not None:
            return
        utc, local = unwrapped.first_lines()
        if not prefixed.is_empty():
            local.append(int(prefixed["line"][0]))
        if utc or local:
            is_utc = bool(utc) and (not local or min(utc) <= min(local))
            self.reader.clock = ClockKind.UTC if is_utc else ClockKind.LOCAL

    def _messages(
        self, prefixed: pl.DataFrame, structured: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the messages, and the later lines of messages of several lines."""
        found, later = self._split_prefix(prefixed)
        if not structured.is_empty():
            at = "utc_ns" if self.reader.clock is ClockKind.UTC else "local_ns"
            rows = structured.select("line", pl.col(at).alias("at_ns"), "process", "message")
            found = pl.concat([found, rows]).sort("line")
        if self.reader.clock is ClockKind.UTC:
            carried = pl.lit(self.reader.last_at, dtype=pl.Int64)
            filled = pl.col("at_ns").fill_null(strategy="forward").fill_null(carried)
            found = found.with_columns(filled)
        return found, later

    def _split_prefix(self, prefixed: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        none = pl.DataFrame(schema=MESSAGE_SCHEMA)
        if prefixed.is_empty():
            return none, none
        raw = TEXT.cast(pl.Binary).bin
        cut = prefixed.with_columns(cut=TEXT.str.find("]", literal=True))
        cut = cut.select(
            "line",
            "utc_ns",
            head=raw.slice(0, pl.col("cut")).cast(pl.String),
            message=raw.slice(pl.col("cut") + 2).cast(pl.String),
        )
        cut, is_later = self._continuations(cut)
        heads = cut.select(pl.col("head").unique())
        heads = heads.with_columns(pl.col("head").str.extract_groups(HEAD).alias("_")).unnest("_")
        second = pl.col("h", "m", "s").cast(pl.Int64)
        heads = heads.with_columns(second).select(
            "head",
            "process",
            "month_day",
            second=pl.col("h") * 3600 + pl.col("m") * 60 + pl.col("s"),
        )
        rows = cut.join(heads, on="head", how="left", maintain_order="left")
        at_ns = self._days(rows) * DAY_NS + rows.get_column("second") * SECOND_NS
        if self.reader.clock is ClockKind.UTC:
            at_ns = rows.get_column("utc_ns")
        rows = rows.select("line", at_ns.alias("at_ns"), "process", "message")
        if is_later is None:
            return rows, none
        return rows.filter(~is_later), rows.filter(is_later)

    def _days(self, rows: pl.DataFrame) -> pl.Series:
        if self.reader.clock is ClockKind.UTC:
            return pl.repeat(None, rows.height, dtype=pl.Int64, eager=True)
        runs = rows.get_column("month_day").rle().struct.unnest()
        days = [None if text is None else self.reader.dates.day(text) for text in runs["value"]]
        values = pl.Series(days, dtype=pl.Int64)
        return values.gather(np.repeat(np.arange(len(days)), runs["len"].to_numpy()))

    def _continuations(self, cut: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series | None]:
        """Return the lines without carriage returns at their ends, and which of them are later
        lines of a message of several lines.

        Each line of such a message but its last ends in a carriage return, and the next one has
        the same prefix.
        """
        message = pl.col("message")
        ends = cut.select(message.str.ends_with("\r")).to_series()
        if not ends.any() and not self.reader.open:
            return cut, None
        heads = cut.get_column("head")
        concerned = heads.is_in(list(self.reader.open | set(heads.filter(ends))))
        later = []
        rows = cut.select("line", "head", ends.alias("ends")).filter(concerned)
        for line, head, more in rows.iter_rows():
            if head in self.reader.open:
                later.append(line)
            if more:
                self.reader.open.add(head)
            else:
                self.reader.open.discard(head)
        if len(self.reader.open) > 1000:
            self.reader.open.clear()
        is_later = cut.get_column("line").is_in(later)
        own = cut.filter(is_later & cut.get_column("message").str.contains(OWN_START))
        if not own.is_empty():
            self.reader.problems.add("VLOG016", own["line"][0], count=own.height)
        return cut.with_columns(message.str.strip_chars_end("\r")), is_later

    def _access(self, access: pl.DataFrame, messages: pl.DataFrame) -> pl.DataFrame:
        rows = access.select(
            "line",
            pl.col("utc_ns").alias("at_ns"),
            process=TEXT.str.extract(r"^\(([^(),]* pid=[0-9]+)", 1),
            message=TEXT.cast(pl.Binary)
            .bin.slice(TEXT.str.find('- "', literal=True))
            .cast(pl.String),
        )
        stamped = messages.filter(pl.col("at_ns").is_not_null())
        before = stamped.get_column("line").to_numpy().searchsorted(rows["line"].to_numpy())
        carried = pl.Series([self.reader.last_at], dtype=pl.Int64)
        times = carried.append(stamped.get_column("at_ns")).gather(before)
        if self.reader.clock is ClockKind.UTC:
            return rows.with_columns(pl.col("at_ns").fill_null(times))
        return rows.with_columns(times.alias("at_ns"))


def _without_lead(rest: pl.DataFrame) -> pl.DataFrame:
    """Return the lines whose vLLM prefix stands behind a harmless lead, from the prefix on."""
    found = rest.filter(TEXT.str.contains(LOOSE))
    if found.is_empty():
        return found
    raw = TEXT.cast(pl.Binary).bin
    found = found.with_columns(at=TEXT.str.find(LOOSE))
    lead = raw.slice(0, pl.col("at")).cast(pl.String)
    found = found.filter(lead.str.contains(LEAD))
    return found.with_columns(text=raw.slice(pl.col("at")).cast(pl.String)).drop("at")


def _json_access(
    messages: pl.DataFrame, structured: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return uvicorn's lines among the messages of a JSON log, cut like access lines; the rest."""
    if structured.is_empty():
        return messages.clear(), messages
    lines = structured.get_column("line").implode()
    wanted = pl.col("line").is_in(lines) & pl.col("message").str.contains(JSON_ACCESS)
    found, rest = split_off(messages, wanted)
    at = pl.col("message").str.find('- "', literal=True)
    cut = pl.col("message").cast(pl.Binary).bin.slice(at).cast(pl.String)
    return found.with_columns(message=cut), rest


def _shown(messages: pl.DataFrame) -> pl.DataFrame:
    """Return messages without what Ray puts behind those that several workers printed."""
    message = pl.col("message")
    repeated = message.str.ends_with("across cluster]")
    if messages.is_empty() or not messages.select(repeated.any()).item():
        return messages
    return messages.with_columns(message.str.replace(RAY_REPEATED, ""))


def read(reader: LineReader, data: bytes, first_line: int, *, continues: bool) -> Lines:
    """Return the lines of a block of clean data, and remember in `reader` what the next one needs.

    With `continues`, the first line began in the block before and is not looked at.
    """
    return Reading(reader).lines(data, first_line, continues=continues)
