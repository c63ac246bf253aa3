"""Who was preempted, for how long, and what computing their state again cost: one run's victims.

The engine's iterations are replayed under their printed counts (see `replay`), each request's
tokens are thereby tied to iterations, the client's receipts date those iterations, and the step
cost model says what the recomputed tokens cost. What the replay cannot tell stays unattributed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from trueput.attribution.beam import Allowance
from trueput.attribution.cache_hits import Prompt, share_hits
from trueput.attribution.presence import Presence, presences
from trueput.attribution.recompute import (
    ReplayTokens,
    TokenTotals,
    excess_tokens,
    lost_lines,
    recompute_totals,
    recomputed_by_step,
)
from trueput.attribution.records import (
    EngineLimits,
    Floats,
    Ints,
    RecomputeTotals,
    RequestRecompute,
    Steps,
    Stream,
    Totals,
)
from trueput.attribution.replay.search import Replay
from trueput.attribution.step_cost import (
    StepCost,
    StepParts,
    StepWork,
    fit_step_cost,
    split_steps,
)
from trueput.attribution.stories import Event, Story
from trueput.attribution.timeline import (
    Sightings,
    Window,
    dated_ends,
    nothing_seen,
    printed_window,
)
from trueput.attribution.told_prefill import Told, settle

METHOD = "schedule_replay"
LEAST_CONFIDENCE = 0.5
"""A victim less certain than this is not named."""
NEARBY_STEPS = 300
"""A count the replay failed to reproduce so shortly before casts doubt on a preemption."""
MOST_WRONG_RATIO = 0.01
"""Iterations whose counts a replay may fail to reproduce, of all, and still say who was served."""
PLAUSIBLE_NATS = 7.0
"""Stories this much dearer than the best are a thousand times less likely."""


@dataclass(frozen=True)
class StepRecompute:
    """Of one engine process, per iteration: arrays as long as its `Steps`."""

    engine: str
    incarnation: int
    recomputed_tokens: Ints
    recompute_ns: Ints
    recompute_ns_high: Ints
    parts: StepParts
    cost: StepCost


@dataclass(frozen=True)
class Attribution:
    """Everything the attribution of preemption says of one run."""

    requests: tuple[RequestRecompute, ...]
    """Victims only, by request id."""
    steps: tuple[StepRecompute, ...]
    """As the `Steps` given, in their order."""
    cost: StepCost
    """Fitted over all of the run's iterations, what `engine_step_cost` shows."""
    totals: RecomputeTotals
    unattributed_preemptions: int | None
    """Preemptions the engine counted and no named request explains; None without a counter."""
    unreproduced_steps: int
    """Iterations whose printed counts the replay did not reproduce, or not for certain."""
    notes: tuple[str, ...]
    """What limits these results, in words."""
    presences: tuple[tuple[Presence, ...], ...] = ()
    """For each of `Steps`, who computed what in which of its iterations; `job` counts streams.

    None of any, where the replay of one does not hold.
    """
    unsearched_steps: int = 0
    """Iterations with more ways to go on than were looked at, and those after a giving up."""


@dataclass
class _Claim:
    """What the best story says of one request."""

    preemptions: int = 0
    spans: list[tuple[int, int, int]] = field(default_factory=list)  # preempted, resumed, output
    tokens: dict[int, int] = field(default_factory=dict)  # step -> recomputed tokens
    early: set[int] = field(default_factory=set)  # steps of recompute before the first token
    confidence: float = 1.0


@dataclass
class _Engine:
    """One engine process, replayed."""

    steps: Steps
    window: Window
    claims: dict[int, _Claim]
    ends: Ints
    assigned: Ints
    story: Story | None
    replay_tokens: ReplayTokens | None
    preemptions: int
    presences: tuple[Presence, ...] = ()
    unsearched: int = 0

    @property
    def holds(self) -> bool:
        """Whether the story is right enough to say whom the iterations served."""
        return self.story is None or not self.story.wrong_steps or bool(self.presences)


