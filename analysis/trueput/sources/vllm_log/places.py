"""Many places of one block at once: numbers, literals and texts at arrays of byte positions.

Every function takes arrays of positions and works on all of them with a few numpy calls. The block
is padded, so that a read may go past its end; what it then sees is no digit and no letter.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Places: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Words: TypeAlias = npt.NDArray[np.uint64]

PAD: Final = 128
LOW: Final = np.uint64(0x0101010101010101)
HIGH: Final = np.uint64(0x8080808080808080)
OVER_NINE: Final = np.uint64(0x7676767676767676)
ZEROS: Final = np.uint64(0x3030303030303030)
ONE: Final = np.uint64(1)
MASKS: Final = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
PAIRS: Final = (
    (1, np.uint64(0x00FF00FF00FF00FF)),
    (2, np.uint64(0x0000FFFF0000FFFF)),
    (4, np.uint64(0x00000000FFFFFFFF)),
)
INLINE: Final = 12
"""Arrow's string views hold texts of up to 12 bytes themselves."""


def word_of(text: bytes) -> np.uint64:
    """Return up to 8 bytes as the number that they are in memory."""
    return np.uint64(int.from_bytes(text, "little"))


def not_digits(words: Words) -> Words:
    """Return words whose bytes have their high bit set where `words` holds no value up to 9."""
    return (words | (words + OVER_NINE)) & HIGH


class Text:
    """The bytes of one block."""

    def __init__(self, data: bytes) -> None:
        padded = data + bytes(PAD)
        self.size = len(data)
        self.bytes = np.frombuffer(padded, np.uint8)
        self._raw = padded
        self._buffer = pa.py_buffer(padded)
        self._words = np.ndarray((len(padded) - 7,), np.uint64, padded, strides=(1,))
        self._mix = np.random.default_rng(1).integers(1, 1 << 62, 16, np.uint64) | ONE

    def holds(self, literal: bytes) -> bool:
        """Return whether `literal` stands anywhere."""
        return literal in self._raw

    def index(self, literal: bytes, at: int, end: int) -> int:
        """Return the first place of `literal` from `at` to `end`, -1 without."""
        return self._raw.find(literal, at, end)

    def word(self, at: Places) -> Words:
        """Return the 8 bytes at each place."""
        found: Words = self._words[at]
        return found

    def has(self, at: Places, literal: bytes) -> Flags:
        """Return whether `literal` stands at each place."""
        if len(literal) < 8:
            flags: Flags = (self.word(at) & MASKS[len(literal)]) == word_of(literal)
            return flags
        # All words of the literal are fetched at once: fetching is what costs.
        count = -(-len(literal) // 8)
        words = self._wide(count)[at].view(np.uint64).reshape(-1, count)
        flags = words[:, 0] == word_of(literal[:8])
        for index in range(1, count):
            part = literal[8 * index : 8 * index + 8]
            flags &= (words[:, index] & MASKS[len(part)]) == word_of(part)
        return flags

    def _wide(self, count: int) -> npt.NDArray[np.void]:
        size, kind = len(self._raw) - 8 * count + 1, np.dtype(f"V{8 * count}")
        return np.ndarray((size,), kind, self._raw, strides=(1,))

    def find(self, at: Places, stops: bytes, width: int) -> Places:
        """Return the place of the first byte of `stops` at or after each place; -1 where none is
        among the next `width` bytes, a multiple of 8."""
        found = np.full(len(at), -1, np.int64)
        open_ = np.arange(len(at))
        here = np.minimum(at, self.size)
        for _ in range(0, width, 8):
            word = self.word(here)
            hits = np.zeros(len(word), np.uint64)
            for stop in stops:
                other = word ^ (LOW * np.uint64(stop))
                hits |= (other - LOW) & ~other & HIGH
            seen = np.flatnonzero(hits)
            if len(seen):
                lowest = hits[seen]
                skip = np.bitwise_count((lowest & -lowest) - ONE) >> 3
                found[open_[seen]] = here[seen] + skip
                if len(seen) == len(open_):
                    break
                left = hits == 0
                open_, here = open_[left], here[left]
            here = np.minimum(here + 8, self.size)
        return found

    def number(self, at: Places) -> tuple[Places, Places]:
        """Return the number of up to 8 digits at each place, and how many digits it has."""
        digits = self.word(at) ^ ZEROS
        stop = not_digits(digits)
        count = np.bitwise_count((stop & -stop) - ONE) >> 3
        count = np.where(stop == 0, 8, count).astype(np.uint64)
        # The last digit goes to the highest byte; what was behind it is shifted out.
        shift = np.uint64(8) * (np.uint64(8) - count)
        digits = np.where(count == 0, np.uint64(0), digits << np.minimum(shift, np.uint64(63)))
        for size, mask in PAIRS:
            # Neighbours join: ones to pairs, pairs to fours, fours to the whole number.
            digits = (digits * np.uint64(10**size) + (digits >> np.uint64(8 * size))) & mask
        return digits.astype(np.int64), count.astype(np.int64)

    def distinct(self, at: Places, end: Places, width: int) -> tuple[list[str], Places]:
        """Return the distinct texts from `at` to `end`, and the number of each place's text.

        `width` is a multiple of 8; a text that is longer counts by its first `width` bytes and
        its length.
        """
        length = np.clip(end - at, 0, None)
        key = length.astype(np.uint64) * self._mix[-1]
        for index in range(0, width, 8):
            left = np.clip(length - index, 0, 8)
            if not left.any():
                break
            part = (self.word(np.minimum(at + index, self.size)) & MASKS[left]) + ONE
            part *= self._mix[index // 8 % 15]
            key ^= (part ^ (part >> np.uint64(29))) * self._mix[(index // 8 + 7) % 15]
        _, first, codes = np.unique(key, return_index=True, return_inverse=True)
        raw = self.bytes
        texts = [
            raw[at[i] : at[i] + min(int(length[i]), width)].tobytes().decode(errors="replace")
            for i in first
        ]
        return texts, codes

    def strings(self, at: Places, end: Places) -> pl.Series:
        """Return the texts from `at` to `end` without copying the long ones."""
        length = end - at
        views = np.zeros((len(at), 4), np.uint32)
        start = self.word(at)
        views[:, 0] = length
        views[:, 1] = start & MASKS[4]
        views[:, 3] = at
        short = length <= INLINE
        if short.any():
            size = length[short]
            low = start[short] & MASKS[np.minimum(size, 8)]
            high = self.word(at[short] + 8) & MASKS[np.clip(size - 8, 0, 4)]
            views[short, 1:3] = low.view(np.uint32).reshape(-1, 2)
            views[short, 3] = high & MASKS[4]
        buffers: list[Any] = [None, pa.py_buffer(views.data), self._buffer]
        return pl.Series(pa.Array.from_buffers(pa.string_view(), len(at), buffers))
