"""A walk through one large JSON document in bounded memory: skip, take a value, take an array.

Not a validator: what is skipped is only followed for its brackets and strings. A document that
ends early, or that is no JSON where it is looked at, raises `BrokenError` at that place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from trueput.scan import Damage, byte_chunks

T = TypeVar("T")

_CHUNK: Final = 4 << 20
_WINDOW: Final = 64 << 10
_MAX_VALUE: Final = 256 << 20
_MAX_STRING: Final = 16 << 20
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_PLAIN: Final = re.compile(rb"[^\s,:\[\]{}\"]+")
_SPACE: Final = re.compile(rb"\s*")
_BOUNDARY: Final = re.compile(rb"\}\s*,\s*\Z")


class BrokenError(Exception):
    """The document ends or breaks here."""


class Walk:
    """A position in a JSON document that is read chunk by chunk."""

    def __init__(self, path: Path) -> None:
        self._chunks = byte_chunks(path, _CHUNK)
        self._text = b""
        self._at = 0
        self._tried = -1

    def _fill(self) -> bool:
        """Read one more chunk, forgetting what lies behind; False at the end of the file."""
        chunk = next(self._chunks, b"")
        if isinstance(chunk, Damage):
            raise BrokenError(chunk.text)
        self._text = self._text[self._at :] + chunk
        self._at = 0
        self._tried = -1
        return bool(chunk)

    def peek(self) -> bytes:
        """Return the next byte that is no space; b"" at the end of the document."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text):
                return self._text[self._at : self._at + 1]
            if not self._fill():
                return b""

    def take(self, byte: bytes) -> None:
        """Step over `byte`."""
        found = self.peek()
        if found != byte:
            what = "the end of the file" if not found else "something else"
            raise BrokenError(f"expected `{byte.decode()}`, found {what}")
        self._at += 1

    def members(self) -> Iterator[str]:
        """Yield the keys of the object at hand; the caller steps over each value."""
        self.take(b"{")
        while self.peek() != b"}":
            if self.peek() == b",":
                self.take(b",")
            key = self._string()
            self.take(b":")
            yield key
        self.take(b"}")

    def items(self) -> Iterator[None]:
        """Yield once for each value of the array at hand; the caller steps over each value."""
        self.take(b"[")
        while self.peek() != b"]":
            if self.peek() == b",":
                self.take(b",")
            yield None
        self.take(b"]")

    def _string(self) -> str:
        if self.peek() != b'"':
            raise BrokenError("expected a text")
        while (found := _STRING.match(self._text, self._at)) is None:
            if len(self._text) - self._at > _MAX_STRING or not self._fill():
                raise BrokenError("a text does not end")
        self._at = found.end()
        return found[0][1:-1].decode("utf-8", "replace")

    def skip(self) -> None:
        """Step over the value at hand without keeping it."""
        self._through(keep=False)

    def value(self) -> bytes:
        """Return the text of the value at hand."""
        return self._through(keep=True)

    def _through(self, *, keep: bool) -> bytes:
        first = self.peek()
        if first not in (b"{", b"[", b'"'):
            return self._plain()
        depth = 0
        start, at = self._at, self._at
        while True:
            found = _TOKEN.search(self._text, at)
            if found is None or (found.end() == len(self._text) and _is_open(found[0])):
                at = found.start() if found else len(self._text)
                start, at = self._more(start, at, keep=keep)
                continue
            at = found.end()
            token = found[0]
            depth += (token in b"[{") - (token in b"]}") if len(token) == 1 else 0
            if depth <= 0:
                self._at = at
                return self._text[start:at] if keep else b""

    def _more(self, start: int, at: int, *, keep: bool) -> tuple[int, int]:
        """Read on within a value; return where it and the search now stand."""
        self._at = start if keep else at
        if len(self._text) - self._at > _MAX_VALUE:
            raise BrokenError("a value is too large")
        shift = self._at
        if not self._fill():
            raise BrokenError("the document ends within a value")
        return start - shift, at - shift

    def _plain(self) -> bytes:
        while True:
            found = _PLAIN.match(self._text, self._at)
            if found is None:
                raise BrokenError("expected a value")
            if found.end() < len(self._text) or not self._fill():
                found = _PLAIN.match(self._text, self._at)
                assert found is not None
                self._at = found.end()
                return found[0]

    def array(self, item: type[T]) -> Iterator[tuple[list[T], int]]:
        """Yield the records of the array at hand in parts, each with the count of bad ones."""
        if self.peek() != b"[":
            self.skip()
            return
        self.take(b"[")
        many: msgspec.json.Decoder[list[T]] = msgspec.json.Decoder(list[item])  # type: ignore[valid-type]  # item is a class
        one: msgspec.json.Decoder[T] = msgspec.json.Decoder(item)
        while self.peek() != b"]":
            if self.peek() == b",":
                self.take(b",")
                continue
            for end in (self._array_end(), self._window()):
                records = self._records(many, end)
                if records is not None:
                    yield records, 0
                    break
            else:
                yield self._single(one)
        self.take(b"]")

    def _records(self, decoder: msgspec.json.Decoder[list[T]], end: int) -> list[T] | None:
        """Return the records up to `end` and step over them; None where they are no such run."""
        if end <= self._at:
            return None
        try:
            records = decoder.decode(b"[" + self._text[self._at : end] + b"]")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        self._at = end
        return records

    def _array_end(self) -> int:
        """Return where the array at hand, or all of it that is in memory, probably ends."""
        end = self._text.find(b"]", self._at)
        if end < 0:
            return self._boundary(len(self._text))
        if end == self._tried:
            return self._at
        self._tried = end
        return end

    def _window(self) -> int:
        """Return where a short run of whole records probably ends."""
        return self._boundary(min(self._at + _WINDOW, len(self._text)))

    def _boundary(self, at: int) -> int:
        for _ in range(8):
            at = self._text.rfind(b"{", self._at, at)
            if at <= self._at:
                break
            found = _BOUNDARY.search(self._text, max(self._at, at - 200), at)
            if found:
                return found.start() + 1
        return self._at

    def _single(self, decoder: msgspec.json.Decoder[T]) -> tuple[list[T], int]:
        before = self.value()
        try:
            return [decoder.decode(before)], 0
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return [], 1


def _is_open(token: bytes) -> bool:
    """Whether a token at the end of the text in memory may go on."""
    return token[:1] == b'"' and (len(token) == 1 or _STRING.fullmatch(token) is None)