def attribute(
    steps: list[Steps], streams: list[Stream], limits: EngineLimits, totals: Totals
) -> Attribution:
    """Recompute and its victims of one run, from its iterations and its requests.

    `streams` must hold every request of the run, those of other traffic included: what is not
    there is taken for a request that nobody recorded, and costs confidence.
    """
    notes: list[str] = []
    engines = _replay_all(steps, streams, limits, totals, notes)
    made = [
        recomputed_by_step(x.steps, limits.spec_tokens, _trusted(x, limits.spec_tokens))
        for x in engines
    ]
    works = [_work(x.steps, again, limits) for x, again in zip(engines, made, strict=True)]
    cost = fit_step_cost(_joined(works))
    parts = [split_steps(cost, work) for work in works]
    by_step = tuple(
        StepRecompute(
            x.steps.engine, x.steps.incarnation, again, part.recompute_ns,
            part.recompute_high_ns, part, cost,
        )
        for x, again, part in zip(engines, made, parts, strict=True)
    )  # fmt: skip
    replayed = _run_replay_tokens(engines, totals)
    tokens = recompute_totals(steps, streams, totals, limits.spec_tokens, replayed)
    requests = _requests(engines, by_step, streams)
    named = sum(request.preemptions for request in requests)
    counted = totals.preemptions
    return Attribution(
        requests,
        by_step,
        cost,
        _timed(tokens, by_step, [x.steps for x in engines]),
        None if counted is None else max(0, counted - named),
        sum(len(set(x.story.wrong_steps)) for x in engines if x.story is not None),
        tuple(notes),
        tuple(x.presences if all(y.holds for y in engines) else () for x in engines),
        sum(x.unsearched for x in engines),
    )


# -- replay -----------------------------------------------------------------------------------


def _replay_all(
    steps: Sequence[Steps],
    streams: Sequence[Stream],
    limits: EngineLimits,
    totals: Totals,
    notes: list[str],
) -> list[_Engine]:
    why = _why_no_replay(steps, streams, limits, totals)
    if why is not None:
        notes.append(why)
    if lost_lines(steps):
        notes.append(f"{lost_lines(steps)} iteration lines are missing")
    engines = []
    allowance = Allowance()
    for one, own in zip(steps, _by_incarnation(steps, streams), strict=True):
        window = printed_window(one)
        if window.overlapping:
            notes.append(f"engine {one.engine}: iterations overlap, durations exceed the time")
        if len(one.step_ix) == 0 or why is not None:
            engines.append(_unreplayed(one, window))
            continue
        streams = [stream for _, stream in own]
        is_calm = totals.preemptions == 0
        replay = Replay(one, window, streams, limits, allowance, may_preempt=not is_calm)
        whole = totals if len(steps) == 1 else None
        if is_calm:
            engines.append(_only_presences(replay, one, window, own, limits, whole))
        else:
            engines.append(_replay_one(replay, one, window, own, limits, whole, notes))
    return engines


def _why_no_replay(
    steps: Sequence[Steps], streams: Sequence[Stream], limits: EngineLimits, totals: Totals
) -> str | None:
    if not streams:
        return "no requests are known: victims cannot be named"
    placed = sum(
        x.prompt_tokens is not None and (x.arrived_at_ns is not None or x.sent_at_ns is not None)
        for x in streams
    )
    if placed * 2 < len(streams):
        return "most requests have no known arrival or prompt length: victims cannot be named"
    if len({x.engine for x in steps}) > 1:
        return "several engines and no record of which served a request: victims are not named"
    if limits.spec_tokens:
        return "speculative decoding: tokens per iteration vary, victims are not named"
    return None


def _by_incarnation(
    steps: Sequence[Steps], streams: Sequence[Stream]
) -> list[list[tuple[int, Stream]]]:
    """For each engine process the requests that arrived in its time, with their positions."""
    if len(steps) <= 1:
        return [list(enumerate(streams)) for _ in steps]
    starts = [int(x.logged_at_ns[0]) if len(x.logged_at_ns) else 0 for x in steps]
    order = sorted(range(len(steps)), key=starts.__getitem__)
    ends = [int(x.logged_at_ns[-1]) + 10**9 if len(x.logged_at_ns) else 0 for x in steps]
    own: list[list[tuple[int, Stream]]] = [[] for _ in steps]
    for position, stream in enumerate(streams):
        at = stream.arrived_at_ns if stream.arrived_at_ns is not None else stream.sent_at_ns
        if at is None:
            continue
        later = [k for k in order if ends[k] >= at]
        if later:
            own[later[0]].append((position, stream))
    return own


