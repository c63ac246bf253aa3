"""What preemption cost each victim: its waits, and its share of the time of recompute."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from trueput.attribution.iterations.timeline import SECOND_NS
from trueput.attribution.preemption.claims import Claim
from trueput.attribution.preemption.confidence import SURE
from trueput.attribution.preemption.engines import ReplayedEngine
from trueput.attribution.preemption.steps import StepRecompute
from trueput.attribution.records import Ints, RequestRecompute, Steps, Stream

METHOD = "schedule_replay"
LEAST_CONFIDENCE = 0.5
"""A victim less certain than this is not named."""


def victims(
    engines: Sequence[ReplayedEngine], by_step: Sequence[StepRecompute], streams: Sequence[Stream]
) -> tuple[RequestRecompute, ...]:
    """Return those that are sure enough to be named, by request id.

    `by_step` are the iterations of `engines`, in their order; the claims point at `streams`.
    """
    rows = []
    for engine, made in zip(engines, by_step, strict=True):
        starts = engine.ends - engine.steps.elapsed_ns
        shares = _shares(engine.claims, made)
        for job, claim in sorted(engine.claims.items()):
            named = claim.confidence >= LEAST_CONFIDENCE
            if named and not came_before(engine.steps, streams[job]):
                rows.append(_row(streams[job], claim, shares[job], starts, engine.ends))
    return tuple(sorted(rows, key=lambda row: row.request_id))


def doubts(engines: Sequence[ReplayedEngine], streams: Sequence[Stream]) -> dict[str, float]:
    """Return how likely requests that `victims` does not name were preempted, by request id."""
    found: dict[str, float] = {}
    for engine in engines:
        likely = dict(engine.doubts)
        for job, claim in engine.claims.items():
            if claim.confidence < LEAST_CONFIDENCE:
                likely[job] = 1.0  # by the best story it was
        found |= {streams[job].request_id: value for job, value in likely.items()}
    return found


def came_before(steps: Steps, stream: Stream) -> bool:
    """Whether a request may have been served in iterations before the log's first.

    How far it had got is not known then, and what it is said to lack it may have had.
    """
    if not len(steps.step_ix) or int(steps.step_ix[0]) <= 1:
        return False
    at = stream.arrived_at_ns if stream.arrived_at_ns is not None else stream.sent_at_ns
    return at is None or at < int(steps.logged_at_ns[0]) + SECOND_NS


def _shares(claims: dict[int, Claim], made: StepRecompute) -> dict[int, dict[int, int]]:
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


def _row(
    stream: Stream, claim: Claim, shares: dict[int, int], starts: Ints, ends: Ints
) -> RequestRecompute:
    last = len(starts) - 1
    # who left while waiting had not to wait any longer
    until = stream.ended_at_ns if stream.aborted and stream.ended_at_ns else int(starts[last])
    first = 0 if claim.started is None else int(ends[claim.started])
    waits, early_wait = 0, 0
    for begin, end, output in claim.spans:
        since = int(starts[begin])
        wait = max(0, min(int(starts[min(end, last)]), max(until, 0)) - since)
        waits += wait
        # an engine that schedules ahead may preempt it while its first token is on its way
        early_wait += wait if output == 0 else min(wait, max(0, first - since))
    early_recompute = sum(ns for step, ns in shares.items() if step in claim.early)
    confidence = round(claim.confidence * claim.tokens_confidence, 4)
    return RequestRecompute(
        stream.request_id,
        claim.preemptions,
        waits,
        sum(shares.values()),
        sum(claim.tokens.values()),
        early_wait,
        early_recompute,
        confidence,
        METHOD,
        "inferred" if confidence >= SURE else "bounded",
        round(claim.confidence, 4),
    )
