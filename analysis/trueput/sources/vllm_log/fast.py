"""The common lines of a plain vLLM log, by byte position.

Most lines of a big log are iteration lines, request lines and access lines behind vLLM's own
prefix. They are read here with a few numpy calls for a whole block. Anything that does not stand
exactly where it should is left to the readers that match expressions: a line that is not fully
understood here is handed on as a message, and a block with wrapped, continued or otherwise
prefixed lines is not read here at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from trueput.sources.vllm_log.dates import DAY_NS, SECOND_NS, Dates
from trueput.sources.vllm_log.places import MASKS, Flags, Places, Text, Words, not_digits, word_of

LEVELS: Final = (b"INFO ", b"DEBUG ", b"ERROR ", b"WARNING ", b"CRITICAL ")
PROCESS: Final = re.compile(r"[A-Za-z_][^()\]]* pid=[0-9]*[^()\]]*")
PROCESS_BYTES: Final = 64
WHERE_BYTES: Final = 80
TAIL_BYTES: Final = 96
ID_BYTES: Final = 96
NO_TIME: Final = np.iinfo(np.int64).min
DATE: Final = word_of(b"00-00 00")
CLOCK: Final = word_of(b"00:00:00")
DATE_MARKS: Final = word_of(b"\0\0\xff\0\0\xff\0\0")
CLOCK_MARKS: Final = DATE_MARKS
"""Bytes that must be what stands between the numbers."""
REQUEST_WORDS: Final = {
    # the line up to its id: the event
    b"Added request ": "added",
    b"Finished request ": "finished",
    b"Aborted request ": "aborted",
    b"Aborted request(s) ": "aborted",
}
RECEIVED: Final = b"Received request "
PARAMS: Final = b": params: SamplingParams("
GUESSES: Final = 16
LIMIT: Final = b" max_tokens="
ITERATION: Final = (
    # name, what follows the number
    ("step_ix", b"): "),
    ("context_requests", b" context requests, "),
    ("context_tokens", b" context tokens, "),
    ("generation_requests", b" generation requests, "),
    ("generation_tokens", b" generation tokens, iteration elapsed time: "),
)
ODD: Final = r'[GORL] [0-9][0-9]-[0-9][0-9] [0-9]|INFO: .*- "[A-Z]'
"""A prefix or an access line that stands behind something else."""
LEFT_WORDS: Final = np.array(
    [
        word_of(word)
        for word in (
            *(b"Iteratio", b"Received", b"Added re", b"Finished", b"Aborted ", b"Request "),
            *(b"Generate", b"Sequence"),
        )
    ]
)
RANK: Final = re.compile(r"[A-Za-z_]+_(?:DP)?([0-9]{1,9}) pid=")
TENS: Final = 10 ** np.arange(6, -1, -1, dtype=np.int64)
STEP_TAIL: Final = re.compile(
    r" ms(?P<dummy> \(dummy\))?(?:, [^,:]{1,40} KV cache usage: (?P<kv>[0-9]+(?:\.[0-9]+)?)%)?"
    r"(?:, encoder inputs: [0-9]+, encoder output embeddings: [0-9]+)?(?P<late> \(dummy\))?"
)
ACCESS_TAIL: Final = re.compile(
    r'"([A-Z]+) ([^ ?#"]*)[^ ]* HTTP/[0-9.]+" ([0-9]{3})(?: [A-Za-z -]*)?'
)


@dataclass(frozen=True)
class Fast:
    """One block: rows that are finished or nearly so, and the lines that are left.

    `steps` has the columns of `take_steps`; `received` and `life` those that `Requests` makes of
    such lines; `access` those of `responses`. `messages` are lines with a prefix, `rest` those
    without; `times` is line and at_ns of every line with a prefix, `count` the newlines.
    `has_left` says that `messages` may hold step or request lines.
    """

    steps: pl.DataFrame
    received: pl.DataFrame
    life: pl.DataFrame
    access: pl.DataFrame
    messages: pl.DataFrame
    rest: pl.DataFrame
    times: pl.DataFrame
    count: int
    has_left: bool


@dataclass
class _Prefixed:
    """Lines with a prefix: where their message begins and ends, line number, process, time.

    `process` numbers the names in `names`, of which the last is None.
    """

    at: Places
    end: Places
    line: Places
    process: Places
    names: list[str | None]
    at_ns: Places

    def of(self, index: Places) -> _Prefixed:
        """Return the lines at these places of the arrays."""
        return _Prefixed(
            self.at[index],
            self.end[index],
            self.line[index],
            self.process[index],
            self.names,
            self.at_ns[index],
        )

    def __len__(self) -> int:
        return len(self.at)

    def columns(self) -> dict[str, pl.Series]:
        """Return line, at_ns and process."""
        names = pl.Series(self.names, dtype=pl.String)
        process = names.gather(self.process)
        return {"line": pl.Series(self.line), "at_ns": instants(self.at_ns), "process": process}


def instants(at_ns: Places) -> pl.Series:
    """Return instants as a column; NO_TIME becomes NULL."""
    column = pl.Series(at_ns)
    return column.replace(NO_TIME, None) if (at_ns == NO_TIME).any() else column


def line_ends(text: Text) -> Places:
    """Return the place of each newline, and the end of the block where the last line has none."""
    ends = np.flatnonzero(text.bytes[: text.size] == 10)
    if text.size and text.bytes[text.size - 1] != 10:
        ends = np.append(ends, text.size)
    return ends


def _processes(text: Text, at: Places, end: Places) -> tuple[list[str | None], Places, Flags]:
    """Return the names of processes, which one stands between the parentheses of each line (the
    last, None, without), and whether it is a process. `at` is the opening one's place or -1."""
    good = np.ones(len(at), np.bool_)
    there = np.flatnonzero(at >= 0)
    texts, codes = text.distinct(at[there] + 1, end[there], PROCESS_BYTES)
    names = [name.partition(",")[0] if PROCESS.fullmatch(name) else None for name in texts]
    good[there] = np.array([name is not None for name in names], np.bool_)[codes]
    index = np.full(len(at), len(names), np.int64)
    index[there] = codes
    return [*names, None], index, good


