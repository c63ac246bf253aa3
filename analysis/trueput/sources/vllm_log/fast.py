"""The common lines of a plain vLLM log, by byte position.

Most lines of a big log are iteration lines, request lines and access lines behind vLLM's own
prefix, and lines of one kind begin alike. Their beginnings are grouped with a few numpy calls for a
whole block, and one line of each group is matched with an expression. Anything that does not stand
exactly where it should is left to the careful readers: a line that is not fully understood here
is handed on as a message, and a block with wrapped, continued or otherwise prefixed lines is not
read here at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from trueput.sources.vllm_log.block import (
    ABORTED,
    ADDED,
    FINISHED,
    NO_TIME,
    RECEIVED,
    RESPONDED,
    Block,
    Events,
    Rows,
    Steps,
)
from trueput.sources.vllm_log.dates import DAY_NS, SECOND_NS, Dates
from trueput.sources.vllm_log.heads import ACCESS, PREFIXED, heads
from trueput.sources.vllm_log.places import (
    MASKS,
    Flags,
    Places,
    Text,
    Words,
    holds_any,
    word_of,
)

TAIL_BYTES: Final = 96
ID_STOPS: Final = b" ,"
DATE: Final = word_of(b"00-00 00")
CLOCK: Final = word_of(b"00:00:00")
REQUEST_WORDS: Final = (
    # the line up to its id: the event, the noun
    (b"Added request ", ADDED, 0),
    (b"Finished request ", FINISHED, 0),
    (b"Aborted request ", ABORTED, 0),
    (b"Aborted request(s) ", ABORTED, 1),
)
RECEIVED_WORD: Final = b"Received request "
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
ALIKE_SIZES, ALIKE_BYTES = 4, 1024
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


@dataclass
class _Prefixed:
    """Lines with a prefix: where their message begins and ends, line number, process, time."""

    at: Places
    end: Places
    rows: Rows

    def of(self, index: Places) -> _Prefixed:
        """Return the lines at these places of the arrays."""
        return _Prefixed(self.at[index], self.end[index], self.of_rows(index))

    def of_rows(self, index: Places) -> Rows:
        """Return line, time and process at these places of the arrays."""
        rows = self.rows
        return Rows(rows.line[index], rows.at_ns[index], rows.process[index], rows.names)

    def __len__(self) -> int:
        return len(self.at)


@dataclass
class _Found:
    """Events of some kind: which lines they are, and where the id stands."""

    rows: Rows
    kind: Places
    id_at: Places
    id_length: Places
    noun: Places
    max_tokens: Places
    tail: Places

    @classmethod
    def of(cls, rows: Rows, kind: int, at: Places, length: Places, **more: Places) -> _Found:
        """Return events of one kind; what is not given does not exist."""
        none = np.full(len(at), -1, np.int64)
        given = {name: more.get(name, none) for name in ("noun", "max_tokens", "tail")}
        return cls(rows, np.full(len(at), kind), at, length, **given)


def scan(text: Text, first_line: int, dates: Dates, last_at: int | None) -> Block | None:
    """Return what stands in the block of whole lines, or None where it must be read with care."""
    end = text.line_ends()
    start = np.empty(len(end), np.int64)
    start[:1] = 0
    np.add(end[:-1], 1, out=start[1:])
    first = text.bytes[start]
    if ((first == ord("{")) | (first == ord("2"))).any():
        return None
    found = heads(text, start)
    is_prefixed = found.kind == PREFIXED
    access = np.flatnonzero((found.kind == ACCESS) & (end - found.at <= TAIL_BYTES))
    tails = _access_tails(text, found.at[access], end[access])
    is_other = ~is_prefixed
    is_other[access] = False
    others = np.flatnonzero(is_other)
    rest = text.strings(start[others], end[others] - start[others])
    if tails is None or _any(rest, ODD):
        return None
    index = np.flatnonzero(is_prefixed)
    times = _instants(dates, text, found.date[index])
    if times is None:
        return None
    line = np.arange(first_line, first_line + len(end))
    rows = Rows(line[index], times, found.process[index], found.names)
    prefixed = _Prefixed(found.at[index], end[index], rows)
    before = _before(index, times, access, last_at)
    answered = Rows(line[access], before, found.process[access], found.names)
    none = np.full(len(access), -1, np.int64)
    responses = _Found.of(answered, RESPONDED, none, none, tail=tails[1])
    left = np.ones(len(prefixed), np.bool_)
    word = text.word(prefixed.at)
    steps, odd_steps = _steps(text, prefixed, word, left)
    events = _events(text, prefixed, word, left, responses, tails[0])
    remaining = prefixed.of(np.flatnonzero(left))
    return Block(
        steps=steps,
        events=events,
        messages=remaining.rows,
        message=text.strings(remaining.at, np.maximum(remaining.end - remaining.at, 0)),
        rest_line=line[others],
        rest=rest,
        times=(rows.line, times),
        count=len(end),
        has_left=bool(np.isin(word[left], LEFT_WORDS).any()) or odd_steps,
    )


def _any(texts: Any, pattern: str) -> bool:
    found: Any = pc.match_substring_regex(texts, pattern)
    return bool(pc.any(found).as_py())


def _instants(dates: Dates, text: Text, at: Places) -> Places | None:
    """Return the instants of lines in file order from the places of their times; None where one is
    impossible."""
    if not len(at):
        return np.zeros(0, np.int64)
    days, clock = text.word(at) ^ DATE, text.word(at + 6) ^ CLOCK
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
    midnight = np.repeat(midnight, np.diff(starts, append=len(turns)))
    instant = midnight + (hour * 3600 + minute * 60 + second) * SECOND_NS
    instant[midnight == NO_TIME] = NO_TIME
    instants_of_lines: Places = np.repeat(instant, np.diff(turns, append=len(at)))
    return instants_of_lines


def _access_tails(
    text: Text, at: Places, end: Places
) -> tuple[list[tuple[str, str, int]], Places] | None:
    """Return the distinct methods, routes and statuses of access lines, and which of them each
    line has; None where one is of another form."""
    texts, codes = text.distinct(at, end, TAIL_BYTES)
    found = [ACCESS_TAIL.fullmatch(tail) for tail in texts]
    if not all(found):
        return None
    return [(m[1], m[2], int(m[3])) for m in found if m], codes


def _before(index: Places, times: Places, which: Places, last_at: int | None) -> Places:
    """Return, for each line of `which`, the last known instant of a line of `index` before it."""
    known = times != NO_TIME
    carried = NO_TIME if last_at is None else last_at
    instant = np.concatenate([[carried], times[known]])
    found: Places = instant[index[known].searchsorted(which)]
    return found


def _events(
    text: Text,
    prefixed: _Prefixed,
    word: Words,
    left: Flags,
    responses: _Found,
    tails: list[tuple[str, str, int]],
) -> Events:
    """Take the request lines; return them and the responses in the order of their lines.

    Ids with a space or a comma in them are rare: only when there is one, each is looked at.
    """
    for looks in (False, True):
        untaken = left.copy()
        found = [
            _received(text, prefixed, word, untaken, looks=looks),
            *_life(text, prefixed, word, untaken, looks=looks),
            responses,
        ]
        events = _in_order(text, found, tails)
        if looks or not holds_any(events.id_text, ID_STOPS):
            break
    left[:] = untaken
    return events


def _in_order(text: Text, found: list[_Found], tails: list[tuple[str, str, int]]) -> Events:
    """Put events of all kinds in the order of their lines."""
    names = found[0].rows.names
    line = np.concatenate([one.rows.line for one in found])
    order = _by_line(line)

    def joined(name: str) -> Places:
        return np.concatenate([getattr(one, name) for one in found])[order]

    rows = Rows(
        line[order],
        np.concatenate([one.rows.at_ns for one in found])[order],
        np.concatenate([one.rows.process for one in found])[order],
        names,
    )
    columns = {
        name: joined(name) for name in ("kind", "id_at", "id_length", "noun", "max_tokens", "tail")
    }
    id_text = text.strings(columns["id_at"], columns["id_length"])
    return Events(text, rows, tails=tails, id_text=id_text, **columns)


def _by_line(line: Places) -> Places:
    """Return the order of rows by their lines, of which no two are the same."""
    if not len(line):
        return line
    first = int(line.min())
    row = np.full(int(line.max()) - first + 1, -1, np.int64)
    row[line - first] = np.arange(len(line))
    return row[row >= 0]


def _steps(text: Text, prefixed: _Prefixed, word: Words, left: Flags) -> tuple[Steps, bool]:
    """Take the iteration lines; return their rows and whether some were not understood."""
    rank = np.zeros(len(prefixed), np.int64)
    owned = np.flatnonzero((word & MASKS[7]) == word_of(b"Engine "))
    at = prefixed.at
    which = word == word_of(b"Iteratio")
    if len(owned):
        at = at.copy()
        rank[owned], digits = text.number(at[owned] + 7)
        at[owned] += 9 + digits
        at[owned] = np.where(text.has(at[owned] - 2, b": "), at[owned], text.size)
        which[owned] = text.word(at[owned]) == word_of(b"Iteratio")
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
    codes, tails = _step_tails(text, at, found.end, good)
    columns["elapsed_ns"] = whole * 1_000_000 + np.where(
        point, fraction * TENS[np.clip(places, 0, 6)], 0
    )
    names = found.rows.names
    ranks = [RANK.match(name or "") for name in names]
    of_process = np.array([*(int(match[1]) if match else 0 for match in ranks), 0])
    engine = of_process[found.rows.process]
    if len(owned):
        is_owned = np.isin(index, owned)
        engine = np.where(is_owned, rank[index], engine)
    left[index[good]] = False
    is_odd = not good.all()
    rows = found.rows
    line, at_ns = rows.line, rows.at_ns
    if is_odd:
        line, at_ns, engine, codes = line[good], at_ns[good], engine[good], codes[good]
        columns = {name: values[good] for name, values in columns.items()}
    engines, engine = np.unique(engine, return_inverse=True)
    words = [str(n) for n in engines.tolist()]
    return Steps(line, at_ns, columns, engine, words, codes, tails), is_odd


def _step_tails(
    text: Text, at: Places, end: Places, good: Flags
) -> tuple[Places, list[tuple[float | None, bool]]]:
    """Return which KV use and filler mark each line has; clear `good` where the end is odd."""
    texts, codes = text.distinct(at, end, TAIL_BYTES)
    found = [STEP_TAIL.fullmatch(tail) for tail in texts]
    tails = [
        (
            float(m["kv"]) / 100 if m and m["kv"] else None,
            bool(m and (m["dummy"] or m["late"])),
        )
        for m in found
    ]
    good &= np.array([m is not None for m in found], np.bool_)[codes]
    good &= end - at <= TAIL_BYTES
    return codes, tails


def _received(text: Text, prefixed: _Prefixed, word: Words, left: Flags, *, looks: bool) -> _Found:
    """Take the lines whose limit stands before any quoted text; see `_events` for `looks`."""
    index = np.flatnonzero(word == word_of(b"Received"))
    index = index[text.has(prefixed.at[index], RECEIVED_WORD)]
    end = prefixed.end[index]
    at = prefixed.at[index] + len(RECEIVED_WORD)
    colon = _literal_places(text, at, end, PARAMS)
    good = colon > at
    limit = _literal_places(text, np.where(good, colon, -1), end, LIMIT)
    good &= limit >= 0
    # Every quoted text that Python prints with `repr` holds this quote, or is made of it.
    good &= ~_holds(text, colon, np.where(good, limit - colon, 0), b"'")
    limit = np.where(good, limit + len(LIMIT), text.size)
    value, digits = text.number(limit)
    after = text.bytes[np.minimum(limit + digits, text.size)]
    good &= (limit < end) & (digits > 0) & ((after == ord(",")) | (after == ord(")")))
    length = np.where(good, colon - at, 0)
    if looks:
        good &= ~_holds(text, at, length, b" ")
    taken = index[good]
    left[taken] = False
    return _Found.of(
        prefixed.of_rows(taken), RECEIVED, at[good], length[good], max_tokens=value[good]
    )


def _holds(text: Text, at: Places, length: Places, stops: bytes) -> Flags:
    """Return which of the texts hold one of these bytes."""
    sizes = np.unique(length)
    found = np.zeros(len(at), np.bool_)
    if len(at) and len(sizes) <= ALIKE_SIZES and int(sizes[-1]) <= ALIKE_BYTES:
        # Texts of one length side by side are looked through at once.
        for size in sizes[sizes > 0].tolist():
            which = length == size
            held: Any = text.strings(at[which], length[which]).buffers()[2]
            data = np.frombuffer(held, np.uint8)
            if not any((data == stop).any() for stop in stops):
                continue
            rows = data.reshape(-1, size)
            found[which] = np.logical_or.reduce([(rows == stop).any(axis=1) for stop in stops])
        return found
    pattern = "[" + re.escape(stops.decode()) + "]"
    holds = pc.match_substring_regex(text.strings(at, length), pattern)
    return np.asarray(holds.to_numpy(zero_copy_only=False), np.bool_)


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


def _life(
    text: Text, prefixed: _Prefixed, word: Words, left: Flags, *, looks: bool
) -> list[_Found]:
    """Take `<Word> request <id>.` with one id; see `_events` for `looks`."""
    found = []
    for literal, event, noun in REQUEST_WORDS:
        index = np.flatnonzero(word == word_of(literal[:8]))
        if not len(index):
            continue
        index = index[text.has(prefixed.at[index], literal)]
        at, end = prefixed.at[index] + len(literal), prefixed.end[index] - 1
        good = (end > at) & (text.bytes[end] == ord("."))
        if looks:
            good &= ~_holds(text, at, np.where(good, end - at, 0), ID_STOPS)
        index, at, end = index[good], at[good], end[good]
        left[index] = False
        nouns = np.full(len(index), noun)
        rows = prefixed.of_rows(index)
        found.append(_Found.of(rows, event, at, end - at, noun=nouns))
    return found
