"""How sure a victim is: what other stories say, the engine's counter, and misfits close by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from trueput.attribution.preemption.claims import Claim
from trueput.attribution.records import Totals
from trueput.attribution.replay.stories import Story

NEARBY_STEPS = 300
"""A count the replay failed to reproduce so shortly before casts doubt on a preemption."""
NOT_COUNTED = 0.95
"""Agreement with the engine's counter where there is none."""
MOST_SURE = 0.99
WRONG_NEARBY = 0.25
"""What each count nearby that is not reproduced adds to 1, by which confidence is divided."""


def weigh(
    stories: Sequence[Story],
    accounts: Sequence[tuple[Mapping[int, Claim], int]],
    totals: Totals | None,
) -> None:
    """Write into the claims of the first story, which is the best, how sure each is: 0..1.

    `accounts` are what `claims_of` says of each story. `totals` are the engine's own, None where
    they are not of this process alone.
    """
    best, (claims, preemptions) = stories[0], accounts[0]
    weights = _weights(stories)
    agreement = _agreement(totals, preemptions)
    for job, claim in claims.items():
        share = sum(
            weight
            for weight, (other, _) in zip(weights, accounts, strict=True)
            if job in other and other[job].spans == claim.spans
        )
        claim.confidence = share * agreement * _local_quality(best, claim)


def _weights(stories: Sequence[Story]) -> list[float]:
    raw = [math.exp(stories[0].cost - story.cost) for story in stories]
    return [x / sum(raw) for x in raw]


def _agreement(totals: Totals | None, preemptions: int) -> float:
    """1 where the engine counted as many preemptions as the story tells."""
    if totals is None or totals.preemptions is None:
        return NOT_COUNTED
    most = max(totals.preemptions, preemptions)
    return 1.0 if most == 0 else min(totals.preemptions, preemptions) / most


def _local_quality(story: Story, claim: Claim) -> float:
    wrong = np.array(sorted(set(story.wrong_steps)), dtype=np.int64)
    worst = 0
    for begin, end, _ in claim.spans:
        worst = max(worst, int(((wrong >= begin - NEARBY_STEPS) & (wrong <= end)).sum()))
    return MOST_SURE / (1 + WRONG_NEARBY * worst)
