"""One iteration of vLLM V1's first-come-first-served scheduler, under a story.

Running requests first, in order of admission; where a KV block is wanting the last of them is
preempted and goes to the head of the waiting queue, and nothing is admitted in that iteration;
otherwise the queue is served from its head. The printed numbers of requests say how many left from
the end or came in from the head.
"""

from __future__ import annotations

from collections.abc import Sequence

from trueput.attribution.replay.arrivals import Arrivals
from trueput.attribution.replay.beam import Allowance
from trueput.attribution.replay.block_pool import BlockPool
from trueput.attribution.replay.departures import Departures
from trueput.attribution.replay.division import Division
from trueput.attribution.replay.free_queue import FreeQueue
from trueput.attribution.replay.nats import (
    GHOST,
    LEFT_WAITING,
    RESTARTED,
    UNNEEDED,
    USAGE_DIFFERS,
)
from trueput.attribution.replay.printed import Printed
from trueput.attribution.replay.progress import Progress
from trueput.attribution.replay.stories import Live, Story

RESTART_NS = 1_000_000_000


class Scheduler:
    """Takes stories through the printed iterations of one engine process."""

    def __init__(
        self,
        printed: Printed,
        pool: BlockPool,
        arrivals: Arrivals,
        departures: Departures,
        allowance: Allowance,
        *,
        may_preempt: bool,
        is_ahead: bool,
    ) -> None:
        self.may_preempt = may_preempt
        self._is_ahead = is_ahead
        self.progress = Progress(printed, pool)
        self._printed = printed
        self._pool = pool
        self._arrivals = arrivals
        self._departures = departures
        self._allowance = allowance
        self._division = Division(pool)

    def step(
        self,
        old: Story,
        i: int,
        leavers: Sequence[int] = (),
        pick: int = 0,
        ghosts: int = 0,
        *,
        is_exact: bool = False,
    ) -> Story:
        """`old` after step `i`, the requests at the places `leavers` having left before it: places
        in the running ones followed by those that wait after a preemption.

        `pick` skips so many of the arrivals that may be admitted. `ghosts` were given a token once
        more, because the engine schedules ahead of outputs: who is known where no more had ended.
        Where `is_exact` what the last one wanted was just what the token budget had left.
        """
        story = old.clone()
        self._allowance.spend(len(story.running) + 1)
        before = self._check_usage(story, i)
        running = len(story.running)
        held = [*story.running, *story.waiting]
        for k in leavers:
            live = held[k]
            story.cost += self._departures.cost(live, i)
            story.cost += LEFT_WAITING if k >= running else 0.0
            self._let_go(story, live, i)
        wanted = self._printed.served(i) - self._reached(story) - ghosts
        story.cost += GHOST * ghosts
        if ghosts == len(story.stopped[1]):
            for ended in story.stopped[1]:
                story.note("ghost", i, ended, 0)
        if wanted < 0 and self.may_preempt:
            self.preempt(story, i, -wanted)
        if wanted > 0:
            self.admit(story, i, wanted, pick)
        present = list(story.running)
        self._give_tokens(story, i, ghosts, is_exact=is_exact)
        if self._is_ahead:
            self._check_ahead(story, i, present, before)
        return story

    def _check_ahead(self, story: Story, i: int, present: Sequence[Live], before: float) -> None:
        """An engine that schedules ahead prints usage when this step has its blocks already, and
        those that it ends have not given theirs back."""
        used = self._printed.used_before(i)
        off = self._pool.off(present, used)
        if off is None or off > before:
            return
        story.cost -= before - off
        gone = [live for live in present if live not in story.running]
        self._pool.shorten(story.free_queue, used, sum(live.freed_blocks for live in gone))

    def restart(self, old: Story, i: int) -> Story:
        """Nothing was decoding in step `i`: what the story held had gone, and it starts afresh."""
        story = old.clone()
        story.cost += RESTARTED
        for live in [*story.running, *story.waiting]:
            story.note("left", i, live.job.index, live.out)
        story.running, story.waiting = [], []
        story.free_queue = FreeQueue(self._pool.capacity)
        # who arrived long before was served before
        self._arrivals.skip_until(story, self._printed.start_low[i] - RESTART_NS)
        return self.step(story, i)

    def preempt(self, story: Story, i: int, count: int) -> None:
        """The last `count` running requests are preempted in step `i`."""
        if self._pool.is_counted and not self._pool.is_short(story.running, self._printed.budget):
            story.cost += UNNEEDED
        for _ in range(min(count, len(story.running))):
            self.progress.preempt_last(story, i)

    def admit(self, story: Story, i: int, count: int, pick: int) -> list[Live]:
        """Takes `count` requests from the head of the queue; `pick` skips within arrivals."""
        fresh: list[Live] = []
        for _ in range(count):
            if story.waiting and self._departures.has_gone(story.waiting[0].job, i):
                self._let_go(story, story.waiting[0], i)
            if story.waiting:
                live = story.waiting.pop(0)
                live.target = (live.prompt or live.high) + live.out
                live.flexible = self._pool.caching or live.prompt is None
                live.computed, live.found = 0, None
                story.note("resume", i, live.job.index, live.out)
            else:
                live = self._arrivals.admit(story, i, pick)
                pick = 0
            story.running.append(live)
            fresh.append(live)
        return fresh

    def _let_go(self, story: Story, live: Live, i: int) -> None:
        """A request left before step `i`: while it ran, or while it waited."""
        if live in story.running:
            self.progress.retire(story, live, i, "left")
        else:
            story.waiting.remove(live)
            story.note("left", i, live.job.index, live.out)

    def close(self, story: Story, n: int) -> None:
        """The log ends after `n` iterations, whatever still runs."""
        self._check_usage(story, n)
        for live in [*story.running, *story.waiting]:
            story.cost += self._departures.cost_of_staying(live, n)
        for live in story.running:
            if live.chunks:
                found = self._pool.found_again(story.free_queue, live)
                self.progress.flush(story, live, found)
            story.note("stop", n, live.job.index, live.out)

    def _check_usage(self, story: Story, i: int) -> float:
        used = self._printed.used_before(i)
        off = self._pool.off(story.running, used)
        if off is None:
            return 0.0
        if not self._is_ahead:
            self._pool.shorten(story.free_queue, used)
        cost = min(USAGE_DIFFERS, off)
        story.cost += cost
        return cost

    def _reached(self, story: Story) -> int:
        """Running requests that the token budget reaches."""
        left, count = self._printed.budget, 0
        for live in story.running:
            if left <= 0:
                break
            # an open recompute takes what it needs, which is at least one token
            left -= 1 if live.flexible else min(live.rest, left)
            count += 1
        return count

    def _give_tokens(self, story: Story, i: int, ghosts: int, *, is_exact: bool) -> None:
        """Divides the printed tokens among the running requests and moves each ahead."""
        printed = self._printed
        full = printed.is_full(i)
        running = story.running
        if sum(live.out == 0 for live in running) != printed.context[i] and not full:
            story.wrong(i)
        taking = running[: self._reached(story) if full else len(running)]
        last = taking[-1] if taking and full and not is_exact else None
        given: dict[int, int] = {}
        fresh = [live for live in taking if live.out == 0]
        tokens, shape = printed.context_tokens[i], printed.context_shape[i]
        if not self._division.divide(story, fresh, tokens, last, given, shape):
            story.wrong(i)
        elif shape is not None and self._division.is_told:
            story.note("told", i, fresh[0].job.index, 0)
        others = [live for live in taking if live.out != 0]
        tokens, shape = printed.generation_tokens[i] - ghosts, printed.generation_shape[i]
        shape = shape if ghosts == 0 else None  # how long they are is not known
        if not self._division.divide(story, others, tokens, last, given, shape):
            story.wrong(i)
        for live in taking:
            self.progress.advance(story, live, given[id(live)], i, partial_allowed=live is last)