def _unreplayed(steps: Steps, window: Window) -> _Engine:
    nothing = np.zeros(len(steps.step_ix), dtype=np.int64)
    ends = dated_ends(steps, window, nothing_seen(steps))
    return _Engine(steps, window, {}, ends, nothing, None, None, 0)


def _only_presences(
    replay: Replay,
    steps: Steps,
    window: Window,
    own: list[tuple[int, Stream]],
    limits: EngineLimits,
    totals: Totals | None,
) -> _Engine:
    """Where nothing was preempted the replay only says which requests an iteration served."""
    best = replay.run()[0]
    found = _unreplayed(steps, window)
    n = len(steps.step_ix)
    streams = [stream for _, stream in own]
    if not _is_near(best, n, streams) or replay.cut_short or replay.reached < n:
        return found
    here = _presences(best.events(), n, streams, limits, totals)
    return replace(found, presences=tuple(replace(x, job=own[x.job][0]) for x in here))


def _replay_one(
    replay: Replay,
    steps: Steps,
    window: Window,
    own: list[tuple[int, Stream]],
    limits: EngineLimits,
    totals: Totals | None,
    notes: list[str],
) -> _Engine:
    streams = [stream for _, stream in own]
    stories = replay.run()
    n = len(steps.step_ix)
    if replay.reached < n:
        notes.append(
            f"engine {steps.engine}: the scheduling replay does not fit and was given up at "
            f"iteration {int(steps.step_ix[replay.reached])}"
        )
    weights = _weights(stories)
    accounts = [_claims(story.events(), n) for story in stories]
    best = stories[0]
    claims, preemptions = accounts[0]
    agreement = _agreement(totals, preemptions)
    for job, claim in claims.items():
        share = sum(
            weight
            for weight, (other, _) in zip(weights, accounts, strict=True)
            if job in other and other[job].spans == claim.spans
        )
        claim.confidence = share * agreement * _local_quality(best, claim)
    assigned = np.zeros(n, dtype=np.int64)
    for claim in claims.values():
        for step, tokens in claim.tokens.items():
            assigned[step] += tokens
    ends = dated_ends(steps, window, _sightings(best.events(), streams, steps))
    return _Engine(
        steps, window, {own[job][0]: claim for job, claim in claims.items() if job >= 0},
        ends, assigned, best, _story_tokens(stories), preemptions,
        tuple(
            replace(x, job=own[x.job][0])
            for x in _presences(best.events(), n, streams, limits, totals)
        ) if _is_near(best, n, streams) else (),
        replay.cut_short + n - replay.reached,
    )  # fmt: skip


def _is_near(story: Story, n: int, streams: Sequence[Stream]) -> bool:
    """Whether a story of `n` iterations is right, or nearly, about whom they served.

    A few counts may be wrong where every request that ended by itself got its tokens all the same.
    """
    if story.anonymous:
        return False
    wrong = len(set(story.wrong_steps))
    if wrong == 0:
        return True
    made = {x.job: x.tokens for x in story.events() if x.kind in {"stop", "left"}}
    return wrong <= MOST_WRONG_RATIO * n and all(
        made.get(job) == stream.output_tokens
        for job, stream in enumerate(streams)
        if stream.output_tokens and not stream.aborted
    )


def _presences(
    events: Sequence[Event],
    n: int,
    streams: Sequence[Stream],
    limits: EngineLimits,
    totals: Totals | None,
) -> list[Presence]:
    """Who computed what in which iterations, as far as printed tokens tell."""
    found = presences(events, n)
    started = {event.job for event in events if event.kind == "start"}
    cut = {event.job for event in events if event.kind == "preempt" and event.tokens == 0}
    unit = limits.block_size or 1
    prompts = {}
    for job in {x.job for x in found}:
        stream = streams[job]
        tokens = stream.prompt_tokens
        # the last token of a prompt is computed in any case
        most = max(0, (tokens or 0) - 1) // unit * unit
        is_known = limits.prefix_caching is False or stream.cached_prompt_tokens is not None
        prompts[job] = Prompt(
            tokens, 0 if is_known else most, job in started and job not in cut
        )  # fmt: skip
    shares = share_hits(found, prompts)
    told = _told(events, prompts, totals)
    return shares if told is None else settle(shares, told)


