"""Which requests ran in which iteration: vLLM V1's scheduling replayed under the printed counts.

The scheduler is deterministic: running requests first, in order of admission; where a KV block is
wanting the last of them is preempted and goes to the head of the waiting queue, and nothing is
admitted in that iteration; otherwise the queue is served from its head. So the printed numbers of
requests say how many left from the end or came in from the head, and the printed token counts,
prompt lengths and output lengths say whether the replay still holds. Where more than one story
fits (an abort or a preemption, two arrivals close together) several are kept, each with a cost in
nats, and the cheapest few survive. Requests that no record names fit in so many ways that the
search has an allowance (see `beam`); iterations at which it ran out count as not reproduced.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from trueput.attribution.admission_order import admission_order
from trueput.attribution.beam import Allowance, Beam
from trueput.attribution.records import EngineLimits, Steps, Stream
from trueput.attribution.stories import Job, Live, Story, jobs_of
from trueput.attribution.timeline import Window

BEAM = 24
WRONG = 6.0
"""Nats for a printed count that the replay does not reproduce."""
ANONYMOUS = 8.0
"""A request that no record names; dear, or it would explain everything."""
UNDATED = 2.0
UNSEEN = 1.5
"""A change of the running set in an iteration whose line is lost."""
GHOST = 0.5
RESTART_NS = 1_000_000_000
LEFT = 1.0
DOUBT = 0.5
"""A step that costs a story more than this is looked at again for other explanations."""
LEFT_UNKNOWN = 3.0
UNENDED = 6.0
"""A request that has ended by its records, and not in the iterations."""
USAGE_DIFFERS = 3.0
KV_RESOLUTION = 0.001
UNNEEDED = 3.0
"""A preemption although the blocks would have sufficed."""
GAP_DENIES = 2.5
ARRIVAL_SLACK_NS = 50_000_000
ORDER_SCALE_NS = 20_000_000
TIE_NS = 5_000_000
"""The front end tokenises in parallel: so close, its order need not be the engine's."""
LEAVE_SCALE_NS = 500_000_000
MAX_PICKS = 5
MAX_LEAVERS = 2
MAX_CANDIDATES = 6
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
        self.may_preempt = may_preempt
        self.jobs = jobs_of(streams)
        self.order = admission_order(self.jobs, int(steps.elapsed_ns.max(initial=0)))
        self.context = steps.context_requests.tolist()
        self.context_tokens = steps.context_tokens.tolist()
        self.generation = steps.generation_requests.tolist()
        self.generation_tokens = steps.generation_tokens.tolist()
        self.kv_used = steps.kv_used_ratio.tolist()
        self.elapsed_sum = np.concatenate([[0], np.cumsum(steps.elapsed_ns)]).tolist()
        self.start_low = (window.end_low_ns - steps.elapsed_ns).tolist()
        self.start_high = (window.end_high_ns - steps.elapsed_ns).tolist()
        self.lost = np.diff(steps.step_ix, prepend=steps.step_ix[:1] - 1).tolist()
        self.block = limits.block_size or 0
        self.capacity = (limits.num_blocks or 1) - 1  # block 0 is the null block
        self.unit = self.block or 1  # cached tokens come in these
        self.caching = limits.prefix_caching is not False
        total = steps.context_tokens + steps.generation_tokens
        # without a stated budget the fullest iteration shows it, if any was ever full
        self.budget = limits.max_num_batched_tokens or int(total.max(initial=0))
        self.plain_run = self._plain_runs(steps)
        self.reached = 0  # iterations replayed
        self.cut_short = 0  # iterations at which the allowance left ways on unlooked at
        self.allowance = allowance  # one for all processes of a run

    @staticmethod
    def _plain_runs(steps: Steps) -> list[int]:
        """For each step, how many steps from it on print the same pure decode line."""
        n = len(steps.step_ix)
        plain = (steps.context_requests == 0) & (
            steps.generation_tokens == steps.generation_requests
        )
        same = np.zeros(n, dtype=bool)
        same[:-1] = (
            plain[:-1]
            & plain[1:]
            & (np.diff(steps.generation_requests) == 0)
            & (np.diff(steps.step_ix) == 1)
        )
        runs = [1] * n
        for i in range(n - 2, -1, -1):
            if same[i]:
                runs[i] = runs[i + 1] + 1
        return runs

    # -- the search ---------------------------------------------------------------------------

    def run(self) -> list[Story]:
        """The surviving stories, cheapest first."""
        undated = tuple(job.index for job in self.jobs if job.arrived_at_ns is None)
        beam = [Story(undated, self.capacity)]
        i, n = 0, len(self.context)
        while i < n:
            self.allowance.grow(self.context[i] + self.generation[i] + 1)
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
            ahead = self.plain_run[i - 1] - 1
            if ahead > 0:
                ahead = min(ahead, *(self._rest_of_plain(story, i) for story in beam))
            if ahead > 0:
                for story in beam:
                    self._coast(story, ahead)
                i += ahead
        self.reached = i
        for story in beam:
            self._close(story, i)
        return sorted(beam, key=lambda story: story.cost)

    def _rest_of_plain(self, story: Story, i: int) -> int:
        """Decode-only steps from `i` on this story can take at once: until a request ends."""
        if len(story.running) != self.generation[i]:
            return 0
        rest = 1 << 60
        for live in story.running:
            if live.out == 0 or live.rest != 1 or live.flexible:
                return 0
            if live.job.length is not None:
                rest = min(rest, live.job.length - live.out - 1)
            elif story.waiting:
                rest = min(rest, self._before_leaving(live, i))
        return max(rest, 0)

    def _before_leaving(self, live: Live, i: int) -> int:
        """Steps from `i` on before which a request cannot well have gone."""
        job = live.job
        if job.left_after_ns is None or job.left_before_ns is None:
            return 1 << 60
        late = self.start_low[i] - ARRIVAL_SLACK_NS - job.left_before_ns
        if late > DOUBT * LEAVE_SCALE_NS:
            return 1 << 60
        since = bisect_left(self.start_high, job.left_after_ns - ARRIVAL_SLACK_NS, i)
        return max(0, job.received - live.out, since - i)

    def _coast(self, story: Story, steps: int) -> None:
        """Every running request produces one token in each of `steps` decode-only steps."""
        for live in story.running:
            self._take_blocks(story, live.computed, live.computed + steps)
            live.computed += steps
            live.target += steps
            live.out += steps
            live.high = max(live.high, live.computed)

    def _close(self, story: Story, n: int) -> None:
        self._check_usage(story, n)
        for live in [*story.running, *story.waiting]:
            story.cost += self._unended_cost(live, n)
        for live in story.running:
            if live.chunks:
                self._flush(story, live, self._found_again(story, live) * self.block)
            story.note("stop", n, live.job.index, live.out)

    def _unended_cost(self, live: Live, n: int) -> float:
        """Nats for a request's being there after the last iteration although it is known to end.

        Staying must not be cheaper than leaving. Where the log was cut all stories pay alike.
        """
        job = live.job
        if not job.may_leave:
            return UNENDED
        return 0.0 if job.left_before_ns is None else min(self._leaving_cost(live, n - 1), UNENDED)

    # -- one step -----------------------------------------------------------------------------

    def _heirs(self, beam: Sequence[Story], i: int) -> tuple[Beam[Story], bool]:
        """The stories that follow from those of `beam` by step `i`; False where some were left out.

        The obvious heirs come first; then the others, those that can be cheap before the dear,
        until what is left cannot be among the best, or the allowance is spent.
        """
        heirs: Beam[Story] = Beam(BEAM)
        others: list[Other] = []
        rank, is_whole = 0, True
        for story in beam:
            if rank and self.allowance.is_spent:
                is_whole = False
                break
            for before in self._before(story, i):
                plain = self._step(before, i, (), 0)
                heirs.add(plain.signature(), plain.cost, (rank, 0), plain)
                others += self._others(before, i, plain, rank)
                rank += 1
        others.sort(key=lambda other: other.least_cost)
        for other in others:
            if other.least_cost > heirs.worst:
                break
            if self.allowance.is_spent:
                return heirs, False
            heir = other.make()
            heirs.add(heir.signature(), heir.cost, other.rank, heir)
        return heirs, is_whole

    def _before(self, story: Story, i: int) -> Iterator[Story]:
        """What `story` may be just before step `i`."""
        if self.lost[i] <= 1:
            yield story
            return
        for before, joined in self._before_lost_lines(story, i):
            self.allowance.spend(len(before.running) + 1)
            self._cross_lost_lines(before, i, joined)
            yield before

    def _before_lost_lines(self, story: Story, i: int) -> Iterator[tuple[Story, list[Live]]]:
        """What may have happened in iterations whose lines are lost: nothing, or one change."""
        yield story.clone(), []
        if story.running and self.may_preempt:
            preempted = story.clone()
            preempted.cost += UNSEEN
            self._preempt(preempted, i, 1)
            yield preempted, []
        if story.waiting or self._choices(story, i):
            admitted = story.clone()
            admitted.cost += UNSEEN
            joined = self._admit(admitted, i, 1, 0)
            for live in joined:
                found = self._found_again(admitted, live) * self.block if live.flexible else 0
                if live.prompt is None:
                    return
                live.chunks, live.flexible = [], False
                self._take_blocks(admitted, found, live.target)
                live.computed = live.target
                live.high = max(live.high, live.computed)
                live.preempted_step = -1
                admitted.note("start", i, live.job.index, live.out)
                live.out += 1
                live.target += 1
            yield admitted, joined

    def _others(self, story: Story, i: int, plain: Story, rank: int) -> list[Other]:
        """What else may follow from `story` by step `i`, `plain` being the obvious heir."""
        found: list[Other] = []

        def add(least: float, make: Callable[[], Story]) -> None:
            found.append(Other(story.cost + least, (rank, len(found) + 1), make))

        exact = self._ended_by_budget(story, plain, i)
        if exact is not None:
            add(exact.cost - story.cost, partial(_itself, exact))
        wanted = self.context[i] + self.generation[i] - len(story.running)
        if story.stopped[0] == i:
            # even where the counts come out without: a ghost can stand in for a preempted one
            for ghosts in range(1, min(self.generation[i], story.stopped[1]) + 1):
                add(GHOST * ghosts, partial(self._step, story, i, (), 0, ghosts))
        doubtful = plain.cost > story.cost + DOUBT
        for least, chosen, pick in self._leavings(story, i, wanted, doubtful=doubtful):
            add(least, partial(self._step, story, i, chosen, pick))
        if wanted == 0 and not doubtful:
            return found
        if self.generation[i] == 0 and plain.cost > story.cost + WRONG:
            add(2 * WRONG, partial(self._restarted, story, i))
        if wanted > 0:
            # the last pick is a request that no record names
            known = len(self._choices(story, i))
            picks = known + 1 if doubtful else self._ties(story)
            for pick in range(1, picks):
                least = ANONYMOUS if pick == known else 0.0
                add(least, partial(self._step, story, i, (), pick))
        return found

    def _leavings(
        self, story: Story, i: int, wanted: int, *, doubtful: bool
    ) -> Iterator[tuple[float, tuple[int, ...], int]]:
        """Who may have left before step `i`: what it costs at least, who, and who then came."""
        if not doubtful and (wanted > 0 or (wanted == 0 and not story.waiting)):
            return
        costs = [(self._leaving_cost(live, i), k) for k, live in enumerate(story.running)]
        if wanted == 0 and not doubtful:
            # one may have gone, and one that waited come in its place
            yield from ((cost, (k,), 0) for cost, k in costs if cost <= LEFT + DOUBT)
            return
        cheapest = {k: cost for cost, k in sorted(costs)[:MAX_CANDIDATES] if cost < WRONG}
        came = (0, 1) if self.context[i] and self._ties(story) else (0,)
        for count in range(1, min(MAX_LEAVERS, len(cheapest)) + 1):
            for chosen in itertools.combinations(sorted(cheapest), count):
                least = sum(cheapest[k] for k in chosen)
                yield from ((least, chosen, pick) for pick in came)

    def _ended_by_budget(self, story: Story, plain: Story, i: int) -> Story | None:
        """The heir whose last prompt took just what the budget had left, where that is likely."""
        if not (self._is_full(i) and plain.running and plain.running[-1].flexible):
            return None
        exact = self._step(story, i, (), 0, is_exact=True)
        return exact if exact.cost <= plain.cost + DOUBT else None

    def _restarted(self, old: Story, i: int) -> Story:
        """Nothing was decoding: whatever the story still held had gone, and it starts afresh."""
        story = old.clone()
        story.cost += 2 * WRONG
        for live in [*story.running, *story.waiting]:
            story.note("left", i, live.job.index, live.out)
        story.running, story.waiting, story.holes = [], [], []
        story.head, story.tail = 0, self.capacity
        # who arrived long before was served before
        since = self.start_low[i] - RESTART_NS
        while story.cursor < len(self.order) and (
            (self.jobs[self.order[story.cursor]].arrived_at_ns or 0) < since
        ):
            story.cursor += 1
        story.taken = tuple(k for k in story.taken if k >= story.cursor)
        return self._step(story, i, (), 0)

    def _ties(self, story: Story) -> int:
        """How many of the next arrivals came so close together that their order is open."""
        if story.waiting or story.cursor + 2 > len(self.order):
            return 0
        head = self.order[story.cursor : story.cursor + 2]
        first, second = (self.jobs[k].arrived_at_ns or 0 for k in head)
        return 2 if abs(second - first) < TIE_NS else 0

    def _leaving_cost(self, live: Live, i: int) -> float:
        """Nats for a request's having left just before step `i`; infinite where it cannot."""
        job = live.job
        if not job.may_leave or live.out < job.received:
            return math.inf
        if job.left_after_ns is None or job.left_before_ns is None:
            return LEFT_UNKNOWN
        # clients misstate when they gave up (a cancellation delay counted twice was seen)
        early = job.left_after_ns - ARRIVAL_SLACK_NS - self.start_high[i]
        late = self.start_low[i] - ARRIVAL_SLACK_NS - job.left_before_ns
        return float(LEFT + max(0, early, late) / LEAVE_SCALE_NS)

    def _cross_lost_lines(self, story: Story, i: int, joined: Sequence[Live] = ()) -> None:
        """Lines lost before step `i`: decoding went on; an open prefill's progress is unknown."""
        steps = self.lost[i] - 1
        story.cost += 1.0
        for live in list(story.running):
            if live.out == 0 or live.rest != 1:
                live.flexible = True
                continue
            known = live.job.length
            # one that was admitted in the first of them has had its token there
            left = steps - 1 if live in joined else steps
            ahead = left if known is None else min(left, known - live.out)
            live.computed += ahead
            live.target += ahead
            live.out += ahead
            live.high = max(live.high, live.computed)
            if known is not None and live.out >= known:
                self._retire(story, live, i, "stop")

    def _step(
        self,
        old: Story,
        i: int,
        leavers: tuple[int, ...],
        pick: int,
        ghosts: int = 0,
        *,
        is_exact: bool = False,
    ) -> Story:
        """`old` after step `i`, the given running requests having left before it.

        `ghosts` were given a token once more, because the engine schedules ahead of outputs. Where
        `is_exact` what the last one wanted was just what the token budget had left.
        """
        story = old.clone()
        self.allowance.spend(len(story.running) + 1)
        self._check_usage(story, i)
        for live in [story.running[k] for k in leavers]:
            story.cost += self._leaving_cost(live, i)
            self._retire(story, live, i, "left")
        wanted = self.context[i] + self.generation[i] - self._served(story) - ghosts
        story.cost += GHOST * ghosts
        if wanted < 0 and self.may_preempt:
            self._preempt(story, i, -wanted)
        if wanted > 0:
            self._admit(story, i, wanted, pick)
        self._give_tokens(story, i, ghosts, is_exact=is_exact)
        return story

    def _served(self, story: Story) -> int:
        """Running requests that the token budget reaches."""
        left, count = self.budget, 0
        for live in story.running:
            if left <= 0:
                break
            # an open recompute takes what it needs, which is at least one token
            left -= 1 if live.flexible else min(live.rest, left)
            count += 1
        return count

    def _preempt(self, story: Story, i: int, count: int) -> None:
        if self.block and self.capacity > 0 and not self._blocks_wanting(story):
            story.cost += UNNEEDED
        for _ in range(min(count, len(story.running))):
            live = story.running.pop()
            if live.chunks:
                found = self._found_before(story, live)
                live.computed = found + sum(n for _, n in live.chunks)
                self._take_blocks(story, found, live.computed)
                self._flush(story, live, found)
            story.note("preempt", i, live.job.index, live.out)
            live.high = max(live.high, live.computed)
            live.preempted_step = i
            self._free_blocks(story, live)
            live.computed, live.flexible = 0, False
            story.waiting.insert(0, live)

    def _found_before(self, story: Story, live: Live) -> int:
        """Tokens of a prefill that is cut short which the prefix cache held, likely as of others.

        What the request is then given anew tells how much of that is computed again.
        """
        if live.preempted_step >= 0 or live.prompt is None:
            return self._found_again(story, live) * self.block
        begun = sum(n for _, n in live.chunks)
        live.shared = max(0, min(story.usual, (live.target - begun - 1) // self.unit))
        story.is_open = True
        return live.shared * self.unit

    def _blocks_wanting(self, story: Story) -> bool:
        used = sum(
            self._blocks(live.computed + (1 if live.flexible else min(live.rest, self.budget)))
            for live in story.running
        )
        return used > self.capacity

    def _admit(self, story: Story, i: int, count: int, pick: int) -> list[Live]:
        """Takes `count` requests from the head of the queue; `pick` skips within arrivals."""
        fresh: list[Live] = []
        for _ in range(count):
            if story.waiting and self._gone(story.waiting[0].job, i):
                gone = story.waiting.pop(0)
                story.note("left", i, gone.job.index, gone.out)
            if story.waiting:
                live = story.waiting.pop(0)
                live.target = (live.prompt or live.high) + live.out
                live.flexible = self.caching or live.prompt is None
                live.computed = 0
                story.note("resume", i, live.job.index, live.out)
            else:
                live = self._admit_new(story, i, pick)
                pick = 0
            story.running.append(live)
            fresh.append(live)
        return fresh

    def _gone(self, job: Job, i: int) -> bool:
        return (
            job.may_leave
            and job.left_before_ns is not None
            and (job.left_before_ns + ARRIVAL_SLACK_NS < self.start_low[i])
        )

    def _choices(self, story: Story, i: int) -> list[int]:
        """Jobs that may be admitted now: the first that arrived, then some of unknown arrival."""
        latest = self.start_high[i] + ARRIVAL_SLACK_NS
        dated: list[int] = []
        for position in range(story.cursor, len(self.order)):
            job = self.jobs[self.order[position]]
            if (job.arrived_at_ns or 0) > latest or len(dated) > MAX_PICKS:
                break
            if position not in story.taken and not self._gone(job, i):
                dated.append(job.index)
        undated = (k for k in story.undated if not self._gone(self.jobs[k], i))
        return [*dated, *itertools.islice(undated, MAX_PICKS)]

    def _take_job(self, story: Story, k: int, i: int) -> None:
        """Removes an admitted job from those to come, and moves on over whoever has gone."""
        if self.jobs[k].arrived_at_ns is None:
            story.undated = tuple(other for other in story.undated if other != k)
            return
        order, taken = self.order, {*story.taken}
        position = story.cursor
        while order[position] != k:
            position += 1
        taken.add(position)
        while story.cursor < len(order) and (
            story.cursor in taken or self._gone(self.jobs[order[story.cursor]], i)
        ):
            taken.discard(story.cursor)
            story.cursor += 1
        story.taken = tuple(sorted(taken))

    def _admit_new(self, story: Story, i: int, pick: int) -> Live:
        choices = self._choices(story, i)
        if pick < len(choices):
            job = self.jobs[choices[pick]]
            if job.arrived_at_ns is None:
                story.cost += UNDATED
            elif pick:
                behind = job.arrived_at_ns - (self.jobs[choices[0]].arrived_at_ns or 0)
                story.cost += 1.5 + min(abs(behind) / ORDER_SCALE_NS, WRONG)
            self._take_job(story, job.index, i)
        else:
            story.cost += ANONYMOUS
            story.anonymous += 1
            job = Job(
                index=-story.anonymous,
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
        prompt = job.prompt
        live = Live(job, (prompt or 0) - (job.cached or 0))
        live.flexible = prompt is None or (self.caching and job.cached is None)
        if prompt is not None and job.cached is not None:
            live.target, live.computed = prompt, job.cached
        story.note("admit", i, job.index, 0)
        return live

    # -- tokens -------------------------------------------------------------------------------

    def _is_full(self, i: int) -> bool:
        """Whether an iteration used its token budget up."""
        return bool(self.context_tokens[i] + self.generation_tokens[i] >= self.budget)

    def _give_tokens(self, story: Story, i: int, ghosts: int, *, is_exact: bool) -> None:
        """Divides the printed tokens among the running requests and moves each ahead."""
        full = self._is_full(i)
        running = story.running
        if sum(live.out == 0 for live in running) != self.context[i] and not full:
            self._wrong(story, i)
        served = self._served(story) if full else len(running)
        taking = running[:served]
        last = taking[-1] if taking and full and not is_exact else None
        given: dict[int, int] = {}
        for context in (True, False):
            group = [live for live in taking if (live.out == 0) is context]
            printed = self.context_tokens[i] if context else self.generation_tokens[i] - ghosts
            if not self._divide(story, group, printed, last, given):
                self._wrong(story, i)
        for live in taking:
            self._advance(story, live, given[id(live)], i, partial_allowed=live is last)

    def _wrong(self, story: Story, i: int) -> None:
        story.cost += WRONG
        story.wrong_steps = (*story.wrong_steps, i)

    def _divide(
        self,
        story: Story,
        group: list[Live],
        printed: int,
        last: Live | None,
        given: dict[int, int],
    ) -> bool:
        """Tokens of each request of a group, by id; False where the printed sum does not fit."""
        rest = printed
        free: list[Live] = []
        for live in group:
            if live.flexible:
                free.append(live)
            else:
                given[id(live)] = live.rest
                rest -= live.rest
        if not free:
            if rest < 0 and last in group and last is not None and last.rest + rest > 0:
                given[id(last)] = last.rest + rest
                return True
            return rest == 0
        if len(free) == 1:
            guesses = [rest]
            self._learn(story, free[0], rest, partial=free[0] is last)
        else:
            guesses = self._guesses(story, free, rest, last)
        fits = sum(guesses) == rest
        for live, guess in zip(free, guesses, strict=True):
            given[id(live)] = max(guess, 1)
            fits = fits and self._plausible(story, live, guess, partial=live is last)
            live.is_loose = live.is_loose or (live is last and len(free) > 1)
        return fits

    def _learn(self, story: Story, live: Live, tokens: int, *, partial: bool) -> None:
        """Takes over what a new request found in the cache, where nobody else's share is open."""
        if live.prompt is None or live.preempted_step >= 0 or live.is_loose or partial:
            return
        found = (live.target - tokens - sum(n for _, n in live.chunks)) // self.unit
        story.usual = found if found > 0 else story.usual

    def _guesses(self, story: Story, free: list[Live], rest: int, last: Live | None) -> list[int]:
        """Tokens of several requests whose shares are open, that sum to `rest` where they can.

        Shares of most change by whole blocks. Any share can be that of the one the budget cuts, and
        of one that it cut before, beside others: these make up the sum, before and after.
        """
        guesses = [self._guess(story, live) for live in free]
        spare = rest - sum(guesses)
        makeweights = [k for k, live in enumerate(free) if live is last or live.is_loose]
        is_again = any(live.preempted_step >= 0 for live in free)
        story.is_open = story.is_open or (bool(makeweights) and is_again)
        # least certain are those without a prefix others keep alive; the later finds more
        later = -1 if spare < 0 else 1
        order = sorted(range(len(free)), key=lambda k: (free[k].shared, later * k))
        for k in [*makeweights, *(k for k in order if k not in makeweights), *makeweights]:
            live = free[k]
            if live.prompt is None:
                change = spare
            elif k in makeweights:
                begun = sum(n for _, n in live.chunks)
                change = max(1, min(live.target - begun, guesses[k] + spare)) - guesses[k]
            else:
                change = self._nearest_change(live, guesses[k], spare, beyond=bool(makeweights))
            guesses[k] += change
            spare -= change
        return guesses

    def _guess(self, story: Story, live: Live) -> int:
        begun = sum(n for _, n in live.chunks)
        if live.prompt is None:
            return 1
        if live.preempted_step >= 0:
            found = self._found_again(story, live) * self.block
        else:
            found = min(story.usual, (live.target - begun - 1) // self.unit) * self.unit
        return max(1, live.target - found - begun)

    def _nearest_change(self, live: Live, guess: int, spare: int, *, beyond: bool) -> int:
        """Whole blocks towards `spare`, or just beyond it, as far as this request can take them."""
        begun = sum(n for _, n in live.chunks)
        blocks = abs(spare) // self.unit
        if beyond and abs(spare) % self.unit:
            blocks += 1
        blocks = blocks if spare >= 0 else -blocks
        most = (live.target - begun - guess) // self.unit
        least = -((guess - 1) // self.unit)
        return self.unit * max(least, min(most, blocks))

    def _plausible(self, story: Story, live: Live, tokens: int, *, partial: bool) -> bool:
        """Whether a request can be given so many tokens; off the predicted cache hit costs."""
        if tokens < 1:
            return False
        if live.prompt is None:
            return True
        hit = live.target - tokens - sum(n for _, n in live.chunks)
        if partial or live.is_loose:
            return hit >= 0
        if hit < 0 or hit % self.unit or hit >= live.target:
            return False
        if live.preempted_step >= 0:
            expected = self._found_again(story, live)
            story.cost += min(1.0, 0.1 * abs(hit // self.unit - expected))
        return True

    def _advance(
        self, story: Story, live: Live, tokens: int, i: int, *, partial_allowed: bool
    ) -> None:
        """Moves one request ahead by `tokens`; it produces one when its KV is complete."""
        before = live.computed
        if live.flexible:
            live.chunks.append((i, tokens))
            begun = sum(n for _, n in live.chunks)
            if live.prompt is None:
                live.target = begun + (1 if partial_allowed else 0)
            if partial_allowed and begun < live.target:
                return
            found = max(0, live.target - begun)
            if live.preempted_step < 0:
                live.shared = found // self.unit
            self._flush(story, live, found)
            live.computed, live.flexible = live.target, False
            if live.preempted_step >= 0:
                self._touch(story, live, found)
            self._take_blocks(story, found, live.target)
        else:
            self._note_work(story, live, i, before, before + tokens)
            live.computed = min(live.target, before + tokens)
            self._take_blocks(story, before, live.computed)
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
            self._retire(story, live, i + 1, "stop")
            if live.job.stops_early:
                step, count = story.stopped
                story.stopped = (i + 1, count + 1 if step == i + 1 else 1)

    def _flush(self, story: Story, live: Live, found: int) -> None:
        """What the chunks since the request was scheduled computed."""
        at = found
        for step, tokens in live.chunks:
            self._note_work(story, live, step, at, at + tokens)
            at += tokens
        live.chunks = []

    @staticmethod
    def _note_work(story: Story, live: Live, step: int, before: int, after: int) -> None:
        """KV of a request from `before` to `after`: what had existed is computed again."""
        again = max(0, min(after, live.high) - before)
        if again > 0:
            story.note("recompute", step, live.job.index, again)
        if live.out == 0 and after - before > again:
            story.note("prefill", step, live.job.index, after - before - again)

    def _check_gap(self, story: Story, live: Live, i: int) -> None:
        """The client must have waited, give or take a late delivery before."""
        gaps = live.job.gaps_ns
        if live.preempted_step < 0 or live.out == 0 or gaps is None:
            return
        if live.out - 1 < len(gaps):
            waited = self.elapsed_sum[i + 1] - self.elapsed_sum[live.preempted_step]
            if int(gaps[live.out - 1]) < 0.3 * waited - 20_000_000:
                story.cost += GAP_DENIES

    def _retire(self, story: Story, live: Live, i: int, kind: str) -> None:
        story.running.remove(live)
        if live.chunks:
            found = self._found_again(story, live) * self.block
            live.computed = found + sum(n for _, n in live.chunks)
            self._take_blocks(story, found, live.computed)
            self._flush(story, live, found)
        self._free_blocks(story, live)
        story.note(kind, i, live.job.index, live.out)

    # -- KV blocks: the free queue is served at its head, freed blocks join at its tail ----------

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.block) if self.block else 0

    def _take_blocks(self, story: Story, before: int, after: int) -> None:
        story.head += self._blocks(after) - self._blocks(before)
        while story.holes and story.head >= story.holes[0][0]:
            story.head += story.holes.pop(0)[1]

    def _free_blocks(self, story: Story, live: Live) -> None:
        live.freed_at = story.tail
        # a prefix it found in the cache is another request's too, and likely still in use
        live.freed_blocks = max(0, self._blocks(live.computed) - live.shared)
        live.freed_full = live.computed // self.block if self.block else 0
        story.tail += live.freed_blocks

    def _check_usage(self, story: Story, i: int) -> None:
        """Compares the KV usage printed before step `i` with the story's, and takes it over.

        Blocks of unknown owners that new requests found in the cache left the free queue unseen:
        its head is further on by as many.
        """
        used = self.kv_used[i - 1] if i > 0 else math.nan
        if math.isnan(used) or self.capacity <= 0 or not self.block:
            return
        if any(live.flexible or live.job.prompt is None for live in story.running):
            return
        free = round(self.capacity * (1 - used))
        held = sum(self._blocks(live.computed) for live in story.running)
        # blocks found in the cache may be another's too, and are counted once
        shared = sum(live.shared for live in story.running)
        beyond = self.capacity - held - free
        off = max(-beyond - shared, beyond) - KV_RESOLUTION * self.capacity
        if off > 0:
            story.cost += min(USAGE_DIFFERS, off)
        unseen = story.tail - story.head - sum(n for _, n in story.holes) - free
        if unseen > 0:
            story.head += unseen
            story.holes = [hole for hole in story.holes if hole[0] > story.head]

    def _found_again(self, story: Story, live: Live) -> int:
        """Blocks of a preempted request's prefix that nothing has overwritten yet.

        Its last block was freed first, so the prefix is overwritten last.
        """
        if not self.caching or self.capacity <= 0 or not self.block:
            return 0
        kept = max(0, live.freed_at + live.freed_blocks - story.head)
        most = min(live.freed_full, (live.target - 1) // self.block)
        return max(0, min(live.shared + kept, most))

    def _touch(self, story: Story, live: Live, found: int) -> None:
        """Blocks found again leave the middle of the free queue."""
        count = found // self.block - live.shared if self.block else 0
        if count > 0:
            insort(story.holes, (live.freed_at + live.freed_blocks - count, count))


def _itself(story: Story) -> Story:
    """Return an heir that is made already."""
    return story
