"""The queue of an engine's free KV blocks: served at its head, freed blocks join at its tail.

Blocks in it still hold what they held, so that a prefix can be found again until its blocks come
to the head. Only positions are kept: the first block that was ever free is at 0, and who knows the
position of what it freed knows how much of it the head has passed.
"""

from __future__ import annotations

from bisect import insort


class FreeQueue:
    """Free blocks as positions in the endless order in which they became free."""

    __slots__ = ("head", "holes", "tail")

    def __init__(self, blocks: int) -> None:
        self.head = 0
        """Position of the block that is taken next."""
        self.tail = blocks
        """Position of the block that is freed next."""
        self.holes: list[tuple[int, int]] = []
        """Position and number of blocks that left the queue ahead of their turn, in order."""

    def clone(self) -> FreeQueue:
        """An independent copy."""
        twin = FreeQueue.__new__(FreeQueue)
        twin.head, twin.tail = self.head, self.tail
        twin.holes = self.holes.copy() if self.holes else []
        return twin

    @property
    def blocks(self) -> int:
        """Blocks that are in the queue."""
        return self.tail - self.head - sum(n for _, n in self.holes)

    def take(self, blocks: int) -> None:
        """So many blocks leave at the head."""
        self.head += blocks
        while self.holes and self.head >= self.holes[0][0]:
            self.head += self.holes.pop(0)[1]

    def put(self, blocks: int) -> int:
        """So many blocks join at the tail; returns the position of the first."""
        at = self.tail
        self.tail += blocks
        return at

    def take_out(self, at: int, blocks: int) -> None:
        """So many blocks leave from position `at` on."""
        insort(self.holes, (at, blocks))

    def shorten_to(self, blocks: int) -> None:
        """Blocks beyond so many left unseen; they are taken to have left at the head."""
        unseen = self.blocks - blocks
        if unseen > 0:
            self.head += unseen
            self.holes = [hole for hole in self.holes if hole[0] > self.head]