def _told(
    events: Sequence[Event], prompts: Mapping[int, Prompt], totals: Totals | None
) -> Told | None:
    """What the engine counted of the prompts of those that finished, where it counted just them."""
    stopped = frozenset(event.job for event in events if event.kind == "stop")
    if totals is None or totals.prefilled_tokens is None:
        return None
    if totals.prefilled_requests != len(stopped) or min(stopped, default=0) < 0:
        return None
    if not all(job in prompts and prompts[job].is_whole for job in stopped):
        return None
    return Told(stopped, totals.prefilled_tokens)


def _weights(stories: Sequence[Story]) -> list[float]:
    raw = [math.exp(stories[0].cost - story.cost) for story in stories]
    return [x / sum(raw) for x in raw]


def _agreement(totals: Totals | None, preemptions: int) -> float:
    """1 where the engine counted as many preemptions as the story tells."""
    if totals is None or totals.preemptions is None:
        return 0.95
    most = max(totals.preemptions, preemptions)
    return 1.0 if most == 0 else min(totals.preemptions, preemptions) / most


def _local_quality(story: Story, claim: _Claim) -> float:
    wrong = np.array(sorted(set(story.wrong_steps)), dtype=np.int64)
    worst = 0
    for begin, end, _ in claim.spans:
        worst = max(worst, int(((wrong >= begin - NEARBY_STEPS) & (wrong <= end)).sum()))
    return 0.99 / (1 + 0.25 * worst)


def _claims(events: Sequence[Event], n: int) -> tuple[dict[int, _Claim], int]:
    """Victims by job, and the number of preemptions in all."""
    claims: dict[int, _Claim] = defaultdict(_Claim)
    open_at: dict[int, tuple[int, int]] = {}
    count = 0
    for event in events:
        if event.kind == "preempt":
            count += 1
            claims[event.job].preemptions += 1
            open_at[event.job] = (event.step, event.tokens)
        elif event.kind in {"resume", "stop", "left"} and event.job in open_at:
            begin, output = open_at.pop(event.job)
            claims[event.job].spans.append((begin, event.step, output))
        elif event.kind == "recompute" and event.job in claims:
            claim = claims[event.job]
            claim.tokens[event.step] = claim.tokens.get(event.step, 0) + event.tokens
            if claim.spans and claim.spans[-1][2] == 0:
                claim.early.add(event.step)
    for job, (begin, output) in open_at.items():
        # never scheduled again within these iterations
        claims[job].spans.append((begin, n, output))
    return dict(claims), count


def _story_tokens(stories: Sequence[Story]) -> ReplayTokens | None:
    best = stories[0]
    if best.wrong_steps or best.anonymous or best.is_open:
        return None
    counts = [
        sum(event.tokens for event in story.events() if event.kind == "recompute")
        for story in stories
        if story.cost <= best.cost + PLAUSIBLE_NATS
    ]
    return ReplayTokens(counts[0], min(counts), max(counts))


def _run_replay_tokens(engines: Sequence[_Engine], totals: Totals) -> ReplayTokens | None:
    found = [x.replay_tokens for x in engines]
    counted = sum(x.preemptions for x in engines)
    if totals.preemptions is not None and counted != totals.preemptions:
        return None
    if not found or any(x is None for x in found):
        return None
    sure = [x for x in found if x is not None]
    return ReplayTokens(
        sum(x.tokens for x in sure), sum(x.low for x in sure), sum(x.high for x in sure)
    )


def _sightings(events: Sequence[Event], streams: Sequence[Stream], steps: Steps) -> Sightings:
    """Receipts and spans of all requests, tied to iterations by the story."""
    n = len(steps.step_ix)
    change = np.zeros(n + 1, dtype=np.int64)
    admitted: dict[int, int] = {}
    started: dict[int, int] = {}
    spans: list[tuple[int, int, int]] = []
    for event in events:
        joined = event.kind in {"admit", "resume"}
        if joined:
            change[event.step] += 1
        elif event.kind in {"preempt", "stop", "left"}:
            change[event.step] -= 1
        stream = streams[event.job] if event.job >= 0 else None
        if stream is None:
            continue
        if event.kind == "admit":
            admitted[event.job] = event.step
        elif event.kind == "start" and event.job not in started:
            started[event.job] = event.step
            begin = admitted[event.job]
            if stream.prefill_ns is not None:
                first = int(steps.elapsed_ns[begin])
                spans.append((begin, event.step, stream.prefill_ns - first))
        elif event.kind == "stop" and event.job in started and stream.decode_ns is not None:
            spans.append((started[event.job], event.step - 1, stream.decode_ns))
    running = np.cumsum(change)[:n]
    before = np.concatenate([[0], running[:-1]]) + np.minimum(_leaving(events, n), 0)
    table = np.array(spans or np.zeros((0, 3)), dtype=np.int64)
    knots = {min(x.step, n - 1) for x in events if x.kind not in {"prefill", "recompute"}}
    knots |= {max(0, min(x.step, n) - 1) for x in events if x.kind == "stop"}
    return Sightings(
        _receipts(events, streams),
        table[:, 0],
        table[:, 1],
        table[:, 2],
        before <= 0,
        np.array(sorted(knots), dtype=np.int64),
    )


