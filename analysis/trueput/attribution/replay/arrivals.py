"""Which request is admitted next: those whose arrival is known in their order, then the others."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from trueput.attribution.replay.admission_order import admission_order
from trueput.attribution.replay.departures import SLACK_NS, Departures
from trueput.attribution.replay.nats import (
    ANONYMOUS,
    DOUBT,
    LEFT,
    OUT_OF_ORDER,
    UNDATED,
    WRONG,
)
from trueput.attribution.replay.printed import Printed
from trueput.attribution.replay.stories import Job, Live, Story

ORDER_SCALE_NS = 20_000_000
"""A request is admitted so long before an earlier one: one nat more."""
TIE_NS = 5_000_000
"""The front end tokenises in parallel: so close, its order need not be the engine's."""
MAX_PICKS = 5


class Arrivals:
    """The requests of one engine process that come; each story knows how far it has come."""

    def __init__(
        self,
        jobs: Sequence[Job],
        printed: Printed,
        departures: Departures,
        longest_step_ns: int,
        *,
        caching: bool,
    ) -> None:
        self._jobs = jobs
        self._order = admission_order(jobs, longest_step_ns)
        self._start_high = printed.start_high
        self._departures = departures
        self._caching = caching

    def undated(self) -> tuple[int, ...]:
        """Requests of unknown arrival."""
        return tuple(job.index for job in self._jobs if job.arrived_at_ns is None)

    def choices(self, story: Story, i: int) -> list[int]:
        """Jobs that may be admitted in step `i`: the first to arrive, then some of no arrival."""
        latest = self._start_high[i] + SLACK_NS
        has_gone = self._departures.has_gone
        dated: list[int] = []
        for position in range(story.cursor, len(self._order)):
            job = self._jobs[self._order[position]]
            if (job.arrived_at_ns or 0) > latest or len(dated) > MAX_PICKS:
                break
            if position not in story.taken and not has_gone(job, i):
                dated.append(job.index)
        undated = (k for k in story.undated if not has_gone(self._jobs[k], i))
        return [*dated, *itertools.islice(undated, MAX_PICKS)]

    def ties(self, story: Story) -> int:
        """How many of the next arrivals came so close together that their order is open."""
        if story.waiting or story.cursor + 2 > len(self._order):
            return 0
        head = self._order[story.cursor : story.cursor + 2]
        first, second = (self._jobs[k].arrived_at_ns or 0 for k in head)
        return 2 if abs(second - first) < TIE_NS else 0

    def gone(self, story: Story, i: int) -> int:
        """How many of the next arrivals may have gone before step `i` without having run."""
        waited = itertools.takewhile(
            lambda k: (
                self._jobs[k].arrived_at_ns is not None
                and self._departures.cost_unserved(self._jobs[k], i) <= LEFT + DOUBT
            ),
            self.choices(story, i),
        )
        return sum(1 for _ in waited)

    def admit(self, story: Story, i: int, pick: int) -> Live:
        """Return the request admitted in step `i`, the `pick`-th of the choices.

        Where there are fewer, it is one that no record names. Who came earlier has gone, if all of
        them may have.
        """
        choices = self.choices(story, i)
        if 0 < pick <= self.gone(story, i):
            for k in choices[:pick]:
                story.cost += self._departures.cost_unserved(self._jobs[k], i)
                self._take(story, k, i)
            choices, pick = choices[pick:], 0
        if pick < len(choices):
            job = self._jobs[choices[pick]]
            if job.arrived_at_ns is None:
                story.cost += UNDATED
            elif pick:
                behind = job.arrived_at_ns - (self._jobs[choices[0]].arrived_at_ns or 0)
                story.cost += OUT_OF_ORDER + min(abs(behind) / ORDER_SCALE_NS, WRONG)
            self._take(story, job.index, i)
        else:
            story.cost += ANONYMOUS
            story.anonymous += 1
            job = _nameless(story.anonymous)
        prompt = job.prompt
        live = Live(job, (prompt or 0) - (job.cached or 0))
        live.flexible = prompt is None or (self._caching and job.cached is None)
        if prompt is not None and job.cached is not None:
            live.target, live.computed = prompt, job.cached
        story.note("admit", i, job.index, 0)
        return live

    def skip_until(self, story: Story, since_ns: int) -> None:
        """Requests that arrived before this instant are taken to have come and gone."""
        while story.cursor < len(self._order) and (
            (self._jobs[self._order[story.cursor]].arrived_at_ns or 0) < since_ns
        ):
            story.cursor += 1
        story.taken = tuple(k for k in story.taken if k >= story.cursor)

    def _take(self, story: Story, k: int, i: int) -> None:
        """Remove an admitted job from those to come, and move on over whoever has gone."""
        if self._jobs[k].arrived_at_ns is None:
            story.undated = tuple(other for other in story.undated if other != k)
            return
        order, taken = self._order, {*story.taken}
        position = story.cursor
        while order[position] != k:
            position += 1
        taken.add(position)
        while story.cursor < len(order) and (
            story.cursor in taken or self._departures.has_gone(self._jobs[order[story.cursor]], i)
        ):
            taken.discard(story.cursor)
            story.cursor += 1
        story.taken = tuple(sorted(taken))


def _nameless(number: int) -> Job:
    return Job(
        index=-number,
        prompt=None,
        cached=None,
        length=None,
        received=0,
        arrived_at_ns=None,
        queue_ns=None,
        left_after_ns=None,
        left_before_ns=None,
        may_leave=True,
        stops_early=False,
        gaps_ns=None,
    )
