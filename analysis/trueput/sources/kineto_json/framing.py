"""Bytes of a trace -> segments of whole events, without reading the events.

Writers put the same bytes between any two events (`},` newline `  {`). They are learnt from the
first events; a segment is cut at all of them at once. Where the bytes were no border after all
(an object inside an event), the pieces are no JSON, and the caller repairs them. Events that are
surely not wanted are left out by their first bytes, also learnt: nine of ten in a real trace.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

MAX_HEAD = 16 << 20
MAX_EVENT = 16 << 20
"""More bytes without a border between events are given up, so that they cannot fill the memory."""
MAX_TAIL = 8 << 20
_PAD = 80
_SAMPLE = 256 << 10
_CLOSE = ord("}")

_LIST = re.compile(rb'"traceEvents"\s*:\s*\[|\A(?:\xef\xbb\xbf)?\s*\[(?=\s*[{\]])')
_BORDER = re.compile(
    rb'\}\s{0,64},\s{0,64}\{(?=\s{0,64}("(?:ph|name|cat|pid|tid|ts|args|id|bp|s)"))'
)
_CONTENT = re.compile(rb"[^ \t\r\n,]")
_FIRST = re.compile(rb'\{\s*"ph"\s*:\s*"([^"\\])"(?:\s*,\s*"cat"\s*:\s*"([^"\\]*)")?')


@dataclass(frozen=True)
class Segment:
    """Whole events within `data`: where each starts and how long it is. `place` is data[0]'s."""

    data: bytes
    place: int
    starts: Ints
    lengths: Ints


@dataclass
class Framer:
    """Cuts a stream into segments. Afterwards `rest` holds the last event and what follows it.

    `wanted` are the categories (lower case) that must not be left out. `head` is the text before
    the list of events. `end_at` ends the list at a place: what follows becomes the rest.
    """

    wanted: frozenset[str]
    size: int
    head: bytes = b""
    begun: bool = False
    rest: bytes = b""
    rest_place: int = 0
    ended: bool = False
    given_up: int = 0
    given_up_place: int | None = None
    _borders: list[bytes] = field(default_factory=list)

    def segments(self, chunks: Iterable[bytes]) -> Iterator[Segment]:
        """Yield the segments of a stream; the caller may end it meanwhile with `end_at`."""
        for chunk in _gathered(chunks, self.size):
            data = self.rest + chunk
            if self.ended:
                self.rest = data[:MAX_TAIL]
                continue
            if not self.begun:
                match = _LIST.search(data)
                if match is None:
                    self.rest = data
                    if len(data) > MAX_HEAD:
                        return
                    continue
                self.begun, self.head = True, data[: match.start()]
                self.rest_place = match.end()
                data = data[match.end() :]
            segment, used = self._cut(data + b" " * _PAD)
            self.rest = data[used:]
            self.rest_place += used
            if segment is not None:
                yield segment
            if not self.ended and len(self.rest) > MAX_EVENT:
                self._give_up()

    def after(self, segment: Segment, at: int, later: Sequence[Segment]) -> bytes:
        """Return the stream from `at` in a segment on; `later` are those taken since."""
        text, place = segment.data[at:-_PAD], segment.place + at
        for each in later:
            text = text[: each.place - place] + each.data[:-_PAD]
        return text[: self.rest_place - place] + self.rest

    def end_at(self, place: int, rest: bytes) -> None:
        """End the list of events at a place of the stream; keep what follows as the rest."""
        self.rest, self.rest_place, self.ended = rest[:MAX_TAIL], place, True

    def _give_up(self) -> None:
        self.given_up += 1
        if self.given_up_place is None:
            self.given_up_place = self.rest_place
        self.rest_place += len(self.rest)
        self.rest = b""

    def _cut(self, padded: bytes) -> tuple[Segment | None, int]:
        """Cut at every border; return the segment and where the last, open event starts."""
        if not self._borders:
            self._borders = _learn(padded)
        octets = np.frombuffer(padded, np.uint8)
        words: Words = np.ndarray((len(padded) - 7,), "<u8", padded, 0, (1,))
        closers = np.flatnonzero(octets[:-_PAD] == _CLOSE)
        opens = np.zeros(len(closers), np.int64)
        for border in self._borders:
            hit = _matches(words, closers, border)
            opens[hit] = closers[hit] + border.index(b"{")
        cut = np.flatnonzero(opens)
        if not len(cut):
            if len(padded) > self.size:
                self._borders = _learn(padded) or self._borders
            return None, 0
        found = _CONTENT.search(padded)
        first = found.start() if found else 0
        starts = np.concatenate([np.array([first], np.int64), opens[cut[:-1]]])
        ends = closers[cut] + 1
        inner = np.diff(cut, prepend=-1)
        keep = self._kept(padded, words, starts, inner) & (ends - starts > 12)
        segment = Segment(padded, self.rest_place, starts[keep], (ends - starts)[keep])
        return segment, int(opens[cut[-1]])

    def _kept(self, data: bytes, words: Words, starts: Ints, inner: Ints) -> Bits:
        """Tell which events may be wanted. One with more braces than its like is always kept."""
        keep = np.ones(len(starts), np.bool_)
        unwanted: dict[bytes, int] = {}
        for at in np.linspace(0, len(starts) - 1, 48).astype(np.int64):
            start = int(starts[at])
            prefix = self._unwanted_prefix(data[start : start + 64])
            if prefix:
                unwanted[prefix] = min(2, max(unwanted.get(prefix, 1), int(inner[at])))
        for prefix, braces in unwanted.items():
            keep &= ~(_matches(words, starts, prefix) & (inner <= braces))
        return keep

    def _unwanted_prefix(self, start: bytes) -> bytes:
        match = _FIRST.match(start)
        if match is None:
            return b""
        if match[1] in b"BE":  # a begin is no operation that is read, and is counted
            return b""
        if match[1] != b"X":
            return start[: match.end(1) + 1]
        if match[2] is None or match[2].decode("latin-1").lower() in self.wanted:
            return b""
        return match[0]


def _gathered(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Join chunks until they hold `size` bytes, and cut those that hold more."""
    held: list[bytes] = []
    length = 0
    for chunk in chunks:
        for at in range(0, len(chunk), size):
            piece = chunk[at : at + size]
            held.append(piece)
            length += len(piece)
            if length >= size:
                yield b"".join(held)
                held, length = [], 0
    if held:
        yield b"".join(held)


def _learn(data: bytes) -> list[bytes]:
    """Return the commonest bytes between events, from `}` on: up to `{` where a line ends between.

    On one line the first key belongs to them, because objects inside an event look the same.
    """
    found: Counter[bytes] = Counter()
    for match in _BORDER.finditer(data, 0, _SAMPLE):
        one_line = b"\n" not in match[0]
        found[data[match.start() : match.end(1)] if one_line else match[0]] += 1
    return [border for border, _ in found.most_common(6)]


def _matches(words: Words, at: Ints, pattern: bytes) -> Bits:
    """Tell at which of the places in `at` the pattern stands (the data is padded behind)."""
    inside = at + len(pattern) <= len(words)
    hit = inside
    for offset in range(0, len(pattern), 8):
        part = pattern[offset : offset + 8]
        mask = np.uint64((1 << 8 * len(part)) - 1)
        value = np.uint64(int.from_bytes(part, "little"))
        places = np.minimum(at + offset, len(words) - 1)
        hit = hit & ((words[places] & mask) == value)
    return hit
