"""Top-level JSON objects of a result file, value by value, without decoding what is not wanted.

A load client writes one large object, or several one after the other. `objects` yields each as a
map from key to the raw bytes of its value, so that generated texts are never decoded. It accepts
what strict parsers refuse (bare `Infinity`, objects in a row, bytes between them) and keeps the
complete values of an object that was cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

Buffer: TypeAlias = bytes | memoryview

_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SCALAR: Final = re.compile(rb'[^\s,\[\]{}":]+')
_MARK: Final = re.compile(rb'["\[\]{}]')
_CONSTANTS: Final = (b"NaN", b"Infinity")


@dataclass(frozen=True)
class Found:
    """One top-level object: its raw values, where it starts, and what was lost of it."""

    fields: dict[str, Buffer]
    line: int
    truncated: bool = False
    """The data ends inside this object; an array that was cut keeps its whole elements."""
    broken: bool = False
    """Something that is no JSON stands inside it; what came before is kept."""
    cut: frozenset[str] = field(default_factory=frozenset)
    """Keys whose value was cut."""


@dataclass(frozen=True)
class Junk:
    """Bytes outside of any object."""

    line: int
    size: int


def objects(data: bytes) -> Iterator[Found | Junk]:
    """Yield the top-level objects of `data` in order, and the bytes that belong to none."""
    try:
        whole = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        yield from _walk(data)
        return
    yield Found({key: memoryview(raw) for key, raw in whole.items()}, 1)


def _walk(data: bytes) -> Iterator[Found | Junk]:
    at, counted, line = 0, 0, 1
    while at < len(data):
        start = data.find(b"{", at)
        stop = len(data) if start < 0 else start
        line += data.count(b"\n", counted, at)
        counted = at
        if junk := data[at:stop].strip(b" \t\r\n,\x1e\xef\xbb\xbf"):
            yield Junk(line, len(junk))
        if start < 0:
            return
        line += data.count(b"\n", counted, start)
        counted = start
        found, at = _object(data, start, line)
        yield found


def _object(data: bytes, start: int, line: int) -> tuple[Found, int]:
    """Read the object whose brace is at `start`; return it and where to go on."""
    fields: dict[str, Buffer] = {}
    view = memoryview(data)
    at = start + 1
    while True:
        at = _skip(data, at)
        head = data[at : at + 1]
        if head == b"}":
            return Found(fields, line), at + 1
        if head == b"," and fields:
            at = _skip(data, at + 1)
        key = _STRING.match(data, at)
        if key is None:
            return _broken(data, at, fields, line)
        colon = _skip(data, key.end())
        if data[colon : colon + 1] != b":":
            return _broken(data, colon, fields, line)
        at = _skip(data, colon + 1)
        end, children_end = _value_end(data, at)
        name = _text(key.group())
        if end is None:
            kept = _whole_elements(data, at, children_end)
            if kept is None:
                return Found(fields, line, truncated=True), len(data)
            fields[name] = kept
            return Found(fields, line, truncated=True, cut=frozenset({name})), len(data)
        if end == at:
            return _broken(data, at, fields, line)
        fields[name] = view[at:end]
        at = end


def _skip(data: bytes, at: int) -> int:
    match = _SPACE.match(data, at)
    return match.end() if match else at


def _broken(data: bytes, at: int, fields: dict[str, Buffer], line: int) -> tuple[Found, int]:
    """Give up on an object at `at`; the next one starts a line with its brace."""
    if at >= len(data) or (data[at : at + 1] == b'"' and not _STRING.match(data, at)):
        return Found(fields, line, truncated=True), len(data)
    following = data.find(b"\n{", at)
    return Found(fields, line, broken=True), len(data) if following < 0 else following + 1


def _value_end(data: bytes, start: int) -> tuple[int | None, int]:
    """Return the end of the value at `start` (None where the data ends first).

    Beside it stands the end of the last whole child of an array or object.
    """
    if data[start : start + 1] not in (b"[", b"{", b'"'):
        scalar = _SCALAR.match(data, start)
        if scalar is None:
            return (None if start >= len(data) else start), start
        return (None if scalar.end() >= len(data) else scalar.end()), start
    depth, at, child_end = 0, start, start
    while True:
        mark = _MARK.search(data, at)
        if mark is None:
            return None, child_end
        sign = mark.group()
        at = mark.end()
        if sign == b'"':
            text = _STRING.match(data, mark.start())
            if text is None:
                return None, child_end
            at = text.end()
        else:
            depth += 1 if sign in b"[{" else -1
        if depth == 0:
            return at, child_end
        if depth == 1 and sign not in b"[{":
            child_end = at


def _whole_elements(data: bytes, start: int, child_end: int) -> bytes | None:
    """Return the array that was cut, closed after its last whole element; None for no array."""
    if data[start : start + 1] != b"[":
        return None
    end = child_end
    if child_end == start:  # an array of numbers: the last one may be incomplete
        comma = data.rfind(b",", start)
        end = comma if comma > start else start + 1
    return data[start:end] + b"]"


def _text(raw: bytes) -> str:
    try:
        value = json.loads(raw.decode("utf-8", "replace"), strict=False)
    except ValueError:
        return raw.decode("utf-8", "replace")
    return str(value)


def value(raw: Buffer) -> Any:
    """Decode one small raw value; None where it is no JSON. Bare Infinity and NaN are floats."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    try:
        return json.loads(bytes(raw).decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None


def elements(raw: Buffer) -> list[Buffer] | None:
    """Return the raw elements of an array, undecoded; None where the value is no array."""
    try:
        return [memoryview(item) for item in msgspec.json.decode(raw, type=list[msgspec.Raw])]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    decoded = value(raw)
    if not isinstance(decoded, list):
        return None
    return [json.dumps(item).encode() for item in decoded]


def kind(raw: Buffer) -> str:
    """Return the first character of a raw value, which tells its JSON type."""
    return chr(raw[0]) if len(raw) else ""