def scan(data: bytes, first_line: int, dates: Dates, last_at: int | None) -> Fast | None:
    """Return what stands in the block, or None where it must be read with care."""
    text = Text(data)
    end = line_ends(text)
    start = np.concatenate([[0], end[:-1] + 1]).astype(np.int64)
    first = text.bytes[start]
    if np.isin(first, np.frombuffer(b"{2", np.uint8)).any():
        return None
    opening = np.where(first == ord("("), start, -1)
    base = start.copy()
    closing = np.full(len(start), -1, np.int64)
    bracketed = np.flatnonzero(opening >= 0)
    if len(bracketed):
        found = text.find(start[bracketed], b")", PROCESS_BYTES)
        found[(found > end[bracketed]) | (text.bytes[found + 1] != ord(" "))] = -1
        closing[bracketed] = found
        base[bracketed] = np.where(found >= 0, found + 2, end[bracketed])
    names, process, good = _processes(text, np.where(closing >= 0, opening, -1), closing)
    good &= (opening < 0) | (closing >= 0)
    at, days, clock = _prefix_end(text, base, end)
    is_prefixed = good & (at >= 0)
    is_access = good & ~is_prefixed & text.has(base, b"INFO: ")
    access_at = _access_place(text, base, end, is_access)
    is_access &= access_at >= 0
    others = ~(is_prefixed | is_access)
    line = np.arange(first_line, first_line + len(end))
    rest = pl.DataFrame({"line": line[others], "text": text.strings(start[others], end[others])})
    tails = _access_tails(text, access_at[is_access], end[is_access])
    if tails is None or not rest.filter(pl.col("text").str.contains(ODD)).is_empty():
        return None
    times = _instants(dates, days[is_prefixed], clock[is_prefixed])
    if times is None:
        return None
    prefixed = _Prefixed(
        at[is_prefixed],
        end[is_prefixed],
        line[is_prefixed],
        process[is_prefixed],
        names,
        times,
    )
    processes = pl.Series(names, dtype=pl.String).gather(process[is_access])
    access = _access(prefixed, line[is_access], processes, tails, last_at)
    count = len(end) - (data[-1] != ord("\n"))
    return _sorted_out(text, prefixed, access, rest, count)


