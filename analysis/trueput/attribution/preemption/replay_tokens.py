"""How many tokens were computed again as replays say that reproduced every printed count."""

from __future__ import annotations

from collections.abc import Sequence

from trueput.attribution.iterations.recompute import ReplayTokens
from trueput.attribution.replay.stories import Story

PLAUSIBLE_NATS = 7.0
"""Stories this much dearer than the best are a thousand times less likely."""


def tokens_of_stories(stories: Sequence[Story]) -> ReplayTokens | None:
    """Return what the stories of one engine process say, cheapest first; None where the best of
    them fails to reproduce a count or leaves something open."""
    best = stories[0]
    if best.wrong_steps or best.anonymous or best.is_open:
        return None
    counts = [
        sum(event.tokens for event in story.events() if event.kind == "recompute")
        for story in stories
        if story.cost <= best.cost + PLAUSIBLE_NATS
    ]
    return ReplayTokens(counts[0], min(counts), max(counts))


def tokens_together(
    found: Sequence[ReplayTokens | None], preemptions: int, counted: int | None, least: int = 0
) -> ReplayTokens | None:
    """Return the tokens of all engine processes; None where one of them says nothing.

    Nor is there an answer where the replays tell of other `preemptions` than the engine `counted`
    (None where it has no counter), or of fewer than the `least` that it counted in a part of them.
    """
    if preemptions < least or (counted is not None and preemptions != counted):
        return None
    sure = [x for x in found if x is not None]
    if not sure or len(sure) < len(found):
        return None
    return ReplayTokens(
        sum(x.tokens for x in sure), sum(x.low for x in sure), sum(x.high for x in sure)
    )
