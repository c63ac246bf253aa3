"""Many places of one block at once: numbers, literals and texts at arrays of byte positions.

Every function takes arrays of positions and works on all of them with a few numpy calls. The block
is padded, so that a read may go past its end; what it then sees is no digit and no letter.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Places: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Words: TypeAlias = npt.NDArray[np.uint64]

PADDING: Final = bytes(128)
"""What stands behind the bytes of a block."""
LOW: Final = np.uint64(0x0101010101010101)
HIGH: Final = np.uint64(0x8080808080808080)
OVER_NINE: Final = np.uint64(0x7676767676767676)
ZEROS: Final = np.uint64(0x3030303030303030)
ONE: Final = np.uint64(1)
DIGIT_ZERO, TEN, ONE_BYTE = np.uint8(48), np.uint8(10), np.uint8(1)
NEWLINE, SPACE = np.uint8(10), np.uint8(32)
MASKS: Final = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
PAIRS: Final = (
    (1, np.uint64(0x00FF00FF00FF00FF)),
    (2, np.uint64(0x0000FFFF0000FFFF)),
    (4, np.uint64(0x00000000FFFFFFFF)),
)
MIX: Final = np.random.default_rng(1).integers(1, 1 << 62, 32, np.uint64) | ONE
HALF: Final = np.uint64(29)
HEX: Final = np.isin(np.arange(256), np.frombuffer(b"0123456789abcdef", np.uint8))
LENGTHS: Final = 24
"""So many different lengths of texts are copied length by length; more are copied one by one."""


def word_of(text: bytes) -> np.uint64:
    """Return up to 8 bytes as the number that they are in memory."""
    return np.uint64(int.from_bytes(text, "little"))


def not_digits(words: Words) -> Words:
    """Return words whose bytes have their high bit set where `words` holds no value up to 9."""
    return (words | (words + OVER_NINE)) & HIGH


def codes_of(keys: Any) -> tuple[Places, Places]:
    """Return the number of each key among the distinct ones, and the first place of each."""
    codes = keys.dictionary_encode().indices.to_numpy()
    # Numbers are given in the order of first places.
    first = np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))
    return codes, first


class Text:
    """The bytes of one block: the first `size` of `padded`, with PADDING behind them.

    They are not copied: they must stand as long as they are looked at.
    """

    def __init__(self, padded: bytes | bytearray, size: int) -> None:
        self.size = size
        self.bytes = np.frombuffer(padded, np.uint8)
        self._raw = padded
        self._words = np.ndarray((len(padded) - 7,), np.uint64, padded, strides=(1,))

    @cached_property
    def controls(self) -> tuple[Places, Any]:
        """The place of each control character, and what it is (tabs and newlines are some)."""
        at = np.flatnonzero(self.bytes[: self.size] < SPACE)
        return at, self.bytes[at]

    def line_ends(self) -> Places:
        """Return the place of each newline."""
        at, found = self.controls
        is_end = found == NEWLINE
        return at if is_end.all() else at[is_end]

    def slice(self, at: int, end: int) -> bytes:
        """Return the bytes from `at` to `end`."""
        return bytes(self._raw[at:end])

    def is_ascii(self) -> bool:
        """Return whether all bytes are ASCII, those behind the block included."""
        return self._raw.isascii()

    def index(self, literal: bytes, at: int, end: int) -> int:
        """Return the first place of `literal` from `at` to `end`, -1 without."""
        return self._raw.find(literal, at, end)

    def word(self, at: Places) -> Words:
        """Return the 8 bytes at each place."""
        found: Words = self._words[at]
        return found

    def words(self, at: Places, count: int) -> Words:
        """Return the next `count` words at each place, shape (places, count)."""
        found: Words = self._wide(8 * count)[at].view(np.uint64).reshape(-1, count)
        return found

    def has(self, at: Places, literal: bytes) -> Flags:
        """Return whether `literal` stands at each place."""
        if len(literal) < 8:
            flags: Flags = (self.word(at) & MASKS[len(literal)]) == word_of(literal)
            return flags
        # All words of the literal are fetched at once: fetching is what costs.
        count = -(-len(literal) // 8)
        words = self.words(at, count)
        flags = words[:, 0] == word_of(literal[:8])
        for index in range(1, count):
            part = literal[8 * index : 8 * index + 8]
            flags &= (words[:, index] & MASKS[len(part)]) == word_of(part)
        return flags

    def is_digit(self, at: Places) -> Flags:
        """Return whether a digit stands at each place."""
        return np.asarray((self.bytes[at] - DIGIT_ZERO) < TEN, np.bool_)

    def is_hex_word(self, at: Places) -> Flags:
        """Return whether 8 hexadecimal digits in lower case stand at each place."""
        return np.asarray(HEX[self.word(at).view(np.uint8)].reshape(-1, 8).all(axis=1), np.bool_)

    def _wide(self, size: int) -> npt.NDArray[np.void]:
        count, kind = len(self._raw) - size + 1, np.dtype(f"V{size}")
        return np.ndarray((count,), kind, self._raw, strides=(1,))

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
        # Without any stop the word below is all ones: 64 bits, 8 digits.
        count = np.bitwise_count((stop & -stop) - ONE).astype(np.uint64)
        count >>= np.uint64(3)
        # The last digit goes to the highest byte; what was behind it is shifted out.
        shift = (np.uint64(8) - count) << np.uint64(3)
        none = count == 0
        if none.any():
            digits[none] = 0
            shift[none] = 0
        digits <<= shift
        for size, mask in PAIRS:
            # Neighbours join: ones to pairs, pairs to fours, fours to the whole number.
            higher = digits >> np.uint64(8 * size)
            digits *= np.uint64(10**size)
            digits += higher
            digits &= mask
        return digits.view(np.int64), count.view(np.int64)

    def kinds(self, at: Places, size: int, exact: int) -> tuple[Places, Places]:
        """Group places by the next `size` bytes; from byte `exact` on, any digit counts as the
        same. Return the number of each place's group, and the first member of each group."""
        window: Any = self._wide(size)[at].view(np.uint8)
        # 0 where a digit is, 255 elsewhere
        kept = ((window - DIGIT_ZERO) < TEN).view(np.uint8)
        kept -= ONE_BYTE
        if exact:
            kept.reshape(-1, size)[:, :exact] = 255
        window &= kept
        buffers: list[Any] = [None, pa.py_buffer(window)]
        keys = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(at), buffers)
        return codes_of(keys)

    def line(self, at: int) -> bytes:
        """Return the bytes from `at` to the end of the line, without its newline."""
        end = self._raw.find(b"\n", at, self.size)
        return self.slice(at, end if end >= 0 else self.size)

    def distinct(self, at: Places, end: Places, width: int) -> tuple[list[str], Places]:
        """Return the distinct texts from `at` to `end`, and the number of each place's text.

        `width` is a multiple of 8; a text that is longer counts by its first `width` bytes and
        its length.
        """
        length = np.clip(end - at, 0, None)
        key = length.astype(np.uint64) * MIX[-1]
        at = np.minimum(at, self.size)
        longest, shortest = int(length.max(initial=0)), int(length.min(initial=width))
        for index in range(-(-min(longest, width) // 8)):
            word = self._words[at + 8 * index]
            if 8 * index + 8 > shortest:
                word &= MASKS[np.clip(length - 8 * index, 0, 8)]
            _mix(word, index, key)
        codes, first = codes_of(pa.array(key))
        texts = [
            self.slice(int(at[i]), int(at[i]) + min(int(length[i]), width)).decode(errors="replace")
            for i in first
        ]
        return texts, codes

    def strings(self, at: Places, length: Places) -> pa.StringArray:
        """Return the texts of these lengths at these places; a length below 0 gives NULL."""
        sizes = np.maximum(length, 0)
        offsets = np.zeros(len(at) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        lengths = np.zeros(0, np.int64)
        if len(at) and int(sizes.max()) < 1 << 16:
            lengths = np.flatnonzero(np.bincount(sizes))
        if 0 < len(lengths) <= LENGTHS:
            data: Any = np.empty(int(offsets[-1]), np.uint8)
            for size in lengths:
                if size:
                    which = np.flatnonzero(sizes == size) if len(lengths) > 1 else slice(None)
                    kind = np.dtype(f"V{size}")
                    out = np.ndarray((len(data) - size + 1,), kind, data, strides=(1,))
                    out[offsets[:-1][which]] = self._wide(int(size))[at[which]]
        else:
            raw = self._raw
            ends = (at + sizes).tolist()
            data = b"".join([raw[a:b] for a, b in zip(at.tolist(), ends, strict=True)])
        missing = length < 0
        valid = _validity(~missing) if missing.any() else None
        small: Any = offsets.astype(np.int32)
        return pa.StringArray.from_buffers(len(at), pa.py_buffer(small), pa.py_buffer(data), valid)


def only(texts: pa.StringArray, which: Flags) -> pa.StringArray:
    """Return the same texts, NULL where not `which`; nothing is copied. No text is NULL there."""
    buffers: list[Any] = texts.buffers()
    _, offsets, data = buffers
    return pa.StringArray.from_buffers(len(texts), offsets, data, _validity(which))


def holds_any(texts: pa.StringArray, stops: bytes) -> bool:
    """Return whether one of these bytes stands in any of the texts, which begin at offset 0."""
    held: Any = texts.buffers()[2]
    data = np.frombuffer(held, np.uint8)
    return any(bool((data == stop).any()) for stop in stops)


def _validity(which: Flags) -> Any:
    bits: Any = np.packbits(which, bitorder="little")
    return pa.py_buffer(bits)


def _mix(word: Words, index: int, key: Words) -> None:
    """Stir the word at one place of each row into its key; the words are used up."""
    word += ONE
    word *= MIX[index % 15]
    word ^= word >> HALF
    word *= MIX[15 + index % 16]
    key ^= word