def _prefix_end(text: Text, base: Places, end: Places) -> tuple[Places, Words, Words]:
    """Return where the message begins (-1 where the line has no such prefix), and the words that
    hold its date and its time of day."""
    date = np.full(len(base), -1, np.int64)
    word = text.word(base)
    for level in LEVELS:
        here = (word & MASKS[min(len(level), 8)]) == word_of(level[:8])
        date[here] = base[here] + len(level)
    place = np.maximum(date, 0)
    days = text.word(place) ^ DATE
    clock = text.word(place + 6) ^ CLOCK
    good = (date >= 0) & ((not_digits(days) | not_digits(clock)) == 0)
    good &= ((days & DATE_MARKS) | (clock & CLOCK_MARKS)) == 0
    good &= text.bytes[place + 14] == ord(" ")
    index = np.flatnonzero(good)
    where = place[index] + 15
    where += text.bytes[where] == ord("[")
    colon = text.find(where, b":] \n", WHERE_BYTES)
    _, digits = text.number(colon + 1)
    close = colon + 1 + digits
    ends_well = (colon > where) & (digits > 0) & (digits < 8)
    ends_well &= (text.bytes[colon] == ord(":")) & text.has(close, b"] ")
    at = np.full(len(base), -1, np.int64)
    at[index] = np.where(ends_well, close + 2, -1)
    return at, days, clock


def _instants(dates: Dates, days: Words, clock: Words) -> Places | None:
    """Return the instants of lines in file order; None where one has an impossible time."""
    if not len(days):
        return np.zeros(0, np.int64)
    turns = np.flatnonzero((days[1:] != days[:-1]) | (clock[1:] != clock[:-1])) + 1
    turns = np.concatenate([[0], turns])
    d = days[turns].view(np.uint8).reshape(-1, 8).astype(np.int64)
    c = clock[turns].view(np.uint8).reshape(-1, 8).astype(np.int64)
    hour, minute, second = (c[:, i] * 10 + c[:, i + 1] for i in (0, 3, 6))
    if ((hour > 23) | (minute > 59) | (second > 60)).any():
        return None
    month_day = (d[:, 0] * 10 + d[:, 1]) * 100 + d[:, 3] * 10 + d[:, 4]
    starts = np.flatnonzero(np.diff(month_day, prepend=-1))
    known = [dates.day(f"{n // 100:02}-{n % 100:02}") for n in month_day[starts].tolist()]
    midnight = np.array([NO_TIME if day is None else day * DAY_NS for day in known], np.int64)
    midnight = midnight[_expanded(starts, len(turns))]
    instant = midnight + (hour * 3600 + minute * 60 + second) * SECOND_NS
    instant[midnight == NO_TIME] = NO_TIME
    instants_of_lines: Places = instant[_expanded(turns, len(days))]
    return instants_of_lines


def _expanded(starts: Places, size: int) -> Places:
    """Return, for each of `size` rows, which run it is in; runs begin at `starts`."""
    return np.repeat(np.arange(len(starts)), np.diff(starts, append=size))


def _access_place(text: Text, base: Places, end: Places, which: Flags) -> Places:
    """Return where the quoted request of an access line begins, -1 elsewhere."""
    place = np.full(len(base), -1, np.int64)
    index = np.flatnonzero(which)
    if len(index):
        quote = text.find(base[index], b'"\n', TAIL_BYTES)
        good = (quote > 0) & text.has(np.maximum(quote - 2, 0), b'- "')
        place[index] = np.where(good & (end[index] - quote <= TAIL_BYTES), quote, -1)
    return place


