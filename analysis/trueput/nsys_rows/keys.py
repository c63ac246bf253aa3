"""Which (process, correlation id) pairs have an operation: one bit each, in bounded memory."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from trueput.nsys_rows.tables import Flags, Ints

_PAGE_BITS: Final = 20
_MOST_PAGES: Final = 512
"""64 MiB of bits; ids of a capture are dense, so that this is some 500 million operations."""


class KeySet:
    """A set of correlation ids for each process. Once it is full it holds every id."""

    def __init__(self) -> None:
        self._pages: dict[tuple[int | None, int], npt.NDArray[np.uint8]] = {}
        self.full = False

    def add(self, process: int | None, ids: Ints) -> None:
        """Add the ids of one process; 0 and negative ones are none."""
        pages = ids >> _PAGE_BITS
        for page in _different(pages):
            if page < 0 or self.full:
                continue
            bits = np.zeros(1 << _PAGE_BITS, np.bool_)
            mine = (
                ids
                if len(ids) and pages[0] == page and (pages == page).all()
                else ids[pages == page]
            )
            bits[mine & ((1 << _PAGE_BITS) - 1)] = True
            if page == 0:
                bits[0] = False
            packed = np.packbits(bits, bitorder="little")
            held = self._pages.get((process, page))
            if held is not None:
                held |= packed
            elif len(self._pages) < _MOST_PAGES:
                self._pages[process, page] = packed
            else:
                self.full = True

    def holds(self, process: int | None, ids: Ints) -> Flags:
        """Return for each id whether the process has an operation of it."""
        if self.full:
            return ids > 0
        found = np.zeros(len(ids), np.bool_)
        pages = ids >> _PAGE_BITS
        for page in _different(pages):
            held = self._pages.get((process, page))
            if held is None:
                continue
            here = (pages == page).nonzero()[0]
            low = ids[here] & ((1 << _PAGE_BITS) - 1)
            found[here] = (held[low >> 3] >> (low & 7).astype(np.uint8)) & 1
        return found


def _different(pages: Ints) -> list[int]:
    """The different values of a column that has few of them."""
    if not len(pages):
        return []
    low, high = int(pages.min()), int(pages.max())
    if low == high:
        return [low]
    return [int(p) for p in np.unique(pages)]
