"""Which requests ran in which iteration: vLLM V1's scheduling replayed under the printed counts.

The scheduler is deterministic: running requests first, in order of admission; where a KV block is
wanting the last of them is preempted and goes to the head of the waiting queue, and nothing is
admitted in that iteration; otherwise the queue is served from its head. So the printed numbers of
requests say how many left from the end or came in from the head, and the printed token counts,
prompt lengths and output lengths say whether the replay still holds. Where more than one story
fits (an abort or a preemption, two arrivals close together) several are kept, each with a cost in
nats, and the cheapest few survive.
"""

from __future__ import annotations

import itertools
import math
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trueput.attribution.records import EngineLimits, Ints, Steps, Stream
from trueput.attribution.timeline import Window

BEAM = 24
WRONG = 6.0
"""Nats for a printed count that the replay does not reproduce."""
ANONYMOUS = 8.0
"""A request that no record names; dear, or it would explain everything."""
UNDATED = 2.0
LEFT = 1.0
DOUBT = 0.5
"""A step that costs a story more than this is looked at again for other explanations."""
LEFT_UNKNOWN = 3.0
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


@dataclass(frozen=True)
class Job:
    """What is known of a request before the replay."""

    index: int
    prompt: int | None
    cached: int | None
    length: int | None
    """Output tokens after which it ends by itself."""
    received: int
    """Output tokens it had at least when it left."""
    arrived_at_ns: int | None
    left_at_ns: int | None
    may_leave: bool
    gaps_ns: Ints | None


class Live:
    """A request the replay holds as running or preempted."""

    __slots__ = (
        "chunks", "computed", "flexible", "freed_at", "freed_blocks", "freed_full", "high",
        "job", "out", "preempted_step", "target",
    )  # fmt: skip

    def __init__(self, job: Job, target: int) -> None:
        self.job = job
        self.target = target  # tokens whose KV must exist before the next token is produced
        self.computed = 0
        self.out = 0
        self.high = 0  # the most tokens whose KV ever existed
        self.flexible = False  # tokens found again in the prefix cache are not known yet
        self.chunks: list[tuple[int, int]] = []
        self.preempted_step = -1
        self.freed_at = self.freed_blocks = self.freed_full = 0

    def clone(self) -> Live:
        """An independent copy."""
        twin = Live.__new__(Live)
        for name in Live.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.chunks = list(self.chunks)
        return twin

    @property
    def rest(self) -> int:
        """Tokens still to be computed before the next output token."""
        return self.target - self.computed


@dataclass(frozen=True)
class Event:
    """Something that happened to a request: `tokens` is its output so far, or recomputed tokens."""

    kind: str  # admit, preempt, resume, recompute, start, stop, left
    step: int
    job: int
    tokens: int


Trail = tuple["Trail | None", Event]


class Story:
    """One consistent account of the run so far."""

    __slots__ = (
        "anonymous", "cost", "head", "holes", "new", "running", "tail", "trail", "waiting",
        "wrong_steps",
    )  # fmt: skip

    def __init__(self, new: tuple[int, ...], blocks: int) -> None:
        self.cost = 0.0
        self.running: list[Live] = []
        self.waiting: list[Live] = []  # preempted, head first
        self.new = new  # job indices not yet admitted, by arrival
        self.trail: Trail | None = None
        self.head, self.tail = 0, blocks  # positions in the free queue's endless order
        self.holes: list[tuple[int, int]] = []
        self.anonymous = 0
        self.wrong_steps: tuple[int, ...] = ()

    def clone(self) -> Story:
        """An independent copy that shares the past."""
        twin = Story.__new__(Story)
        for name in Story.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.running = [live.clone() for live in self.running]
        twin.waiting = [live.clone() for live in self.waiting]
        twin.holes = list(self.holes)
        return twin

    def note(self, kind: str, step: int, job: int, tokens: int) -> None:
        """Adds an event to this story alone."""
        self.trail = (self.trail, Event(kind, step, job, tokens))

    def events(self) -> list[Event]:
        """All events, oldest first."""
        found = []
        trail = self.trail
        while trail is not None:
            trail, event = trail[0], trail[1]
            found.append(event)
        return found[::-1]

    def signature(self) -> tuple[object, ...]:
        """Equal for stories that can only go on alike."""
        return (
            tuple((x.job.index, x.out, x.computed, x.flexible) for x in self.running),
            tuple((x.job.index, x.out) for x in self.waiting),
            self.new,
        )


