"""Blocks of bytes -> numbered lines of text, for formats of short lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trueput.scan import Block


class Line(NamedTuple):
    """One line without surrounding space, its 1-based number, and whether a newline ended it."""

    number: int
    text: str
    ended: bool


def lines_of(block: Block) -> Iterator[Line]:
    """Yield the lines of a block that hold something; a byte-order mark is taken off."""
    parts = block.data.decode("utf-8", "replace").split("\n")
    last = len(parts) - 1
    for position, part in enumerate(parts):
        text = part.strip().removeprefix("\ufeff").strip()
        if text:
            yield Line(block.first_line + position, text, position < last)
