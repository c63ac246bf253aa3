"""How sure a victim is: what other stories say, the engine's counter, and misfits close by; and its
tokens: whether another division of what was printed fits, and what they come to in all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from trueput.attribution.iterations.recompute import (
    CONSERVATION,
    CONSERVATION_STREAMS,
    SHAPE,
    TokenTotals,
)
from trueput.attribution.preemption.claims import Claim
from trueput.attribution.records import Totals
from trueput.attribution.replay.stories import Story

NEARBY_STEPS = 300
"""A count the replay failed to reproduce so shortly before casts doubt on a preemption."""
NOT_COUNTED = 0.95
"""Agreement with the engine's counter where there is none, but all recomputed tokens agree."""
UNCHECKED = 0.7
"""Agreement where nothing checks the number of preemptions: no counter, or a log in part."""
SURE = 0.9
"""From here on a finding counts as certain."""
OPEN_TOKENS = 0.85
"""That a victim's tokens are as the cheapest of several divisions has them."""
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
        share *= 1 - best.doubts.get(job, 0.0)
        claim.confidence = share * agreement * _local_quality(best, claim)
        if job in best.open_jobs:
            claim.tokens_confidence = OPEN_TOKENS


def check(claims: Sequence[Claim], found: TokenTotals, counted: int | None) -> None:
    """Lower the confidence of all of a run's claims where nothing checks them, or the run's own
    bounds deny what they come to.

    `counted` are the preemptions that the engine counted, None without a counter.
    """
    again = sum(sum(claim.tokens.values()) for claim in claims)
    is_counted = counted is not None and found.method != SHAPE
    is_balanced = found.method in {CONSERVATION, CONSERVATION_STREAMS} and found.tokens == again
    known = 1.0 if is_counted else NOT_COUNTED if is_balanced else UNCHECKED
    most = found.high if found.high is not None else again
    is_denied = again > most or (is_counted and again < found.low)
    for claim in claims:
        claim.confidence *= known
        if is_denied:
            claim.confidence = min(claim.confidence, OPEN_TOKENS)


def _weights(stories: Sequence[Story]) -> list[float]:
    raw = [math.exp(stories[0].cost - story.cost) for story in stories]
    return [x / sum(raw) for x in raw]


def _agreement(totals: Totals | None, preemptions: int) -> float:
    """1 where the engine counted as many preemptions as the story tells, or did not count."""
    if totals is None or totals.preemptions is None:
        return 1.0
    most = max(totals.preemptions, preemptions)
    return 1.0 if most == 0 else min(totals.preemptions, preemptions) / most


def _local_quality(story: Story, claim: Claim) -> float:
    wrong = np.array(sorted(set(story.wrong_steps)), dtype=np.int64)
    worst = 0
    for begin, end, _ in claim.spans:
        worst = max(worst, int(((wrong >= begin - NEARBY_STEPS) & (wrong <= end)).sum()))
    return MOST_SURE / (1 + WRONG_NEARBY * worst)