def _access_tails(text: Text, at: Places, end: Places) -> pl.DataFrame | None:
    """Return method, route and status of each access line; None where one is of another form."""
    texts, codes = text.distinct(at, end, TAIL_BYTES)
    found = [ACCESS_TAIL.fullmatch(tail) for tail in texts]
    if not all(found):
        return None
    rows = [(m[1], m[2], int(m[3])) for m in found if m]
    schema = {"detail": pl.String, "route": pl.String, "http_status": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")[codes]


def _access(
    prefixed: _Prefixed, line: Places, process: pl.Series, tails: pl.DataFrame, last_at: int | None
) -> pl.DataFrame:
    """Give each access line the time of the last line before it that has one."""
    known = pl.Series([last_at], dtype=pl.Int64).append(instants(prefixed.at_ns))
    known = known.fill_null(strategy="forward") if known.null_count() else known
    at_ns = known.gather(prefixed.line.searchsorted(line))
    columns = {"line": pl.Series(line), "at_ns": at_ns, "process": process}
    return tails.with_columns(**columns, event=pl.lit("responded"))


def _sorted_out(
    text: Text, prefixed: _Prefixed, access: pl.DataFrame, rest: pl.DataFrame, count: int
) -> Fast:
    left = np.ones(len(prefixed), np.bool_)
    word = text.word(prefixed.at)
    steps, odd_steps = _steps(text, prefixed, word, left)
    received = _received(text, prefixed, word, left)
    life = _life(text, prefixed, word, left)
    others = prefixed.of(np.flatnonzero(left))
    message = text.strings(others.at, np.maximum(others.at, others.end))
    messages = pl.DataFrame({**others.columns(), "message": message})
    times = pl.DataFrame({"line": prefixed.line, "at_ns": instants(prefixed.at_ns)})
    has_left = bool(np.isin(word[left], LEFT_WORDS).any()) or odd_steps
    return Fast(steps, received, life, access, messages, rest, times, count, has_left)


def _steps(text: Text, prefixed: _Prefixed, word: Words, left: Flags) -> tuple[pl.DataFrame, bool]:
    """Take the iteration lines; return their rows and whether some were not understood."""
    rank = np.zeros(len(prefixed), np.int64)
    owned = (word & MASKS[7]) == word_of(b"Engine ")
    at = prefixed.at.copy()
    places = np.flatnonzero(owned)
    if len(places):
        rank[places], digits = text.number(at[places] + 7)
        at[places] += 9 + digits
        at[places] = np.where(text.has(at[places] - 2, b": "), at[places], text.size)
    which = word == word_of(b"Iteratio")
    which[places] = text.word(at[places]) == word_of(b"Iteratio")
    index = np.flatnonzero(which)
    index = index[text.has(at[index] + 2, b"eration(")]
    found, at = prefixed.of(index), at[index] + 10
    good = np.ones(len(found), np.bool_)
    columns: dict[str, Places] = {}
    for name, follows in ITERATION:
        columns[name], digits = text.number(at)
        at = at + digits
        good &= (digits > 0) & text.has(at, follows)
        at = np.minimum(at + len(follows), text.size)
    whole, digits = text.number(at)
    at = at + digits
    point = text.bytes[at] == ord(".")
    fraction, places = text.number(at + point)
    places = np.where(point, places, 0)
    at = np.minimum(at + point + places, text.size)
    good &= (digits > 0) & (digits < 8) & (~point | ((places > 0) & (places <= 6)))
    good &= at < found.end
    tails = _step_tails(text, at, found.end, good)
    columns["elapsed_ns"] = whole * 1_000_000 + np.where(
        point, fraction * TENS[np.clip(places, 0, 6)], 0
    )
    ranks = [RANK.match(name or "") for name in prefixed.names]
    of_process = np.array([int(match[1]) if match else 0 for match in ranks])
    engine = np.where(owned[index], rank[index], of_process[found.process])
    left[index[good]] = False
    rows = pl.DataFrame(
        {
            "line": found.line,
            "engine": pl.Series(engine).cast(pl.String),
            "logged_at_ns": instants(found.at_ns),
            **columns,
        }
    ).hstack(tails)
    is_odd = not good.all()
    if is_odd:
        rows = rows.filter(pl.Series(good))
    return rows.with_columns(covers_steps=pl.lit(1, dtype=pl.Int64)), is_odd


def _step_tails(text: Text, at: Places, end: Places, good: Flags) -> pl.DataFrame:
    """Return KV use and the filler mark of each line, and clear `good` where the end is odd."""
    texts, codes = text.distinct(at, end, TAIL_BYTES)
    found = [STEP_TAIL.fullmatch(tail) for tail in texts]
    kv = [float(m["kv"]) / 100 if m and m["kv"] else None for m in found]
    dummy = [bool(m and (m["dummy"] or m["late"])) for m in found]
    good &= np.array([m is not None for m in found], np.bool_)[codes]
    good &= end - at <= TAIL_BYTES
    schema = {"kv_used_ratio": pl.Float64, "dummy": pl.Boolean}
    return pl.DataFrame({"kv_used_ratio": kv, "dummy": dummy}, schema=schema)[codes]


def _received(text: Text, prefixed: _Prefixed, word: Words, left: Flags) -> pl.DataFrame:
    """Take the lines whose limit stands before any quoted text."""
    index = np.flatnonzero(word == word_of(b"Received"))
    index = index[text.has(prefixed.at[index], RECEIVED)]
    found = prefixed.of(index)
    at = found.at + len(RECEIVED)
    colon = _literal_places(text, at, found.end, PARAMS)
    good = colon > at
    limit = _literal_places(text, np.where(good, colon, -1), found.end, LIMIT)
    good &= limit >= 0
    limit += len(LIMIT)
    limit = np.where(good, limit, text.size)
    if text.holds(b"'"):
        # Every quoted text that Python prints with `repr` holds this quote, or is made of it.
        quotes = np.append(np.flatnonzero(text.bytes[: text.size] == ord("'")), text.size)
        good &= quotes[quotes.searchsorted(np.maximum(colon, 0))] > limit
    value, digits = text.number(limit)
    after = text.bytes[np.minimum(limit + digits, text.size)]
    good &= (limit < found.end) & (digits > 0) & ((after == ord(",")) | (after == ord(")")))
    ids = text.strings(at, np.where(good, colon, at))
    good &= ~ids.str.contains(" ", literal=True).to_numpy()
    left[index[good]] = False
    taken = prefixed.of(index[good])
    return pl.DataFrame(
        {
            **taken.columns(),
            "event": pl.Series(["received"]).new_from_index(0, len(taken)),
            "request_id": ids.filter(pl.Series(good)),
            "max_tokens": value[good],
        }
    )


def _literal_places(text: Text, at: Places, end: Places, literal: bytes) -> Places:
    """Return the place of `literal` between each two places; -1 without, or where `at` is -1.

    Most lines are alike, so the distance found in one line is tried on all. The literals that are
    looked for stand once in a line, in front of which no text of a user's has been.
    """
    place = np.full(len(at), -1, np.int64)
    open_ = np.flatnonzero(at >= 0)
    for _ in range(GUESSES):
        if not len(open_):
            return place
        first = open_[0]
        distance = text.index(literal, int(at[first]), int(end[first])) - int(at[first])
        if distance < 0:
            open_ = open_[1:]
            continue
        there = np.minimum(at[open_] + distance, text.size)
        same = text.has(there, literal) & (there < end[open_])
        place[open_[same]] = there[same]
        open_ = open_[~same]
    place[open_] = [text.index(literal, int(at[i]), int(end[i])) for i in open_]
    return place


def _life(text: Text, prefixed: _Prefixed, word: Words, left: Flags) -> pl.DataFrame:
    """Take `<Word> request <id>.` with one id."""
    frames = []
    for literal, event in REQUEST_WORDS.items():
        index = np.flatnonzero(word == word_of(literal[:8]))
        index = index[text.has(prefixed.at[index], literal)]
        if not len(index):
            continue
        at, end = prefixed.at[index] + len(literal), prefixed.end[index] - 1
        good = (end > at) & (text.bytes[end] == ord("."))
        index, at, end = index[good], at[good], end[good]
        ids = text.strings(at, end)
        if (odd := ids.str.contains("[ ,]")).any():
            index, ids = index[~odd.to_numpy()], ids.filter(~odd)
        left[index] = False
        columns = prefixed.of(index).columns()
        columns["engine_request_id"] = ids
        columns["event"] = pl.Series([event]).new_from_index(0, len(index))
        columns["noun"] = pl.Series([literal.split()[1].decode()]).new_from_index(0, len(index))
        frame = pl.DataFrame(columns)
        frames.append(frame)
    if not frames:
        return pl.DataFrame()
    return pl.concat(frames)