def jobs_of(streams: Sequence[Stream]) -> list[Job]:
    """The streams as jobs, in order of arrival."""
    jobs = []
    for index, stream in enumerate(streams):
        arrived = stream.arrived_at_ns if stream.arrived_at_ns is not None else stream.sent_at_ns
        length = None if stream.aborted else stream.output_tokens
        received = 0
        if length is None:
            gaps = 0 if stream.gaps_ns is None else len(stream.gaps_ns) + 1
            received = max(stream.output_tokens or 0, gaps)
        job = Job(
            index, stream.prompt_tokens, stream.cached_prompt_tokens, length, received,
            arrived, stream.ended_at_ns, length is None,
            stream.gaps_ns,
        )  # fmt: skip
        jobs.append(job)
    return jobs


class Replay:
    """The replay of one engine process's iterations."""

    def __init__(
        self, steps: Steps, window: Window, streams: Sequence[Stream], limits: EngineLimits
    ) -> None:
        self.jobs = jobs_of(streams)
        self.context = steps.context_requests.tolist()
        self.context_tokens = steps.context_tokens.tolist()
        self.generation = steps.generation_requests.tolist()
        self.generation_tokens = steps.generation_tokens.tolist()
        self.elapsed_sum = np.concatenate([[0], np.cumsum(steps.elapsed_ns)]).tolist()
        self.start_low = (window.end_low_ns - steps.elapsed_ns).tolist()
        self.start_high = (window.end_high_ns - steps.elapsed_ns).tolist()
        self.lost = np.diff(steps.step_ix, prepend=steps.step_ix[:1] - 1).tolist()
        self.block = limits.block_size or 0
        self.capacity = (limits.num_blocks or 1) - 1  # block 0 is the null block
        self.caching = limits.prefix_caching is not False and self.block > 0
        total = steps.context_tokens + steps.generation_tokens
        # without a stated budget the fullest iteration shows it, if any was ever full
        self.budget = limits.max_num_batched_tokens or int(total.max(initial=0))
        self.plain_run = self._plain_runs(steps)

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
        order = sorted(self.jobs, key=lambda job: (job.arrived_at_ns or 0, job.index))
        beam = [Story(tuple(job.index for job in order), self.capacity)]
        i, n = 0, len(self.context)
        while i < n:
            heirs: dict[tuple[object, ...], Story] = {}
            for story in beam:
                for heir in self._heirs(story, i):
                    key = heir.signature()
                    if key not in heirs or heir.cost < heirs[key].cost:
                        heirs[key] = heir
            beam = sorted(heirs.values(), key=lambda story: story.cost)[:BEAM]
            beam = [story for story in beam if story.cost <= beam[0].cost + 4 * WRONG]
            i += 1
            ahead = min([self.plain_run[i - 1] - 1, *map(self._rest_of_plain, beam)])
            if ahead > 0:
                for story in beam:
                    self._coast(story, ahead, i + ahead - 1)
                i += ahead
        for story in beam:
            self._close(story, n)
        return sorted(beam, key=lambda story: story.cost)

    def _rest_of_plain(self, story: Story) -> int:
        """Decode-only steps this story can take at once: until the first request ends."""
        rest = 1 << 60
        for live in story.running:
            if live.out == 0 or live.rest != 1 or live.flexible:
                return 0
            if live.job.length is not None:
                rest = min(rest, live.job.length - live.out - 1)
        return max(rest, 0)

    def _coast(self, story: Story, steps: int, last: int) -> None:
        """Every running request produces one token in each of `steps` decode-only steps."""
        if len(story.running) != self.generation[last]:
            story.cost += WRONG
            story.wrong_steps = (*story.wrong_steps, last)
        for live in story.running:
            self._take_blocks(story, live.computed, live.computed + steps)
            live.computed += steps
            live.target += steps
            live.out += steps
            live.high = max(live.high, live.computed)

    def _close(self, story: Story, n: int) -> None:
        for live in story.running:
            if live.chunks:
                self._flush(story, live, self._found_again(story, live) * self.block)
            story.note("stop", n, live.job.index, live.out)

    # -- one step -----------------------------------------------------------------------------

    def _heirs(self, story: Story, i: int) -> Iterator[Story]:
        """The stories that follow from `story` by step `i`."""
        if self.lost[i] > 1:
            story = story.clone()
            self._cross_lost_lines(story, i)
        plain = self._step(story, i, (), 0)
        yield plain
        wanted = self.context[i] + self.generation[i] - len(story.running)
        if wanted == 0 and plain.cost <= story.cost + DOUBT:
            return
        leavers = [
            k for k, live in enumerate(story.running) if self._leaving_cost(live, i) < WRONG
        ]
        if plain.cost > story.cost + DOUBT or wanted < 0:
            for count in range(1, min(MAX_LEAVERS, len(leavers)) + 1):
                for chosen in itertools.combinations(leavers, count):
                    yield self._step(story, i, chosen, 0)
        if wanted > 0:
            picks = 2 * MAX_PICKS if plain.cost > story.cost + DOUBT else self._ties(story)
            for pick in range(1, min(picks, len(story.new))):
                yield self._step(story, i, (), pick)

    def _ties(self, story: Story) -> int:
        """How many of the next arrivals came so close together that their order is open."""
        if story.waiting or len(story.new) < 2:  # noqa: PLR2004
            return 0
        first, second = (self.jobs[k].arrived_at_ns or 0 for k in story.new[:2])
        return 2 if second - first < TIE_NS else 0

    def _leaving_cost(self, live: Live, i: int) -> float:
        """Nats for a request's having left just before step `i`; infinite where it cannot."""
        job = live.job
        if not job.may_leave or live.out < job.received:
            return math.inf
        if job.left_at_ns is None:
            return LEFT_UNKNOWN
        # clients misstate when they gave up (a cancellation delay counted twice was seen)
        early = job.left_at_ns - ARRIVAL_SLACK_NS - self.start_high[i]
        late = self.start_low[i] - ARRIVAL_SLACK_NS - job.left_at_ns
        return LEFT + max(0, early, late) / LEAVE_SCALE_NS

    def _cross_lost_lines(self, story: Story, i: int) -> None:
        """Lines lost before step `i`: decoding went on; an open prefill's progress is unknown."""
        steps = self.lost[i] - 1
        story.cost += 1.0
        for live in list(story.running):
            if live.out == 0 or live.rest != 1:
                live.flexible = True
                continue
            known = live.job.length
            ahead = steps if known is None else min(steps, known - live.out)
            live.computed += ahead
            live.target += ahead
            live.out += ahead
            live.high = max(live.high, live.computed)
            if known is not None and live.out >= known:
                self._retire(story, live, i, "stop")

    def _step(self, old: Story, i: int, leavers: tuple[int, ...], pick: int) -> Story:
        """`old` after step `i`, the given running requests having left before it."""
        story = old.clone()
        for live in [story.running[k] for k in leavers]:
            story.cost += self._leaving_cost(live, i)
            self._retire(story, live, i, "left")
        wanted = self.context[i] + self.generation[i] - self._served(story)
        if wanted < 0:
            self._preempt(story, i, -wanted)
        fresh = self._admit(story, i, wanted, pick) if wanted > 0 else []
        self._give_tokens(story, i, fresh)
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
                found = self._found_again(story, live) * self.block
                live.computed = found + sum(n for _, n in live.chunks)
                self._take_blocks(story, found, live.computed)
                self._flush(story, live, found)
            story.note("preempt", i, live.job.index, live.out)
            live.high = max(live.high, live.computed)
            live.preempted_step = i
            self._free_blocks(story, live)
            live.computed, live.flexible = 0, False
            story.waiting.insert(0, live)

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
                live.target = (live.job.prompt or live.high) + live.out
                live.flexible = self.caching
                live.computed = 0
                story.note("resume", i, live.job.index, live.out)
            else:
                live = self._admit_new(story, i, pick)
                pick = 0
            story.running.append(live)
            fresh.append(live)
        return fresh

    def _gone(self, job: Job, i: int) -> bool:
        return job.may_leave and job.left_at_ns is not None and (
            job.left_at_ns + ARRIVAL_SLACK_NS < self.start_low[i]
        )

    def _choices(self, story: Story, i: int, latest: int) -> list[int]:
        """Jobs that may be admitted now: the first that arrived, then some of unknown arrival."""
        dated: list[int] = []
        undated: list[int] = []
        for k in story.new:
            job = self.jobs[k]
            if job.arrived_at_ns is None:
                if len(undated) < MAX_PICKS and not self._gone(job, i):
                    undated.append(k)
                continue
            if job.arrived_at_ns > latest or len(dated) > MAX_PICKS:
                # undated ones stand before all others in the queue
                break
            if not self._gone(job, i):
                dated.append(k)
        return [*dated, *undated]

    def _admit_new(self, story: Story, i: int, pick: int) -> Live:
        latest = self.start_high[i] + ARRIVAL_SLACK_NS
        choices = self._choices(story, i, latest)
        if pick < len(choices):
            job = self.jobs[choices[pick]]
            if job.arrived_at_ns is None:
                story.cost += UNDATED
            elif pick:
                behind = job.arrived_at_ns - (self.jobs[choices[0]].arrived_at_ns or 0)
                story.cost += 1.5 + min(behind / ORDER_SCALE_NS, WRONG)
            story.new = tuple(k for k in story.new if k != job.index)
        else:
            story.cost += ANONYMOUS
            story.anonymous += 1
            job = Job(-story.anonymous, None, None, None, 0, None, None, True, None)  # noqa: FBT003
        prompt = job.prompt
        live = Live(job, (prompt or 0) - (job.cached or 0))
        live.flexible = prompt is None or (self.caching and job.cached is None)
        if prompt is not None and job.cached is not None:
            live.target, live.computed = prompt, job.cached
        story.note("admit", i, job.index, 0)
        return live

    # -- tokens -------------------------------------------------------------------------------

    def _give_tokens(self, story: Story, i: int, fresh: list[Live]) -> None:
        """Divides the printed tokens among the running requests and moves each ahead."""
        total = self.context_tokens[i] + self.generation_tokens[i]
        full = total >= self.budget
        running = story.running
        if sum(live.out == 0 for live in running) != self.context[i] and not full:
            self._wrong(story, i)
        served = self._served(story) if full else len(running)
        taking = running[:served]
        last = taking[-1] if taking and full else None
        given: dict[int, int] = {}
        for context in (True, False):
            group = [live for live in taking if (live.out == 0) is context]
            printed = (self.context_tokens if context else self.generation_tokens)[i]
            if not self._divide(story, group, printed, last, given):
                self._wrong(story, i)
        for live in taking:
            self._advance(story, live, given[id(live)], i, partial_allowed=live is last)

    def _wrong(self, story: Story, i: int) -> None:
        story.cost += WRONG
        story.wrong_steps = (*story.wrong_steps, i)

    def _divide(
        self, story: Story, group: list[Live], printed: int, last: Live | None, given: dict[int, int]
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
        guesses = [self._guess(story, live) for live in free]
        spare = rest - sum(guesses)
        # the least certain is the one at the end: it is the one the budget cuts
        for k in range(len(free) - 1, -1, -1):
            live = free[k]
            if live.job.prompt is None or len(free) == 1:
                change = spare
            elif live is last:
                begun = sum(n for _, n in live.chunks)
                change = max(1, min(live.target - begun, guesses[k] + spare)) - guesses[k]
            else:
                change = self._nearest_change(live, guesses[k], spare)
            guesses[k] += change
            spare -= change
        fits = spare == 0
        for live, guess in zip(free, guesses, strict=True):
            given[id(live)] = max(guess, 1)
            fits = fits and self._plausible(story, live, guess, partial=live is last)
        return fits

    def _guess(self, story: Story, live: Live) -> int:
        begun = sum(n for _, n in live.chunks)
        if live.job.prompt is None and live.preempted_step < 0:
            return 1
        found = self._found_again(story, live) if live.preempted_step >= 0 else 0
        return max(1, live.target - found * self.block - begun)

    def _nearest_change(self, live: Live, guess: int, spare: int) -> int:
        """Whole blocks towards `spare`, as far as this request can take them."""
        if not self.block:
            return spare
        begun = sum(n for _, n in live.chunks)
        blocks = spare // self.block if spare >= 0 else -(-spare // self.block)
        most = (live.target - begun - guess) // self.block
        least = -((guess - 1) // self.block)
        return self.block * max(least, min(most, blocks))

    def _plausible(self, story: Story, live: Live, tokens: int, *, partial: bool) -> bool:
        """Whether a request can be given so many tokens; off the predicted cache hit costs."""
        if tokens < 1:
            return False
        if live.job.prompt is None:
            return True
        hit = live.target - tokens - sum(n for _, n in live.chunks)
        if partial:
            return hit >= 0
        if hit < 0 or hit % self.block or hit >= live.target:
            return False
        if live.preempted_step >= 0:
            expected = self._found_again(story, live)
            story.cost += min(1.0, 0.1 * abs(hit // self.block - expected))
        return True

    def _advance(
        self, story: Story, live: Live, tokens: int, i: int, *, partial_allowed: bool
    ) -> None:
        """Moves one request ahead by `tokens`; it produces one when its KV is complete."""
        before = live.computed
        if live.flexible:
            live.chunks.append((i, tokens))
            begun = sum(n for _, n in live.chunks)
            if live.job.prompt is None and live.preempted_step < 0:
                live.target = begun + (1 if partial_allowed else 0)
            if partial_allowed and begun < live.target:
                return
            found = max(0, live.target - begun)
            self._flush(story, live, found)
            live.computed, live.flexible = live.target, False
            if live.preempted_step >= 0:
                self._touch(story, live, found)
            self._take_blocks(story, found, live.target)
        else:
            again = min(before + tokens, live.high) - before
            if again > 0:
                story.note("recompute", i, live.job.index, again)
            live.computed = min(live.target, before + tokens)
            self._take_blocks(story, before, live.computed)
        live.high = max(live.high, live.computed)
        if live.computed < live.target:
            return
        if live.preempted_step >= 0 or live.out == 0:
            self._check_gap(story, live, i)
            live.preempted_step = -1
            story.note("start", i, live.job.index, live.out)
        live.out += 1
        live.target += 1
        if live.job.length is not None and live.out >= live.job.length:
            self._retire(story, live, i + 1, "stop")

    def _flush(self, story: Story, live: Live, found: int) -> None:
        """Recomputed tokens of the chunks since the request was scheduled again."""
        at = found
        for step, tokens in live.chunks:
            again = min(at + tokens, live.high) - at
            if again > 0:
                story.note("recompute", step, live.job.index, again)
            at += tokens
        live.chunks = []

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
        live.freed_blocks = self._blocks(live.computed)
        live.freed_full = live.computed // self.block if self.block else 0
        story.tail += live.freed_blocks

    def _found_again(self, story: Story, live: Live) -> int:
        """Blocks of a preempted request's prefix that nothing has overwritten yet.

        Its last block was freed first, so the prefix is overwritten last.
        """
        if not self.caching or self.capacity <= 0:
            return 0
        kept = live.freed_at + live.freed_blocks - story.head
        return max(0, min(kept, live.freed_full, (live.target - 1) // self.block))

    def _touch(self, story: Story, live: Live, found: int) -> None:
        """Blocks found again leave the middle of the free queue."""
        count = found // self.block if self.block else 0
        if count:
            insort(story.holes, (live.freed_at + live.freed_blocks - count, count))
