"""What recompute cost in each iteration: tokens computed again, and their part of its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trueput.attribution.iterations.cost import (
    StepCost,
    StepParts,
    StepWork,
    fit_step_cost,
    overlapped,
    split_steps,
)
from trueput.attribution.iterations.recompute import excess_tokens, recomputed_by_step
from trueput.attribution.iterations.timeline import own_least
from trueput.attribution.preemption.engines import ReplayedEngine
from trueput.attribution.records import EngineLimits, Floats, Ints, Steps


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


def recompute_of_steps(
    engines: Sequence[ReplayedEngine], limits: EngineLimits
) -> tuple[tuple[StepRecompute, ...], StepCost]:
    """Return what recompute cost in the iterations of each engine process, in their order, and the
    cost of an iteration that was fitted over all of them."""
    made = [
        recomputed_by_step(x.steps, limits.spec_tokens, _trusted(x, limits.spec_tokens))
        for x in engines
    ]
    works = [_work(x.steps, again, limits) for x, again in zip(engines, made, strict=True)]
    cost = fit_step_cost(_joined(works))
    parts = [_parts(x, cost, work, limits) for x, work in zip(engines, works, strict=True)]
    by_step = tuple(
        StepRecompute(
            x.steps.engine, x.steps.incarnation, again, part.recompute_ns,
            part.recompute_high_ns, part, cost,
        )
        for x, again, part in zip(engines, made, parts, strict=True)
    )  # fmt: skip
    return by_step, cost


def _parts(
    engine: ReplayedEngine, cost: StepCost, work: StepWork, limits: EngineLimits
) -> StepParts:
    """Each iteration's time by work; of those that overlap a part may be another's."""
    parts = split_steps(cost, work)
    if limits.async_scheduling or engine.window.overlapping:
        return overlapped(parts, own_least(engine.steps))
    return parts


def _trusted(engine: ReplayedEngine, spec_tokens: int) -> Ints:
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
