"""Blocks of bytes -> numbered lines of text, for formats of short lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from trueput.scan import Block

_OPEN_NUMBER: Final = re.compile(r"(?:\b0[xX][0-9a-fA-F]*|[0-9.]|, *)\Z")


class Line(NamedTuple):
    """One line without surrounding space, its 1-based number, and whether a newline ended it."""

    number: int
    text: str
    ended: bool
    lacks_digits: bool
    """Whether the file ends within the line, in a number or before one: it may be cut, and look
    whole."""


def lines_of(block: Block) -> Iterator[Line]:
    """Yield the lines of a block that hold something; a byte-order mark is taken off."""
    parts = block.data.decode("utf-8", "replace").split("\n")
    last = len(parts) - 1
    for position, part in enumerate(parts):
        text = part.strip().removeprefix("\ufeff").strip()
        if text:
            ended = position < last
            is_open = not ended and _OPEN_NUMBER.search(part) is not None
            yield Line(block.first_line + position, text, ended, is_open)
