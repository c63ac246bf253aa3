"""Which requests ran in which iteration: the search for the stories that fit what was printed.

The scheduler is deterministic, so the printed numbers of requests say how many left or came, and
the printed token counts, prompt lengths and output lengths say whether the replay still holds.
Where more than one story fits (an abort or a preemption, two arrivals close together) several are
kept, each with a cost in nats, and the cheapest few survive. Requests that no record names fit in
so many ways that the search has an allowance (see `beam`); iterations at which it ran out count as
not reproduced.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from trueput.attribution.iterations.timeline import Window
from trueput.attribution.records import EngineLimits, Steps, Stream
from trueput.attribution.replay.arrivals import Arrivals
from trueput.attribution.replay.beam import Allowance, Beam
from trueput.attribution.replay.block_pool import BlockPool
from trueput.attribution.replay.coasting import Coasting
from trueput.attribution.replay.departures import Departures
from trueput.attribution.replay.lost_lines import LostLines
from trueput.attribution.replay.nats import (
    ANONYMOUS,
    DOUBT,
    GHOST,
    LEFT,
    LEFT_WAITING,
    RESTARTED,
    WRONG,
)
from trueput.attribution.replay.printed import Printed
from trueput.attribution.replay.scheduler import Scheduler
from trueput.attribution.replay.stories import Story, jobs_of

BEAM = 24
MAX_CANDIDATES = 6
"""Of so many requests any may have left at once; where more did it is the likeliest."""
GIVE_UP = 1000
"""Counts not reproduced after which another scheduler must have been at work."""


@dataclass(frozen=True)
class Other:
    """A less obvious way on, not yet gone."""

    least_cost: float
    """The story that it leads to costs so much at least."""
    rank: tuple[int, int]
    make: Callable[[], Story]


class Replay:
    """The replay of one engine process's iterations."""

    def __init__(
        self,
        steps: Steps,
        window: Window,
        streams: Sequence[Stream],
        limits: EngineLimits,
        allowance: Allowance,
        *,
        may_preempt: bool = True,
    ) -> None:
        """`allowance` is one for all engine processes of a run."""
        self.reached = 0
        """Iterations replayed."""
        self.cut_short = 0
        """Iterations at which the allowance left ways on unlooked at."""
        self.looked_at: list[int] = []
        """Iterations that were not passed over with others alike."""
        self._allowance = allowance
        self._printed = printed = Printed(steps, window, limits)
        self._pool = pool = BlockPool(limits)
        self._departures = departures = Departures(printed)
        self._arrivals = arrivals = Arrivals(
            jobs_of(streams),
            printed,
            departures,
            int(steps.elapsed_ns.max(initial=0)),
            caching=pool.caching,
        )
        self._scheduler = scheduler = Scheduler(
            printed, pool, arrivals, departures, allowance, may_preempt=may_preempt,
            is_ahead=window.overlapping,
        )  # fmt: skip
        self._lost_lines = LostLines(printed, pool, arrivals, scheduler, allowance)
        self._coasting = Coasting(printed, pool, departures, scheduler.progress)

    def run(self) -> list[Story]:
        """The surviving stories, cheapest first."""
        beam = [Story(self._arrivals.undated(), self._pool.capacity)]
        i, n = 0, len(self._printed)
        while i < n:
            self._allowance.grow(self._printed.served(i) + 1)
            self.looked_at.append(i)
            heirs, is_whole = self._heirs(beam, i)
            beam = heirs.best(4 * WRONG)
            if not is_whole:
                # what was not looked at may be what happened: a count that fits proves nothing
                self.cut_short += 1
                for story in beam:
                    story.wrong_steps = (*story.wrong_steps, i)
            i += 1
            if len(beam[0].wrong_steps) > GIVE_UP:
                break
            i += self._coasting.coast(beam, i)
        self.reached = i
        for story in beam:
            self._scheduler.close(story, i)
        return sorted(beam, key=lambda story: story.cost)

    def _heirs(self, beam: Sequence[Story], i: int) -> tuple[Beam[Story], bool]:
        """The stories that follow from those of `beam` by step `i`; False where some were left out.

        The obvious heirs come first; then the others, those that can be cheap before the dear,
        until what is left cannot be among the best, or the allowance is spent.
        """
        heirs: Beam[Story] = Beam(BEAM, Story.outlive)
        others: list[Other] = []
        rank, is_whole = 0, True
        for story in beam:
            if rank and self._allowance.is_spent:
                is_whole = False
                break
            for before in self._lost_lines.before(story, i):
                plain = self._scheduler.step(before, i)
                heirs.add(plain.signature(), plain.cost, (rank, 0), plain)
                others += self._others(before, i, plain, rank)
                rank += 1
        others.sort(key=lambda other: other.least_cost)
        for other in others:
            if other.least_cost > heirs.worst:
                break
            if self._allowance.is_spent:
                return heirs, False
            heir = other.make()
            heirs.add(heir.signature(), heir.cost, other.rank, heir)
        return heirs, is_whole

    def _others(self, story: Story, i: int, plain: Story, rank: int) -> list[Other]:
        """What else may follow from `story` by step `i`, `plain` being the obvious heir."""
        found: list[Other] = []
        step, printed = self._scheduler.step, self._printed

        def add(least: float, make: Callable[[], Story]) -> None:
            found.append(Other(story.cost + least, (rank, len(found) + 1), make))

        exact = self._ended_by_budget(story, plain, i)
        if exact is not None:
            add(exact.cost - story.cost, partial(_itself, exact))
        wanted = printed.served(i) - len(story.running)
        if story.stopped[0] == i:
            # even where the counts come out without: a ghost can stand in for a preempted one
            for ghosts in range(1, min(printed.generation[i], len(story.stopped[1])) + 1):
                add(GHOST * ghosts, partial(step, story, i, ghosts=ghosts))
        doubtful = plain.cost > story.cost + DOUBT
        for least, chosen, pick in self._leavings(story, i, wanted, doubtful=doubtful):
            add(least, partial(step, story, i, chosen, pick))
        if wanted == 0 and not doubtful:
            return found
        if printed.generation[i] == 0 and plain.cost > story.cost + WRONG:
            add(RESTARTED, partial(self._scheduler.restart, story, i))
        if wanted > 0:
            # the last pick is a request that no record names
            known = len(self._arrivals.choices(story, i))
            picks = range(known + 1) if doubtful else self._came(story, i)
            for pick in picks[1:]:
                least = ANONYMOUS if pick == known else 0.0
                add(least, partial(step, story, i, (), pick))
        return found

    def _leavings(
        self, story: Story, i: int, wanted: int, *, doubtful: bool
    ) -> Iterator[tuple[float, tuple[int, ...], int]]:
        """Who may have left before step `i`: what it costs at least, who, and who then came."""
        if not doubtful and (wanted > 0 or (wanted == 0 and not story.waiting)):
            return
        costs = [(self._departures.cost(live, i), k) for k, live in enumerate(story.running)]
        if doubtful:
            waiting = enumerate(story.waiting, len(story.running))
            costs += [(self._departures.cost(live, i) + LEFT_WAITING, k) for k, live in waiting]
        if wanted == 0 and not doubtful:
            # one may have gone, and one that waited come in its place
            yield from ((cost, (k,), 0) for cost, k in costs if cost <= LEFT + DOUBT)
            return
        likely = [(cost, k) for cost, k in sorted(costs) if cost < WRONG]
        cheapest = {k: cost for cost, k in likely[:MAX_CANDIDATES]}
        came = self._came(story, i)
        for count in range(1, len(cheapest) + 1):
            for chosen in itertools.combinations(sorted(cheapest), count):
                least = sum(cheapest[k] for k in chosen)
                yield from ((least, chosen, pick) for pick in came)
        # after a stall many clients have given up at once
        for count in range(MAX_CANDIDATES + 1, min(len(likely), MAX_CANDIDATES - wanted) + 1):
            least = sum(cost for cost, _ in likely[:count])
            several = tuple(sorted(k for _, k in likely[:count]))
            yield from ((least, several, pick) for pick in came)

    def _came(self, story: Story, i: int) -> Sequence[int]:
        """Which of the arrivals may be admitted first in step `i`, the obvious one first."""
        if not self._printed.context[i]:
            return (0,)
        return range(max(self._arrivals.ties(story), self._arrivals.gone(story, i) + 1))

    def _ended_by_budget(self, story: Story, plain: Story, i: int) -> Story | None:
        """The heir whose last prompt took just what the budget had left, where that is likely."""
        if not (self._printed.is_full(i) and plain.running and plain.running[-1].flexible):
            return None
        exact = self._scheduler.step(story, i, is_exact=True)
        return exact if exact.cost <= plain.cost + DOUBT else None


def _itself(story: Story) -> Story:
    """Return an heir that is made already."""
    return story