def _leaving(events: Sequence[Event], n: int) -> Ints:
    """Requests that ended between iterations, as negative numbers at the iteration after."""
    gone = np.zeros(n + 1, dtype=np.int64)
    for event in events:
        if event.kind in {"stop", "left"}:
            gone[event.step] -= 1
    return gone[:n]


def _receipts(events: Iterable[Event], streams: Sequence[Stream]) -> list[tuple[Ints, Ints]]:
    """For each stream the iterations that made its tokens, and when its client had them."""
    received: dict[int, Ints] = {}
    for job, stream in enumerate(streams):
        if stream.gaps_ns is None or stream.first_token_at_ns is None:
            continue
        if stream.aborted or len(stream.gaps_ns) + 1 == stream.output_tokens:
            gaps = np.concatenate([[0], stream.gaps_ns]).astype(np.int64)
            received[job] = stream.first_token_at_ns + np.cumsum(gaps)
    found: list[tuple[Ints, Ints]] = []
    begun: dict[int, tuple[int, int]] = {}
    for event in events:
        if event.kind == "start":
            begun[event.job] = (event.step, event.tokens)
        elif event.kind in {"preempt", "stop", "left"} and event.job in begun:
            step, output = begun.pop(event.job)
            at = received.get(event.job)
            made = event.tokens - output
            # one token in each iteration, or the lines between are not all there
            if at is None or made != event.step - step:
                continue
            made = min(made, len(at) - output)
            if made > 0:
                index = np.arange(step, step + made, dtype=np.int64)
                found.append((index, at[output : output + made]))
    return found


# -- cost -------------------------------------------------------------------------------------


def _trusted(engine: _Engine, spec_tokens: int) -> Ints:
    """Tokens assigned to victims, where the story held; what shows bounds nothing else."""
    if engine.story is None or not engine.story.wrong_steps:
        return engine.assigned
    trusted = engine.assigned.copy()
    wrong = np.array(sorted(set(engine.story.wrong_steps)), dtype=np.int64)
    trusted[wrong] = excess_tokens(engine.steps, spec_tokens)[wrong]
    return trusted


def _work(steps: Steps, again: Ints, limits: EngineLimits) -> StepWork:
    """What each iteration did; recompute is taken from generation tokens first."""
    need = steps.generation_requests * (1 + limits.spec_tokens)
    spare = np.maximum(steps.generation_tokens - need, 0)
    # a chunk that does not end its recompute makes no token: then more than the excess is again
    of_context = np.minimum(np.maximum(again - spare, 0), steps.context_tokens)
    of_generation = again - of_context
    decode = np.minimum(steps.generation_requests, steps.generation_tokens - of_generation)
    kv_tokens: Floats = np.full(len(again), np.nan)
    if limits.num_blocks and limits.block_size:
        kv_tokens = steps.kv_used_ratio * (limits.num_blocks - 1) * limits.block_size
    return StepWork(
        steps.elapsed_ns,
        steps.context_tokens - of_context,
        again,
        np.maximum(decode, 0),
        kv_tokens,
    )


def _joined(works: Sequence[StepWork]) -> StepWork:
    if len(works) == 1:
        return works[0]
    empty = np.zeros(0, dtype=np.int64)
    return StepWork(
        np.concatenate([empty, *(x.elapsed_ns for x in works)]),
        np.concatenate([empty, *(x.prefill_tokens for x in works)]),
        np.concatenate([empty, *(x.recomputed_tokens for x in works)]),
        np.concatenate([empty, *(x.decode_sequences for x in works)]),
        np.concatenate([empty.astype(np.float64), *(x.kv_tokens for x in works)]),
    )


