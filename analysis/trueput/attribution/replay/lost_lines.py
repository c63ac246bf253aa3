"""Across iterations whose lines are lost: decoding went on, and at most one change is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trueput.attribution.replay.arrivals import Arrivals
from trueput.attribution.replay.beam import Allowance
from trueput.attribution.replay.block_pool import BlockPool
from trueput.attribution.replay.nats import LOST_LINES, UNSEEN
from trueput.attribution.replay.printed import Printed
from trueput.attribution.replay.scheduler import Scheduler
from trueput.attribution.replay.stories import Live, Story


class LostLines:
    """What stories may be just before an iteration that is printed."""

    def __init__(
        self,
        printed: Printed,
        pool: BlockPool,
        arrivals: Arrivals,
        scheduler: Scheduler,
        allowance: Allowance,
    ) -> None:
        self._lost = printed.lost
        self._pool = pool
        self._arrivals = arrivals
        self._scheduler = scheduler
        self._allowance = allowance

    def before(self, story: Story, i: int) -> Iterator[Story]:
        """What `story` may be just before step `i`: itself where no line is lost."""
        if self._lost[i] <= 1:
            yield story
            return
        for before, joined in self._changed(story, i):
            self._allowance.spend(len(before.running) + 1)
            self._cross(before, i, joined)
            yield before

    def _changed(self, story: Story, i: int) -> Iterator[tuple[Story, list[Live]]]:
        """What may have happened first: nothing, a preemption, or an admission, and whose."""
        yield story.clone(), []
        if story.running and self._scheduler.may_preempt:
            preempted = story.clone()
            preempted.cost += UNSEEN
            self._scheduler.preempt(preempted, i, 1)
            yield preempted, []
        if story.waiting or self._arrivals.choices(story, i):
            admitted = story.clone()
            admitted.cost += UNSEEN
            joined = self._scheduler.admit(admitted, i, 1, 0)
            if any(live.prompt is None for live in joined):
                return
            for live in joined:
                self._prefill(admitted, live, i)
            yield admitted, joined

    def _prefill(self, story: Story, live: Live, i: int) -> None:
        """A request that was admitted had all its KV, and a token of output, at once."""
        queue = story.free_queue
        found = self._pool.found_again(queue, live) if live.flexible else 0
        live.chunks, live.flexible = [], False
        self._pool.take(queue, found, live.target)
        live.computed = live.target
        live.high = max(live.high, live.computed)
        live.preempted_step = -1
        story.note("start", i, live.job.index, live.out)
        live.out += 1
        live.target += 1

    def _cross(self, story: Story, i: int, joined: Sequence[Live]) -> None:
        """Lines lost before step `i`: decoding went on; an open prefill's progress is unknown."""
        steps = self._lost[i] - 1
        story.cost += LOST_LINES
        for live in list(story.running):
            if live.out == 0 or live.rest != 1:
                live.flexible = True
                continue
            known = live.job.length
            # one that was admitted in the first of them has had its token there
            left = steps - 1 if live in joined else steps
            ahead = left if known is None else min(left, known - live.out)
            self._scheduler.progress.decode(live, ahead)
            if known is not None and live.out >= known:
                self._scheduler.progress.retire(story, live, i, "stop")
