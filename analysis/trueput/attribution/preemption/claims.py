"""What a story says of each victim: when it waited, and what was computed again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from trueput.attribution.replay.stories import Event


@dataclass
class Claim:
    """What a story says of one request that was preempted."""

    preemptions: int = 0
    spans: list[tuple[int, int, int]] = field(default_factory=list)
    """Steps at which it was preempted and resumed, and its output tokens by then."""
    tokens: dict[int, int] = field(default_factory=dict)
    """Recomputed tokens by step."""
    early: set[int] = field(default_factory=set)
    """Steps of recompute before the first token."""
    confidence: float = 1.0
    """0..1: that this request was preempted, and so often."""
    tokens_confidence: float = 1.0
    """0..1: that of its recomputed tokens, where it was."""
    started: int | None = None
    """The iteration of its first token; None where there is none."""


def claims_of(events: Sequence[Event], n: int) -> tuple[dict[int, Claim], int]:
    """Return the victims by job, and the number of preemptions in all, over `n` iterations."""
    claims: dict[int, Claim] = defaultdict(Claim)
    open_at: dict[int, tuple[int, int]] = {}
    started: dict[int, int] = {}
    count = 0
    for event in events:
        if event.kind == "start":
            started.setdefault(event.job, event.step)
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
    for job, claim in claims.items():
        claim.started = started.get(job)
    return dict(claims), count
