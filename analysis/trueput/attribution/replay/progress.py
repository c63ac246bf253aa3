"""One request moves on: its tokens become KV, a token of output, an end; or it is preempted."""

from __future__ import annotations

from trueput.attribution.replay.block_pool import BlockPool
from trueput.attribution.replay.nats import GAP_DENIES
from trueput.attribution.replay.printed import Printed
from trueput.attribution.replay.stories import Live, Story

LEAST_WAITED_RATIO = 0.3
"""A client that had no token from a request's preemption to its next has waited so much of that."""
LATE_DELIVERY_NS = 20_000_000
"""The token before may have come so late."""


class Progress:
    """Moves requests of stories, and notes what that was."""

    def __init__(self, printed: Printed, pool: BlockPool) -> None:
        self._elapsed_sum = printed.elapsed_sum
        self._pool = pool

    def advance(
        self, story: Story, live: Live, tokens: int, i: int, *, partial_allowed: bool
    ) -> None:
        """Step `i` computes `tokens` of a request, which has an output token when all is there."""
        before = live.computed
        if live.flexible:
            live.chunks.append((i, tokens))
            begun = live.begun
            if live.prompt is None:
                live.target = begun + (1 if partial_allowed else 0)
            if partial_allowed and begun < live.target:
                return
            self._settle(story, live, max(0, live.target - begun))
        else:
            _note_work(story, live, i, before, before + tokens)
            live.computed = min(live.target, before + tokens)
            self._pool.take(story.free_queue, before, live.computed)
        live.high = max(live.high, live.computed)
        if live.computed < live.target:
            return
        live.prompt = live.target - live.out if live.prompt is None else live.prompt
        if live.preempted_step >= 0 or live.out == 0:
            self._check_gap(story, live, i)
            live.preempted_step = -1
            story.note("start", i, live.job.index, live.out)
        live.out += 1
        live.target += 1
        if live.job.length is not None and live.out >= live.job.length:
            self.retire(story, live, i + 1, "stop")
            if live.job.stops_early:
                step, jobs = story.stopped
                others = jobs if step == i + 1 else ()
                story.stopped = (i + 1, (*others, live.job.index))

    def decode(self, live: Live, steps: int) -> None:
        """So many iterations gave a request one token each."""
        live.computed += steps
        live.target += steps
        live.out += steps
        live.high = max(live.high, live.computed)

    def retire(self, story: Story, live: Live, i: int, kind: str) -> None:
        """A request ended before step `i`: `kind` is stop, or left."""
        story.running.remove(live)
        if live.chunks:
            again = self._pool.found_again(story.free_queue, live)
            self._cut_short(story, live, again if live.found is None else live.found)
        self._pool.free(story.free_queue, live)
        story.note(kind, i, live.job.index, live.out)

    def preempt_last(self, story: Story, i: int) -> None:
        """The last of the running requests goes to the head of the waiting queue."""
        live = story.running.pop()
        if live.chunks:
            self._cut_short(story, live, self._found_before(story, live))
        story.note("preempt", i, live.job.index, live.out)
        live.high = max(live.high, live.computed)
        live.preempted_step = i
        self._pool.free(story.free_queue, live)
        live.computed, live.flexible = 0, False
        story.waiting.insert(0, live)

    def flush(self, story: Story, live: Live, found: int) -> None:
        """Notes what was computed since the request was scheduled, `found` tokens found again."""
        at = found
        for step, tokens in live.chunks:
            _note_work(story, live, step, at, at + tokens)
            at += tokens
        live.chunks = []

    def _settle(self, story: Story, live: Live, found: int) -> None:
        """A request has all its KV: `found` tokens of it were found again in the prefix cache."""
        if live.preempted_step < 0:
            live.shared = found // self._pool.unit
        self.flush(story, live, found)
        live.computed, live.flexible = live.target, False
        if live.preempted_step >= 0:
            self._pool.reuse(story.free_queue, live, found)
        self._pool.take(story.free_queue, found, live.target)

    def _cut_short(self, story: Story, live: Live, found: int) -> None:
        """A request goes before all its KV is there: `found` tokens are taken as found again."""
        live.computed = found + live.begun
        self._pool.take(story.free_queue, found, live.computed)
        self.flush(story, live, found)

    def _found_before(self, story: Story, live: Live) -> int:
        """Tokens of a prefill that is cut short which the prefix cache held, likely as of others.

        What the request is then given anew tells how much of that is computed again.
        """
        if live.found is not None:
            live.shared = live.shared if live.preempted_step >= 0 else live.found // self._pool.unit
            return live.found
        if live.preempted_step >= 0 or live.prompt is None:
            return self._pool.found_again(story.free_queue, live)
        unit = self._pool.unit
        live.shared = max(0, min(story.usual, (live.target - live.begun - 1) // unit))
        story.is_open = True
        story.leave_open(live.job.index)
        return live.shared * unit

    def _check_gap(self, story: Story, live: Live, i: int) -> None:
        """The client must have waited, give or take a late delivery before."""
        gaps = live.job.gaps_ns
        if live.preempted_step < 0 or live.out == 0 or gaps is None:
            return
        if live.out - 1 < len(gaps):
            waited = self._elapsed_sum[i + 1] - self._elapsed_sum[live.preempted_step]
            if int(gaps[live.out - 1]) < LEAST_WAITED_RATIO * waited - LATE_DELIVERY_NS:
                story.cost += GAP_DENIES


def _note_work(story: Story, live: Live, step: int, before: int, after: int) -> None:
    """KV of a request from `before` to `after`: what had existed is computed again."""
    again = max(0, min(after, live.high) - before)
    if again > 0:
        story.note("recompute", step, live.job.index, again)
    if live.out == 0 and after - before > again:
        story.note("prefill", step, live.job.index, after - before - again)
