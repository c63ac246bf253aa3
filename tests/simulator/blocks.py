"""KV blocks: a pool with a queue of free blocks and, where wanted, a prefix cache.

Freed blocks join the queue at its tail, a request's last block first; new ones come from its head.
A free block keeps its content, and is found by it, until it is given to somebody else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from simulator.workload import Request


class Pool:
    """The KV blocks of an engine."""

    def __init__(self, num_blocks: int, block_size: int, *, caching: bool) -> None:
        self.size = block_size
        self.caching = caching
        self.capacity = num_blocks - 1  # block 0 is the null block
        self.free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, num_blocks))
        self.users = [0] * num_blocks
        self.content: dict[Hashable, int] = {}
        self.key_of: dict[int, Hashable] = {}

    def blocks(self, tokens: int) -> int:
        """Blocks that hold so many tokens."""
        return -(-tokens // self.size)

    @property
    def used_ratio(self) -> float:
        """Share of the blocks in use."""
        return 1 - len(self.free) / self.capacity

    def _key(self, one: Request, place: int) -> Hashable:
        if one.prefix is not None and (place + 1) * self.size <= one.prefix_tokens:
            return ("prefix", one.prefix, place)
        return ("own", one.index, place)

    def find(self, one: Request) -> list[int]:
        """Blocks of the request's beginning that the prefix cache holds; never all of it."""
        found: list[int] = []
        if self.caching:
            for place in range((one.target - 1) // self.size):
                block = self.content.get(self._key(one, place))
                if block is None:
                    break
                found.append(block)
        return found

    def fits(self, one: Request, tokens: int, found: list[int]) -> bool:
        """Whether the request can hold `tokens` in all, `found` being taken from the cache."""
        wanted = self.blocks(tokens) - len(one.blocks) - len(found)
        idle = sum(self.users[block] == 0 for block in found)
        return wanted <= len(self.free) - idle

    def take(self, one: Request, tokens: int, found: list[int]) -> None:
        """Gives the request the blocks for `tokens` in all, and records the full ones."""
        for block in found:
            if self.users[block] == 0:
                del self.free[block]
            self.users[block] += 1
        one.blocks += found
        one.hashed += len(found)
        while len(one.blocks) < self.blocks(tokens):
            block, _ = self.free.popitem(last=False)
            key = self.key_of.pop(block, None)
            if key is not None:
                del self.content[key]
            self.users[block] = 1
            one.blocks.append(block)
        if self.caching:
            for place in range(one.hashed, tokens // self.size):
                key = self._key(one, place)
                if key not in self.content:
                    self.content[key] = one.blocks[place]
                    self.key_of[one.blocks[place]] = key
            one.hashed = max(one.hashed, tokens // self.size)

    def release(self, one: Request) -> None:
        """Takes all blocks back, the last one first."""
        for block in reversed(one.blocks):
            self.users[block] -= 1
            if self.users[block] == 0:
                self.free[block] = None
        one.blocks, one.hashed = [], 0
