"""The numbers that are printed in many lines at once, and what is left of each line without them.

A number stands behind `: `, `, ` or `=`. Lines of one wording differ only in their numbers, so
that one of them tells what the numbers of all of them mean.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trueput.sources.vllm_log.places import PADDING, Flags, Places, Text

NUMBER: Final = re.compile(r"(: |, |=)([0-9]{1,15}(?:\.[0-9]{1,15})?)")
"""A number, with what stands before it."""
MOST_DIGITS, MOST_PLACES = 8, 7
"""A line with more digits before or behind a point is odd; fifteen fit a double exactly."""
NEWLINE, POINT, SPACE, EQUALS, COLON, COMMA = (np.uint8(ord(c)) for c in "\n. =:,")
ZERO, TEN = np.uint8(48), np.uint8(10)
TENS: Final = 10 ** np.arange(MOST_PLACES + 1, dtype=np.int64)


@dataclass(frozen=True)
class Printed:
    """What lines print: the wording of each line (a place in `wordings`), the numbers of all lines
    in order, and how many each line has. In a wording a zero byte stands for each number. `odd` are
    lines whose numbers may be others."""

    wording: Places
    wordings: list[bytes]
    odd: Flags
    numbers: npt.NDArray[np.float64]
    counts: Places


def read_numbers(messages: Sequence[str]) -> Printed:
    """Return what these lines print; one that holds a newline is odd."""
    joined = "\n".join(messages)
    if joined.count("\n") >= max(len(messages), 1):
        joined = "\n".join([message.replace("\n", "\0") for message in messages])
    lines = f"{joined}\n".encode(errors="replace") if messages else b""
    text = Text(lines + PADDING, len(lines))
    data = text.bytes[: text.size].copy()
    ends = np.flatnonzero(data == NEWLINE)
    at, length, value, is_long = _numbers(text, data)
    line = ends.searchsorted(at)
    odd = np.zeros(len(ends), np.bool_)
    odd[line[is_long]] = True
    odd[ends.searchsorted(np.flatnonzero(data == 0))] = True
    change = np.zeros(len(data) + 1, np.int8)
    change[at + 1] += 1
    change[at + length] -= 1
    kept = np.cumsum(change[:-1], dtype=np.int8) == 0
    data[at] = 0
    found: dict[bytes, int] = {}
    wording = [found.setdefault(w, len(found)) for w in data[kept].tobytes().split(b"\n")[:-1]]
    counts = np.bincount(line, minlength=len(ends))
    return Printed(np.array(wording, np.int64), list(found), odd, value, counts)


def _numbers(text: Text, data: Any) -> tuple[Places, Places, npt.NDArray[np.float64], Flags]:
    """Return place, length and value of each number, and which are too long for their value."""
    is_digit = (data - ZERO) < TEN
    edges = np.flatnonzero(np.diff(is_digit, prepend=False, append=False))
    starts, stops = edges[::2], edges[1::2]
    before, mark = data[starts - 1], data[starts - 2]
    led = (before == SPACE) & ((mark == COLON) | (mark == COMMA)) & (starts >= 2)
    led |= (before == EQUALS) & (starts >= 1)
    run = np.flatnonzero(led)
    at, end = starts[run], stops[run]
    whole = end - at
    following = np.minimum(run + 1, len(starts) - 1)
    has_fraction = (text.bytes[end] == POINT) & (starts[following] == end + 1)
    places = np.where(has_fraction, stops[following] - starts[following], 0)
    is_long = (whole > MOST_DIGITS) | (places > MOST_PLACES)
    number, _ = text.number(at)
    fraction, _ = text.number(end + 1)
    scale = TENS[np.minimum(places, MOST_PLACES)]
    # both sides are exact, so that the quotient is the nearest number
    value = (number * scale + np.where(places > 0, fraction, 0)) / scale
    return at, whole + np.where(places > 0, places + 1, 0), value, is_long
