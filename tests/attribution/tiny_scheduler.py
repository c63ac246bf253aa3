"""A small first-come-first-served scheduler with paged KV: it makes runs whose truth is known.

Written from the scheduling rules alone and sharing no code with the replay: running requests
first; where a block is wanting the last one is preempted to the head of the queue and nothing is
admitted; an admitted request must fit whole. No prefix caching.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from trueput.attribution.records import EngineLimits, Steps, Stream, Totals

START_NS = 1_700_000_000 * 10**9
PAUSE_NS = 1_000_000


@dataclass
class Request:
    """A request to be served, and what came of it."""

    name: str
    arrives_ns: int
    prompt: int
    output: int
    asked: int | None = None  # more than `output` where an end token came first
    computed: int = 0
    produced: int = 0
    high: int = 0
    token_at_ns: list[int] = field(default_factory=list)
    preempted_at_ns: int | None = None
    first_scheduled_ns: int | None = None
    preemptions: int = 0
    requeue_ns: int = 0
    recomputed: int = 0


@dataclass
class Served:
    """What a run printed, and the truth behind it in `requests`."""

    steps: Steps
    streams: list[Stream]
    limits: EngineLimits
    totals: Totals
    requests: list[Request]


def blocks(tokens: int, size: int) -> int:
    """KV blocks that hold so many tokens."""
    return -(-tokens // size)


class Scheduler:
    """Serves requests step by step."""

    def __init__(self, requests: list[Request], limits: EngineLimits, *, ahead: bool) -> None:
        assert limits.block_size is not None
        assert limits.num_blocks is not None
        assert limits.max_num_seqs is not None
        assert limits.max_num_batched_tokens is not None
        self.size, self.capacity = limits.block_size, limits.num_blocks - 1
        self.seats, self.budget = limits.max_num_seqs, limits.max_num_batched_tokens
        self.ahead = ahead  # schedules before it knows that an end token came
        self.ghosts = 0
        self.to_come = sorted(requests, key=lambda request: request.arrives_ns)
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.now = START_NS
        self.rows: list[tuple[int, int, int, int, int, int, float]] = []

    def held(self) -> int:
        """Blocks in use."""
        return sum(blocks(x.computed, self.size) for x in self.running)

    def step(self) -> None:
        """One iteration, or the wait for the next arrival."""
        if not self.running and not self.waiting:
            self.now = max(self.now, self.to_come[0].arrives_ns)
        while self.to_come and self.to_come[0].arrives_ns <= self.now:
            self.waiting.append(self.to_come.pop(0))
        given: list[tuple[Request, int]] = []
        left, preempted, place = self.budget, False, 0
        pending: dict[str, int] = {}

        def wanted() -> int:
            return self.held() + sum(
                blocks(x.computed + n, self.size) - blocks(x.computed, self.size)
                for x in self.running
                if (n := pending.get(x.name))
            )

        while place < len(self.running) and left > 0:
            one = self.running[place]
            tokens = min(one.prompt + one.produced - one.computed, left)
            pending[one.name] = tokens
            while wanted() > self.capacity and one in self.running:
                self.preempt()
                preempted = True
            if one not in self.running:
                pending.pop(one.name)
                break
            given.append((one, tokens))
            left -= tokens
            place += 1
        while not preempted and self.waiting and left > 0 and len(self.running) < self.seats:
            one = self.waiting[0]
            target = one.prompt + one.produced
            if wanted() + blocks(target, self.size) > self.capacity:
                break
            self.admit(self.waiting.pop(0))
            pending[one.name] = min(target, left)
            given.append((one, pending[one.name]))
            left -= pending[one.name]
        self.execute(given)

    def preempt(self) -> None:
        """The last running request goes to the head of the queue."""
        one = self.running.pop()
        one.preemptions += 1
        one.preempted_at_ns = self.now
        one.computed = 0
        self.waiting.insert(0, one)

    def admit(self, one: Request) -> None:
        """A waiting request runs."""
        if one.preempted_at_ns is not None:
            one.requeue_ns += self.now - one.preempted_at_ns
            one.preempted_at_ns = None
        if one.first_scheduled_ns is None:
            one.first_scheduled_ns = self.now
        self.running.append(one)

    def execute(self, given: list[tuple[Request, int]]) -> None:
        """Runs the step and writes its line."""
        context = [(x, n) for x, n in given if not x.produced]
        decode = [(x, n) for x, n in given if x.produced]
        tokens = sum(n for _, n in given)
        elapsed = 6_000_000 + 300_000 * (tokens - len(decode)) + 400_000 * len(decode)
        self.now += elapsed
        ghosts, self.ghosts = self.ghosts, 0
        for one, n in given:
            one.recomputed += max(0, min(one.computed + n, one.high) - one.computed)
            one.computed += n
            one.high = max(one.high, one.computed)
            if one.computed == one.prompt + one.produced:
                one.produced += 1
                one.token_at_ns.append(self.now)
                if one.produced == one.output:
                    self.running.remove(one)
                    self.ghosts += self.ahead and one.asked is not None
        self.rows.append(
            (
                self.now // 10**9 * 10**9, elapsed, len(context), sum(n for _, n in context),
                len(decode) + ghosts, sum(n for _, n in decode) + ghosts,
                round(self.held() / self.capacity, 3),
            )
        )  # fmt: skip
        self.now += PAUSE_NS


def serve(requests: list[Request], limits: EngineLimits, *, ahead: bool = False) -> Served:
    """Serves all requests to their end."""
    scheduler = Scheduler(requests, limits, ahead=ahead)
    while scheduler.to_come or scheduler.waiting or scheduler.running:
        scheduler.step()
    columns = list(zip(*scheduler.rows, strict=True))
    logged, elapsed, *counts = (np.array(column, dtype=np.int64) for column in columns[:6])
    steps = Steps(
        engine="000",
        incarnation=0,
        step_ix=np.arange(len(logged), dtype=np.int64),
        logged_at_ns=logged,
        elapsed_ns=elapsed,
        context_requests=counts[0],
        context_tokens=counts[1],
        generation_requests=counts[2],
        generation_tokens=counts[3],
        kv_used_ratio=np.array(columns[6], dtype=np.float64),
    )
    totals = Totals(
        sum(x.prompt for x in requests),
        sum(x.output for x in requests),
        len(requests),
        sum(x.preemptions for x in requests),
        0,
    )
    return Served(steps, [_stream(x) for x in requests], limits, totals, requests)


def _stream(one: Request) -> Stream:
    assert one.first_scheduled_ns is not None
    at = np.array(one.token_at_ns, dtype=np.int64)
    return Stream(
        request_id=one.name,
        prompt_tokens=one.prompt,
        cached_prompt_tokens=0,
        output_tokens=one.output,
        asked_output_tokens=one.asked or one.output,
        sent_at_ns=one.arrives_ns,
        first_token_at_ns=int(at[0]),
        ended_at_ns=int(at[-1]),
        gaps_ns=np.diff(at),
        arrived_at_ns=one.arrives_ns,
        queue_ns=one.first_scheduled_ns - one.arrives_ns,
        prefill_ns=int(at[0]) - one.first_scheduled_ns,
        decode_ns=int(at[-1] - at[0]),
        e2e_ns=int(at[-1]) - one.arrives_ns,
        aborted=False,
    )
