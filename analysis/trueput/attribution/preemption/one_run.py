"""Who was preempted, for how long, and what computing their state again cost: one run's victims.

The engine's iterations are replayed under their printed counts (see `replay`), each request's
tokens are thereby tied to iterations, the client's receipts date those iterations, and the step
cost model says what the recomputed tokens cost. What the replay cannot tell stays unattributed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trueput.attribution.iterations.cost import StepCost
from trueput.attribution.iterations.recompute import recompute_totals
from trueput.attribution.preemption.confidence import check
from trueput.attribution.preemption.engines import replay_all
from trueput.attribution.preemption.presence import Presence
from trueput.attribution.preemption.recompute_time import timed, within_totals
from trueput.attribution.preemption.replay_tokens import tokens_together
from trueput.attribution.preemption.steps import StepRecompute, recompute_of_steps
from trueput.attribution.preemption.victims import doubts, victims
from trueput.attribution.records import (
    EngineLimits,
    RecomputeTotals,
    RequestRecompute,
    Steps,
    Stream,
    Totals,
)


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
    doubts: Mapping[str, float]
    """How likely requests that are not named were preempted all the same, 0..1."""
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
    denied_shapes: bool = False
    """What step annotations tell fits no account of the requests of an engine."""


def attribute(
    steps: list[Steps], streams: list[Stream], limits: EngineLimits, totals: Totals
) -> Attribution:
    """Recompute and its victims of one run, from its iterations and its requests.

    `streams` must hold every request of the run, those of other traffic included: what is not
    there is taken for a request that nobody recorded, and costs confidence.
    """
    notes: list[str] = []
    engines = replay_all(steps, streams, limits, totals, notes)
    by_step, cost = recompute_of_steps(engines, limits)
    replayed = tokens_together(
        [x.replay_tokens for x in engines],
        sum(x.preemptions for x in engines),
        totals.preemptions,
        totals.preemptions_least,
    )
    tokens = recompute_totals(steps, streams, totals, limits.spec_tokens, replayed)
    check([claim for x in engines for claim in x.claims.values()], tokens, totals.preemptions)
    requests = victims(engines, by_step, streams)
    named = sum(request.preemptions for request in requests)
    counted = totals.preemptions
    spent = timed(tokens, by_step, [x.steps for x in engines])
    return Attribution(
        within_totals(requests, spent),
        by_step,
        cost,
        spent,
        doubts(engines, streams),
        None if counted is None else max(0, counted - named),
        sum(len(set(x.story.wrong_steps)) for x in engines if x.story is not None),
        tuple(notes),
        tuple(x.presences if all(y.holds for y in engines) else () for x in engines),
        sum(x.unsearched for x in engines),
        any(x.denied_shapes for x in engines),
    )
