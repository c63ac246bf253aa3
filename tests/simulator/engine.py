"""The engine: continuous batching by the rules of vLLM V1, one step after another.

Running requests are served first, in order of admission, each with what is left of it, within the
token budget. Where a KV block is wanting the last running request is preempted: its KV is dropped,
it goes to the head of the queue, and nothing is admitted in that step. Otherwise the queue is
served from its head; an admitted request must fit whole. With asynchronous scheduling the next
step is scheduled and launched while the devices run this one, before its tokens are known.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from simulator.blocks import Pool
from simulator.config import NS_PER_S, Config
from simulator.cost import WORKS, Amount, shares
from simulator.devices import Devices, DeviceStep
from simulator.workload import Request, make_requests

READY_AT = 20 * NS_PER_S
"""The server answers; run time 0 is the start of its process."""
FIRST_SEND = 22 * NS_PER_S
LEAVE_NS = 400_000
"""From the client's leaving to the engine's hearing of it."""


@dataclass(frozen=True)
class Item:
    """What one request was given in one step."""

    request: Request
    start: int
    """KV tokens it had."""
    tokens: int
    recomputed: int
    decoded: int
    """1 where a token it had produced was put through the model for the first time."""
    context: bool
    """It had no output token yet."""
    produces: bool

    @property
    def prefilled(self) -> int:
        """Prompt tokens computed for the first time."""
        return self.tokens - self.recomputed - self.decoded

    def tokens_of(self, work: str) -> int:
        """Tokens of one work."""
        if work == "prefill":
            return self.prefilled
        return self.decoded if work == "decode" else self.recomputed


@dataclass
class Step:
    """One iteration."""

    ix: int
    scheduled_at: int
    items: list[Item]
    device: DeviceStep
    amounts: dict[str, Amount]
    share: dict[str, float]
    """Of its computing time, by work."""
    launch_at: int = 0
    done_at: int = 0
    """Its outputs were built."""
    own_ns: int = 0
    """Its elapsed time without what overlaps the step before."""
    kv_used: float = 0.0
    running: int = 0
    waiting: int = 0

    @property
    def elapsed_ns(self) -> int:
        """As the engine prints it: from launch to the tokens being on the host."""
        return self.device.ready_at - self.launch_at

    def count(self, *, context: bool) -> tuple[int, int]:
        """Requests and tokens of one kind, as the engine prints them."""
        items = [item for item in self.items if item.context is context]
        return len(items), sum(item.tokens for item in items)


@dataclass
class Run:
    """A run that has been simulated."""

    config: Config
    seed: int
    requests: list[Request]
    steps: list[Step] = field(default_factory=list)
    ended_at: int = 0


class Engine:
    """Serves the requests of a run."""

    def __init__(self, config: Config, seed: int) -> None:
        self.config = config
        self.rng = np.random.default_rng([seed, 2])
        self.devices = Devices(config, np.random.default_rng([seed, 3]))
        self.pool = Pool(config.num_blocks, config.block_size, caching=config.prefix_caching)
        self.requests = make_requests(config, FIRST_SEND)
        self.run = Run(config, seed, self.requests)
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.events: list[tuple[int, int, str]] = []
        """(instant, request, arrival | abort | timeout)."""
        self.ready_before = 0
        for one in self.requests:
            self._send(one)

    def _send(self, one: Request) -> None:
        config = self.config
        assert self.pool.blocks(one.prompt + one.asked) <= self.pool.capacity or one.refused
        assert one.refused or one.prompt + one.asked <= config.max_model_len
        one.sent_at += int(self.rng.integers(0, 150_000))
        one.arrived_at = one.sent_at + self._host(config.frontend_ns // 2)
        if one.refused:
            one.finished_at = one.arrived_at + self._host(config.frontend_ns)
            return
        busy = config.frontend_ns // 2 + config.tokenise_token_ns * one.prompt
        one.ready_at = one.arrived_at + self._host(busy)
        heapq.heappush(self.events, (one.ready_at, one.index, "arrival"))
        if config.timeout_s is not None:
            heapq.heappush(self.events, (self._deadline(one) + LEAVE_NS, one.index, "timeout"))

    def _deadline(self, one: Request) -> int:
        assert self.config.timeout_s is not None
        return one.sent_at + round(self.config.timeout_s * NS_PER_S)

    def _host(self, length: int, sd: float = 0.2) -> int:
        return round(length * math.exp(sd * float(self.rng.standard_normal())))

    # -- the loop -----------------------------------------------------------------------------

    def serve(self) -> Run:
        """Serves every request to its end."""
        now, flight = 0, deque[Step]()
        depth = 2 if self.config.async_scheduling else 1
        while True:
            self._listen(now)
            step = self._step(now) if len(flight) < depth else None
            if step is not None:
                flight.append(step)
                now = step.device.launches_end(self.config) + 10_000
                if len(flight) < depth:
                    continue
            if flight:
                oldest = flight.popleft()
                now = max(now, oldest.device.ready_at) + self._host(self.config.output_ns) // 3
                self._outputs(oldest, now)
                now += self._host(self.config.output_ns) * 2 // 3
            elif self.events:
                now = max(now, self.events[0][0])
            else:
                break
        last = max(step.done_at for step in self.run.steps)
        self.run.ended_at = max(last, *(one.ended_at or 0 for one in self.requests)) + NS_PER_S
        return self.run

    def _listen(self, now: int) -> None:
        while self.events and self.events[0][0] <= now:
            _, index, kind = heapq.heappop(self.events)
            one = self.requests[index]
            if kind == "arrival":
                if one.left_at is None:
                    one.queued_at = now
                    self.waiting.append(one)
            elif kind == "abort":
                self._abort(one, now)
            elif one.finished_at is None and one.left_at is None:
                one.left_at, one.leave_kind = self._deadline(one), "timeout"
                one.received_at = [at for at in one.received_at if at <= one.left_at]
                self._abort(one, now)

    def _abort(self, one: Request, now: int) -> None:
        if one.finished_at is not None:
            return
        one.aborted_at = one.finished_at = now
        if one in self.waiting:
            self.waiting.remove(one)
        if one in self.running:
            self.running.remove(one)
        self.pool.release(one)

    # -- scheduling ---------------------------------------------------------------------------

    def _step(self, now: int) -> Step | None:
        given = self._schedule(now)
        if not given:
            return None
        items = [self._item(one, tokens) for one, tokens in given]
        amounts = {work: Amount() for work in WORKS}
        for item in items:
            at = item.start
            for work in ("recompute", "prefill", "decode"):
                tokens = item.tokens_of(work)
                last = at + tokens == item.start + item.tokens
                amounts[work].add(at, tokens, sampled=item.produces and last)
                at += tokens
        launch = now + self._host(self.config.schedule_ns)
        if self.rng.random() < self.config.stall_ratio:
            launch += int(self.rng.exponential(self.config.stall_ns))
        device = self.devices.run(launch, amounts)
        step = Step(
            len(self.run.steps), now, items, device, amounts,
            shares(self.config, amounts), launch_at=launch,
        )  # fmt: skip
        step.own_ns = device.ready_at - max(launch, self.ready_before)
        self.ready_before = device.ready_at
        self.run.steps.append(step)
        return step

    def _schedule(self, now: int) -> list[tuple[Request, int]]:
        left, place, preempted = self.config.max_num_batched_tokens, 0, False
        given: list[tuple[Request, int]] = []
        while place < len(self.running) and left > 0:
            one = self.running[place]
            tokens = min(one.target - one.computed, left)
            if one.produced + one.pending >= one.asked:
                tokens = 0  # its last token is on its way
            if tokens > 0:
                while one in self.running and not self.pool.fits(one, one.computed + tokens, []):
                    self._preempt(now)
                    preempted = True
                if one not in self.running:
                    break
                self.pool.take(one, one.computed + tokens, [])
                given.append((one, tokens))
                left -= tokens
            place += 1
        while (
            not preempted
            and self.waiting
            and left > 0
            and len(self.running) < self.config.max_num_seqs
        ):
            one = self.waiting[0]
            found = self.pool.find(one)
            if not self.pool.fits(one, one.target, found):
                break
            self._admit(one, now, len(found) * self.config.block_size)
            tokens = min(one.target - one.computed, left)
            self.pool.take(one, one.computed + tokens, found)
            given.append((one, tokens))
            left -= tokens
        return given

    def _preempt(self, now: int) -> None:
        one = self.running.pop()
        self.pool.release(one)
        one.preempted_at = now
        one.preemptions.append(now)
        one.lost_computed += one.computed
        one.computed = 0
        self.waiting.appendleft(one)

    def _admit(self, one: Request, now: int, found: int) -> None:
        self.waiting.popleft()
        self.running.append(one)
        if one.preempted_at is not None:
            one.resumes.append(now)
            one.preempted_at = None
        if one.first_scheduled_at is None:
            one.first_scheduled_at = now
            one.cached = found
        one.computed = found
        one.high = max(one.high, found)

    def _item(self, one: Request, tokens: int) -> Item:
        start, end = one.computed, one.computed + tokens
        recomputed = max(0, min(end, one.high) - start)
        produced = one.produced + one.pending
        produces = end == one.target
        item = Item(
            one, start, tokens, recomputed, tokens - recomputed if produced else 0,
            context=produced == 0, produces=produces,
        )  # fmt: skip
        one.computed, one.high = end, max(one.high, end)
        one.recomputed += recomputed
        one.pending += produces
        return item

    # -- outputs ------------------------------------------------------------------------------

    def _outputs(self, step: Step, now: int) -> None:
        step.done_at = now
        for item in step.items:
            one = item.request
            if not item.produces or one.finished_at is not None:
                continue
            one.pending -= 1
            one.produced += 1
            one.token_at.append(now)
            self._deliver(one, now)
            if one.produced >= one.length:
                one.finished_at = now
                # preempted while its last token was on its way, it waits
                (self.running if one in self.running else self.waiting).remove(one)
                self.pool.release(one)
        step.kv_used = self.pool.used_ratio
        step.running, step.waiting = len(self.running), len(self.waiting)

    def _deliver(self, one: Request, now: int) -> None:
        """The client receives a token, unless it has gone or goes."""
        at = now + self._host(self.config.frontend_ns // 2)
        if one.received_at:
            at = max(at, one.received_at[-1] + 1_000)
        if self.config.timeout_s is not None and one.produced >= one.length:
            at = min(at, self._deadline(one))  # no reply is lost on its last few metres
        if one.left_at is not None and at > one.left_at:
            return
        one.received_at.append(at)
        if one.leaves_after is None or one.left_at is not None:
            return
        if len(one.received_at) >= one.leaves_after and one.produced < one.length:
            one.left_at, one.leave_kind = at + self._host(300_000), "abort"
            heapq.heappush(self.events, (one.left_at + LEAVE_NS, one.index, "abort"))


def simulate(config: Config, seed: int) -> Run:
    """Serves the load of `config`; `seed` drives the noise of devices and host."""
    return Engine(config, seed).serve()
