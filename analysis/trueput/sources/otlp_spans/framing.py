"""JSON documents out of a file that holds one a line, one in all, a list of them, or pretty print.

Bounded: a document of more than MAX_DOCUMENT_BYTES is given up, a broken one does not take the
next with it, because a line that begins `{"resourceSpans"` always begins a document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from trueput.scan import MAX_LINE_BYTES, Damage, text_blocks

BLOCK_BYTES = 8 << 20
MAX_DOCUMENT_BYTES = 4 * MAX_LINE_BYTES

_DECODER = msgspec.json.Decoder(float_hook=Decimal)
_TOP = re.compile(rb'\[?\s*\{\s*"resource_?[sS]pans"')
_MARKS = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|$)|[{}\[\]]')
_FRAMES = (b"[", b"]", b",", b"],", b"[]")


@dataclass(frozen=True)
class Document:
    """One decoded JSON value and the line on which it begins."""

    value: Any
    line: int


@dataclass(frozen=True)
class Broken:
    """Text that is no JSON document: `kind` broken, cut (the file ends in it), long or damaged."""

    kind: str
    line: int | None
    text: str = ""


def documents(path: Path) -> Iterator[Document | Broken]:
    """Yield the documents of the file in order, and what could not be read between them."""
    pending = _Pending()
    opened: list[int] = []  # lines of lists whose documents stand on lines of their own
    for line in _lines(path):
        if isinstance(line, Broken):
            yield from pending.end("damaged" if line.kind == "damaged" else "broken")
            yield line
            continue
        number, text, ended = line
        text = text.strip()
        if not pending.parts and text in _FRAMES:
            opened += [number] if text == b"[" else []
            del opened[len(opened) - text.startswith(b"]") :]
        if text and not (text in _FRAMES and not pending.parts):
            yield from pending.add(number, text, ended)
    if pending.parts:
        yield from pending.end("cut")
    elif opened:
        yield Broken("cut", opened[0])


def _decode(text: bytes) -> Any:
    """Return the JSON value of `text`. Raises ValueError where it is none."""
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except ArithmeticError as error:
        raise ValueError("a number out of range") from error


class _Pending:
    """The lines of a document that has not ended yet."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.line = 0
        self.size = 0
        self.depth = 0
        self.skipping = False

    def add(self, number: int, text: bytes, ended: bool) -> Iterator[Document | Broken]:
        """Take a line; yield the document that ends with it."""
        top = _TOP.match(text) is not None
        if self.skipping and not top:
            return
        self.skipping = False
        if top or not self.parts:
            value: Any = None
            failed = False
            try:
                value = _decode(text.rstrip(b","))
            except ValueError:
                failed = True
            if not failed:
                yield from self.end("broken")
                yield Document(value, number)
                return
            if self.parts:
                yield from self.end("broken")
            self.line = number
            if text[:1] not in (b"{", b"["):
                yield Broken("broken" if ended else "cut", number)
                return
        self.parts.append(text)
        self.size += len(text)
        self.depth += _depth(text)
        if self.size > MAX_DOCUMENT_BYTES:
            yield from self.end("long")
        elif self.depth <= 0:
            yield self._close()

    def end(self, kind: str) -> Iterator[Broken]:
        """Give up what is pending."""
        if self.parts:
            yield Broken(kind, self.line)
            self.parts, self.size, self.depth = [], 0, 0
            self.skipping = kind == "long"

    def _close(self) -> Document | Broken:
        line, text = self.line, b"\n".join(self.parts).rstrip(b",")
        self.parts, self.size, self.depth = [], 0, 0
        try:
            return Document(_decode(text), line)
        except ValueError as error:
            return Broken("broken", line, str(error)[:80] if "deep" in str(error) else "")


def _depth(text: bytes) -> int:
    """Return how many braces and brackets a line opens more than it closes."""
    depth = 0
    for mark in _MARKS.findall(text):
        if mark in (b"{", b"["):
            depth += 1
        elif mark in (b"}", b"]"):
            depth -= 1
    return depth


def _lines(path: Path) -> Iterator[tuple[int, bytes, bool] | Broken]:
    """Yield (number, line, whether it ended); a line over the limit becomes one `Broken`."""
    held: list[bytes] = []
    held_line = size = 0
    for block in text_blocks(path, BLOCK_BYTES):
        if isinstance(block, Damage):
            yield Broken("damaged", None, block.text)
            return
        lines = block.data.split(b"\n")
        rest = lines.pop()
        for number, line in enumerate(lines, block.first_line):
            if size > MAX_DOCUMENT_BYTES:
                yield Broken("long", held_line)
            else:
                yield number, b"".join([*held, line]) if held else line, True
            held, size = [], 0
        if rest:
            held_line = held_line if held else block.first_line + len(lines)
            size += len(rest)
            if size <= MAX_DOCUMENT_BYTES:
                held.append(rest)
            else:
                held = []
    if size > MAX_DOCUMENT_BYTES:
        yield Broken("long", held_line)
    elif held:
        yield held_line, b"".join(held), False
