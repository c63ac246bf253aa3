"""Many iterations at once: while the same requests decode, each has one token in each of them."""

from __future__ import annotations

from collections.abc import Sequence

from trueput.attribution.replay.block_pool import BlockPool
from trueput.attribution.replay.departures import ANY_NUMBER, Departures
from trueput.attribution.replay.printed import Printed
from trueput.attribution.replay.progress import Progress
from trueput.attribution.replay.stories import Story


class Coasting:
    """Takes stories through stretches of like decode-only iterations."""

    def __init__(
        self, printed: Printed, pool: BlockPool, departures: Departures, progress: Progress
    ) -> None:
        self._printed = printed
        self._pool = pool
        self._departures = departures
        self._progress = progress

    def coast(self, beam: Sequence[Story], i: int) -> int:
        """Takes all stories ahead from step `i` as far as nothing can happen in any.

        Returns how many steps that is: 0 and more.
        """
        ahead = self._printed.plain_run[i - 1] - 1
        if ahead > 0:
            ahead = min(ahead, *(self._steps_alike(story, i) for story in beam))
        if ahead <= 0:
            return 0
        for story in beam:
            for live in story.running:
                self._pool.take(story.free_queue, live.computed, live.computed + ahead)
                self._progress.decode(live, ahead)
        return ahead

    def _steps_alike(self, story: Story, i: int) -> int:
        """Decode-only steps from `i` on this story can take at once: until a request ends."""
        if len(story.running) != self._printed.generation[i]:
            return 0
        rest = ANY_NUMBER
        for live in story.running:
            if live.out == 0 or live.rest != 1 or live.flexible:
                return 0
            if live.job.length is not None:
                rest = min(rest, live.job.length - live.out - 1)
            elif story.waiting:
                rest = min(rest, self._departures.steps_before(live, i))
        return max(rest, 0)
