"""The best few of many candidates, and how much may be spent on looking for them."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")
Rank = tuple[int, int]

MOVES_AT_ONCE = 150_000
MOVES_EACH = 5
"""Moves of a request that each request printed in an iteration allows."""


class Beam(Generic[Item]):
    """The `width` cheapest items, one for each key: of equal cost those of lower rank.

    `outlived` is called with an item and each of the same key that it is kept in place of.
    """

    def __init__(self, width: int, outlived: Callable[[Item, Item], None] | None = None) -> None:
        self.width = width
        self._outlived = outlived
        self._found: dict[object, tuple[float, Rank, Item]] = {}
        self._costs: list[float] = []

    def add(self, key: object, cost: float, rank: Rank, item: Item) -> None:
        """Offers an item; of one key the cheapest is kept."""
        known = self._found.get(key)
        if known is not None:
            is_kept = (known[0], known[1]) <= (cost, rank)
            if self._outlived is not None:
                self._outlived(*((known[2], item) if is_kept else (item, known[2])))
            if is_kept:
                return
            del self._costs[bisect_left(self._costs, known[0])]
        self._found[key] = (cost, rank, item)
        insort(self._costs, cost)

    @property
    def worst(self) -> float:
        """What dearer than this is offered is not among the best; infinite while there is room."""
        return self._costs[self.width - 1] if len(self._costs) >= self.width else math.inf

    def best(self, within: float) -> list[Item]:
        """The best items, cheapest first, none dearer than the first by more than `within`."""
        found = sorted(self._found.values(), key=lambda x: x[:2])[: self.width]
        return [item for cost, _, item in found if cost <= found[0][0] + within]


class Allowance:
    """Moves that a search may make: so many at once, and more with everything it gets through.

    What is spent is thereby at most in proportion to the input, however many ways there are.
    """

    def __init__(self) -> None:
        self.made = 0
        self.granted = MOVES_AT_ONCE

    def grow(self, items: int) -> None:
        """The search has come to so many more items."""
        self.granted += MOVES_EACH * items

    def spend(self, moves: int) -> None:
        """So many moves were made."""
        self.made += moves

    @property
    def is_spent(self) -> bool:
        """Whether only what must be may still be made."""
        return self.made > self.granted
