"""Continuous batching under a budget of KV tokens; who does not fit is preempted and recomputed.

First come, first served. Running requests go first, each for the tokens that it lacks, up to a
budget of tokens a step; then waiting ones are admitted. Where no block is left, the youngest
running request loses its KV and goes to the head of the queue; its prompt and its output are
computed again.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

BLOCK = 16


@dataclass
class Request:
    """A request, what has become of it, and when."""

    name: str
    prompt: list[int]
    asked: int
    arrives_ns: int
    tokens: list[int] = field(default_factory=list)
    slot: int | None = None
    computed: int = 0
    ever_computed: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0
    arrived_at_ns: int = 0
    scheduled_at_ns: int = 0
    first_token_at_ns: int = 0
    ended_at_ns: int = 0
    requeued_at_ns: int = 0
    requeue_ns: int = 0

    @property
    def all_tokens(self) -> list[int]:
        """Its prompt and its output so far."""
        return self.prompt + self.tokens

    @property
    def done(self) -> bool:
        """Whether all tokens that were asked for are there."""
        return len(self.tokens) >= self.asked


@dataclass
class Piece:
    """Tokens of one request that a step computes."""

    request: Request
    start: int
    count: int
    had_output: bool
    again: int

    @property
    def is_decode(self) -> bool:
        """Whether it computes a request's newest token and nothing else."""
        whole = len(self.request.all_tokens) if self.had_output else 0
        return self.count == 1 and self.start + 1 == whole


@dataclass(frozen=True)
class Limits:
    """What a configuration allows."""

    most_running: int
    tokens_a_step: int
    kv_blocks: int


class Scheduler:
    """The queues and the blocks in use."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.slots = list(range(limits.most_running))[::-1]
        self.preemptions = 0

    @property
    def blocks_in_use(self) -> int:
        """Blocks that hold KV."""
        return sum(_blocks(r.computed) for r in self.running)

    def plan(self) -> list[Piece]:
        """Return what the next step computes, and give its requests their blocks."""
        budget = self.limits.tokens_a_step
        pieces: list[Piece] = []
        taken = self.blocks_in_use
        preempted = False
        for request in list(self.running):
            if request not in self.running or budget == 0:
                continue
            count = min(len(request.all_tokens) - request.computed, budget)
            more = _blocks(request.computed + count) - _blocks(request.computed)
            while taken + more > self.limits.kv_blocks:
                victim = self.running[-1]
                taken -= self._drop(victim, pieces)
                preempted = True
                if victim is request:
                    break
            if request not in self.running:
                continue
            taken += more
            budget -= count
            pieces.append(_piece(request, count))
        while not preempted and budget and self.waiting and self.slots:
            request = self.waiting[0]
            count = min(len(request.all_tokens), budget)
            if taken + _blocks(count) > self.limits.kv_blocks:
                break
            self._admit(self.waiting.popleft())
            taken += _blocks(count)
            budget -= count
            pieces.append(_piece(request, count))
        return pieces

    def finish(self, request: Request, at_ns: int) -> None:
        """Let a request go that has all its tokens."""
        request.ended_at_ns = at_ns
        self.running.remove(request)
        self._free(request)

    def _admit(self, request: Request) -> None:
        now = time.time_ns()
        request.slot = self.slots.pop()
        if request.requeued_at_ns:
            request.requeue_ns += now - request.requeued_at_ns
            request.requeued_at_ns = 0
        else:
            request.scheduled_at_ns = now
        self.running.append(request)

    def _drop(self, victim: Request, pieces: list[Piece]) -> int:
        """Preempt a request; return the blocks that come free, planned ones included."""
        planned = next((p for p in pieces if p.request is victim), None)
        held = _blocks(victim.computed + (planned.count if planned else 0))
        if planned:
            pieces.remove(planned)
        self.running.remove(victim)
        self._free(victim)
        victim.computed = 0
        victim.preemptions += 1
        victim.requeued_at_ns = time.time_ns()
        self.preemptions += 1
        self.waiting.appendleft(victim)
        return held

    def _free(self, request: Request) -> None:
        if request.slot is not None:
            self.slots.append(request.slot)
        request.slot = None


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK)


def _piece(request: Request, count: int) -> Piece:
    start = request.computed
    again = max(0, min(start + count, request.ever_computed) - start)
    return Piece(request, start, count, bool(request.tokens), again)
