"""Whom each iteration served, where a story is right about that: presences with their tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trueput.attribution.preemption.cache_hits import Prompt, share_hits
from trueput.attribution.preemption.presence import Presence, presences
from trueput.attribution.preemption.told_prefill import Told, settle
from trueput.attribution.records import EngineLimits, Stream, Totals
from trueput.attribution.replay.stories import Event, Story

MOST_WRONG_RATIO = 0.01
"""Iterations whose counts a replay may fail to reproduce, of all, and still say who was served."""


def is_near(story: Story, n: int, streams: Sequence[Stream]) -> bool:
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


def presences_with_tokens(
    events: Sequence[Event],
    n: int,
    streams: Sequence[Stream],
    limits: EngineLimits,
    totals: Totals | None,
) -> list[Presence]:
    """Who computed what in which of `n` iterations, as far as printed tokens tell.

    `totals` are the engine's own, None where they are not of this process alone.
    """
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
    known = {event.step for event in events if event.kind == "told"}
    shares = share_hits(found, prompts, known)
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