def _timed(
    tokens: TokenTotals, by_step: Sequence[StepRecompute], steps: Sequence[Steps]
) -> RecomputeTotals:
    """The totals with their time; high is whole iterations, as if they did nothing else."""
    placed = sum(int(x.recomputed_tokens.sum()) for x in by_step)
    spent = sum(int(x.recompute_ns.sum()) for x in by_step)
    low = sum(int(x.parts.recompute_low_ns.sum()) for x in by_step)
    high = sum(
        int(one.elapsed_ns[x.recomputed_tokens > 0].sum())
        for x, one in zip(by_step, steps, strict=True)
    )
    value: int | None = spent
    if tokens.tokens is None:
        value = None
    if tokens.high is None:
        high = sum(int(x.elapsed_ns.sum()) for x in steps)
    elif tokens.high > placed:
        high += _longest_hidden(by_step, steps, tokens.high - placed)
    if tokens.tokens is not None and tokens.tokens != placed:
        ratio = tokens.tokens / placed if placed else 0.0
        value = round(spent * ratio) if placed else None
    if not by_step:
        value = None
    return RecomputeTotals(
        tokens.tokens, tokens.low, tokens.high, tokens.scheduled, value,
        low if value is None else min(low, value), high if by_step else None,
        tokens.method, tokens.basis,
    )  # fmt: skip


def _longest_hidden(by_step: Sequence[StepRecompute], steps: Sequence[Steps], tokens: int) -> int:
    """ns of the longest iterations that can hide so many recomputed tokens, one in each.

    Recompute that does not show as excess is printed as context.
    """
    rest = [
        one.elapsed_ns[(x.recomputed_tokens == 0) & (one.context_tokens > 0)]
        for x, one in zip(by_step, steps, strict=True)
    ]
    longest = np.sort(np.concatenate(rest))[::-1] if rest else np.zeros(0, dtype=np.int64)
    return int(longest[:tokens].sum())


# -- requests ---------------------------------------------------------------------------------


def _requests(
    engines: Sequence[_Engine], by_step: Sequence[StepRecompute], streams: Sequence[Stream]
) -> tuple[RequestRecompute, ...]:
    rows = []
    for engine, made in zip(engines, by_step, strict=True):
        starts = engine.ends - engine.steps.elapsed_ns
        shares = _shares(engine.claims, made)
        for job, claim in sorted(engine.claims.items()):
            if claim.confidence >= LEAST_CONFIDENCE:
                rows.append(_row(streams[job], claim, shares[job], starts))
    return tuple(sorted(rows, key=lambda row: row.request_id))


def _shares(claims: dict[int, _Claim], made: StepRecompute) -> dict[int, dict[int, int]]:
    """ns of each victim in each iteration: the recompute part, divided by tokens, exactly."""
    by_step: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for job, claim in sorted(claims.items()):
        for step, tokens in claim.tokens.items():
            by_step[step].append((job, tokens))
    shares: dict[int, dict[int, int]] = {job: {} for job in claims}
    for step, takers in by_step.items():
        whole = max(int(made.recomputed_tokens[step]), sum(tokens for _, tokens in takers))
        spent, done, paid = int(made.recompute_ns[step]), 0, 0
        for job, tokens in takers:
            done += tokens
            upto = spent * done // whole
            shares[job][step] = upto - paid
            paid = upto
    return shares


def _row(stream: Stream, claim: _Claim, shares: dict[int, int], starts: Ints) -> RequestRecompute:
    last = len(starts) - 1
    # who left while waiting had not to wait any longer
    until = stream.ended_at_ns if stream.aborted and stream.ended_at_ns else int(starts[last])
    waits = [
        (max(0, min(int(starts[min(end, last)]), max(until, 0)) - int(starts[begin])), output)
        for begin, end, output in claim.spans
    ]
    early_recompute = sum(ns for step, ns in shares.items() if step in claim.early)
    return RequestRecompute(
        stream.request_id,
        claim.preemptions,
        sum(wait for wait, _ in waits),
        sum(shares.values()),
        sum(claim.tokens.values()),
        sum(wait for wait, output in waits if output == 0),
        early_recompute,
        round(claim.confidence, 4),
        METHOD,
        "inferred",
    )
