"""The KV blocks of an engine: how many requests hold, free and find again, and what was printed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trueput.attribution.records import EngineLimits
from trueput.attribution.replay.free_queue import FreeQueue
from trueput.attribution.replay.stories import Live

KV_RESOLUTION = 0.001
"""The share of its blocks to which an engine prints how many are in use."""


class BlockPool:
    """The blocks of one engine process. Which of them are free is each story's own matter."""

    def __init__(self, limits: EngineLimits) -> None:
        self.block = limits.block_size or 0
        """Tokens in a block; 0 where not stated."""
        self.unit = self.block or 1
        """Tokens found in the prefix cache come in these."""
        self.capacity = (limits.num_blocks or 1) - 1  # block 0 is the null block
        """Blocks that requests can hold; 0 where not stated."""
        self.caching = limits.prefix_caching is not False
        self.is_counted = bool(self.block) and self.capacity > 0

    def blocks(self, tokens: int) -> int:
        """Blocks that hold so many tokens."""
        return -(-tokens // self.block) if self.block else 0

    def take(self, queue: FreeQueue, before: int, after: int) -> None:
        """A request that had the KV of `before` tokens now has that of `after`."""
        queue.take(self.blocks(after) - self.blocks(before))

    def free(self, queue: FreeQueue, live: Live) -> None:
        """A request gives its blocks back; its last block is freed first."""
        # a prefix it found in the cache is another request's too, and likely still in use
        live.freed_blocks = max(0, self.blocks(live.computed) - live.shared)
        live.freed_full = live.computed // self.block if self.block else 0
        live.freed_at = queue.put(live.freed_blocks)

    def found_again(self, queue: FreeQueue, live: Live) -> int:
        """Tokens of a preempted request's prefix that nothing has overwritten yet.

        Its last block was freed first, so the prefix is overwritten last.
        """
        if not (self.caching and self.is_counted):
            return 0
        kept = max(0, live.freed_at + live.freed_blocks - queue.head)
        most = min(live.freed_full, (live.target - 1) // self.block)
        return max(0, min(live.shared + kept, most)) * self.block

    def reuse(self, queue: FreeQueue, live: Live, found: int) -> None:
        """Blocks of `found` tokens of its prefix leave the middle of the free queue."""
        count = found // self.block - live.shared if self.block else 0
        if count > 0:
            queue.take_out(live.freed_at + live.freed_blocks - count, count)

    def is_short(self, running: Sequence[Live], budget: int) -> bool:
        """Whether there are too few blocks for what the running requests are about to compute."""
        used = sum(
            self.blocks(live.computed + (1 if live.flexible else min(live.rest, budget)))
            for live in running
        )
        return used > self.capacity

    def shorten(self, queue: FreeQueue, used: float, freed: int = 0) -> None:
        """The queue is as long as printed, and `freed` blocks longer.

        Blocks of unknown owners that new requests found in the cache left it unseen: its head is
        further on by as many.
        """
        queue.shorten_to(self._free(used) + freed)

    def off(self, running: Sequence[Live], used: float) -> float | None:
        """Blocks by which a printed share in use differs from what requests hold; None where one of
        the two is not known."""
        if math.isnan(used) or not self.is_counted:
            return None
        if any(live.flexible or live.job.prompt is None for live in running):
            return None
        free = self._free(used)
        held = sum(self.blocks(live.computed) for live in running)
        # blocks found in the cache may be another's too, and are counted once
        shared = sum(live.shared for live in running)
        beyond = self.capacity - held - free
        return max(0.0, max(-beyond - shared, beyond) - KV_RESOLUTION * self.capacity)

    def _free(self, used: float) -> int:
        return round(self.capacity * (1 - used))
