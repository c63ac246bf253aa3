"""What the replay of a scheduler holds: requests before and in it, and accounts of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trueput.attribution.records import Ints, Stream
from trueput.attribution.replay.free_queue import FreeQueue
from trueput.attribution.replay.nats import LEAST_DOUBT, WRONG

SECOND_NS = 1_000_000_000


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
    queue_ns: int | None
    """Until it was first scheduled."""
    left_after_ns: int | None
    """It left between this and `left_before_ns`; both None where nothing dates it."""
    left_before_ns: int | None
    may_leave: bool
    stops_early: bool
    """It may have ended by an end token, which an engine that schedules ahead learns late."""
    gaps_ns: Ints | None


class Live:
    """A request the replay holds as running or preempted."""

    __slots__ = (
        "chunks", "computed", "flexible", "found", "freed_at", "freed_blocks", "freed_full", "high",
        "is_loose", "job", "out", "preempted_step", "prompt", "shared", "target",
    )  # fmt: skip

    def __init__(self, job: Job, target: int) -> None:
        self.job = job
        self.prompt = job.prompt  # learnt from the printed tokens where no record has it
        self.shared = 0  # blocks it found in the prefix cache when it was new
        self.target = target  # tokens whose KV must exist before the next token is produced
        self.computed = 0
        self.out = 0
        self.high = 0  # the most tokens whose KV ever existed
        self.flexible = False  # tokens found again in the prefix cache are not known yet
        self.found: int | None = None  # but where an annotation of its length tells them
        self.is_loose = False  # nor is what it was given before, beside others of that kind
        self.chunks: list[tuple[int, int]] = []
        self.preempted_step = -1
        self.freed_at = self.freed_blocks = self.freed_full = 0

    def clone(self) -> Live:
        """An independent copy."""
        # spelt out: a replay spends most of its time here
        twin = Live.__new__(Live)
        twin.job, twin.prompt, twin.shared = self.job, self.prompt, self.shared
        twin.target, twin.computed, twin.out = self.target, self.computed, self.out
        twin.high, twin.flexible, twin.is_loose = self.high, self.flexible, self.is_loose
        twin.chunks = list(self.chunks) if self.chunks else []
        twin.preempted_step = self.preempted_step
        twin.freed_at, twin.freed_blocks = self.freed_at, self.freed_blocks
        twin.freed_full, twin.found = self.freed_full, self.found
        return twin

    @property
    def begun(self) -> int:
        """Tokens it was given since it was scheduled, while those found again are not known."""
        return sum([n for _, n in self.chunks]) if self.chunks else 0

    @property
    def rest(self) -> int:
        """Tokens still to be computed before the next output token."""
        return self.target - self.computed


@dataclass(frozen=True)
class Event:
    """Something that happened to a request: `tokens` is its output so far.

    Of prefill and recompute it is what was computed: of the prompt for the first time, or again.
    """

    kind: str
    """admit, preempt, resume, prefill, recompute, start, stop, left, ghost; told: there is one way
    to divide the tokens of the prompts in `step`."""
    step: int
    job: int
    tokens: int


@dataclass(frozen=True)
class Trail:
    """The events of a story, newest first; stories that part share their past."""

    before: Trail | None
    event: Event
    length: int
    """Events up to this one."""


class Story:
    """One consistent account of the run so far."""

    __slots__ = (
        "anonymous", "cost", "cursor", "doubts", "free_queue", "is_open", "open_jobs", "running",
        "stopped", "taken", "trail", "undated", "usual", "waiting", "wrong_steps",
    )  # fmt: skip

    def __init__(self, undated: tuple[int, ...], blocks: int) -> None:
        self.cost = 0.0
        self.running: list[Live] = []
        self.waiting: list[Live] = []  # preempted, head first
        self.cursor = 0  # position of the first job, by arrival, not yet admitted
        self.taken: tuple[int, ...] = ()  # positions beyond it that were admitted before it
        self.undated = undated  # jobs of unknown arrival not yet admitted
        self.trail: Trail | None = None
        self.free_queue = FreeQueue(blocks)
        self.anonymous = 0
        self.usual = 0  # blocks that a new request last found in the prefix cache, if it did
        self.is_open = False  # a victim's share of an iteration was made up with another's
        self.open_jobs: frozenset[int] = frozenset()
        # victims whose recomputed tokens might as well be others, by what was printed
        self.wrong_steps: tuple[int, ...] = ()
        self.stopped: tuple[int, tuple[int, ...]] = (-1, ())
        # before which step which jobs may have ended by an end token
        self.doubts: dict[int, float] = {}
        # jobs of which a story that was dropped for this one says otherwise when they were
        # preempted: how likely that one is, 0..1. Never changed, but replaced

    def clone(self) -> Story:
        """An independent copy that shares the past."""
        twin = Story.__new__(Story)
        twin.cost, twin.trail, twin.wrong_steps = self.cost, self.trail, self.wrong_steps
        twin.cursor, twin.taken, twin.undated = self.cursor, self.taken, self.undated
        twin.anonymous, twin.usual = self.anonymous, self.usual
        twin.is_open, twin.stopped = self.is_open, self.stopped
        twin.open_jobs, twin.doubts = self.open_jobs, self.doubts
        twin.running = [live.clone() for live in self.running]
        twin.waiting = [live.clone() for live in self.waiting]
        twin.free_queue = self.free_queue.clone()
        return twin

    def leave_open(self, job: int) -> None:
        """How many tokens a victim computed again is not told."""
        self.open_jobs |= {job}

    def wrong(self, step: int) -> None:
        """A printed count of an iteration is not reproduced."""
        self.cost += WRONG
        self.wrong_steps = (*self.wrong_steps, step)

    def note(self, kind: str, step: int, job: int, tokens: int) -> None:
        """Adds an event to this story alone."""
        length = 1 if self.trail is None else self.trail.length + 1
        self.trail = Trail(self.trail, Event(kind, step, job, tokens), length)

    def outlive(self, other: Story) -> None:
        """This story is kept and `other`, which can only go on alike, is dropped."""
        behind = other.cost - self.cost
        if behind > LEAST_DOUBT:
            return
        likely = 1 / (1 + math.exp(behind))
        doubted = _preempted_apart(self.trail, other.trail)
        if doubted:
            self.doubts = self.doubts | {k: max(likely, self.doubts.get(k, 0.0)) for k in doubted}

    def events(self) -> list[Event]:
        """All events, oldest first."""
        found = []
        trail = self.trail
        while trail is not None:
            found.append(trail.event)
            trail = trail.before
        return found[::-1]

    def signature(self) -> tuple[object, ...]:
        """Equal for stories that can only go on alike."""
        return (
            tuple((x.job.index, x.out, x.computed, x.flexible) for x in self.running),
            tuple((x.job.index, x.out) for x in self.waiting),
            self.cursor,
            self.taken,
            self.undated,
        )


def _preempted_apart(one: Trail | None, other: Trail | None) -> set[int]:
    """Jobs of whose preemptions two pasts tell differently, since they parted."""
    sides: tuple[set[tuple[int, int]], set[tuple[int, int]]] = (set(), set())
    while one is not other:
        # the longer goes back first, so that both come to what they share
        k = int((0 if one is None else one.length) < (0 if other is None else other.length))
        node = other if k else one
        assert node is not None
        if node.event.kind == "preempt":
            sides[k].add((node.event.step, node.event.job))
        one, other = (one, node.before) if k else (node.before, other)
    return {job for _, job in sides[0] ^ sides[1]}


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
        asked = stream.asked_output_tokens
        left = _left(stream)
        job = Job(
            index=index,
            prompt=stream.prompt_tokens,
            cached=stream.cached_prompt_tokens,
            length=length,
            received=received,
            arrived_at_ns=arrived,
            queue_ns=stream.queue_ns,
            left_after_ns=None if left is None else left[0],
            left_before_ns=None if left is None else left[1],
            may_leave=length is None,
            stops_early=length is not None and (asked is None or length < asked),
            gaps_ns=stream.gaps_ns,
        )
        jobs.append(job)
    return jobs


def _left(stream: Stream) -> tuple[int, int] | None:
    """Between which instants a request left, as far as client or engine say."""
    if stream.ended_at_ns is not None:
        return stream.ended_at_ns, stream.ended_at_ns
    if stream.aborted_at_ns is None:
        return None
    since, until = stream.aborted_at_ns, stream.aborted_at_ns + SECOND_NS
    if stream.first_token_at_ns is not None:
        waited = 0 if stream.gaps_ns is None else int(stream.gaps_ns.sum())
        since = min(max(since, stream.first_token_at_ns + waited), until)
    return since, until
