"""The time of a run's recomputed tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trueput.attribution.iterations.recompute import TokenTotals
from trueput.attribution.preemption.steps import StepRecompute
from trueput.attribution.records import RecomputeTotals, RequestRecompute, Steps


def timed(
    tokens: TokenTotals, by_step: Sequence[StepRecompute], steps: Sequence[Steps]
) -> RecomputeTotals:
    """Return a run's totals with their time; high is whole iterations, as if they did nothing else.

    `steps` are all of the run's iterations, `by_step` what is known of each, in the same order.
    """
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
    if tokens.low is not None and tokens.low < placed:
        # some that were placed may be none
        low = low * tokens.low // placed
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


def within_totals(
    requests: tuple[RequestRecompute, ...], totals: RecomputeTotals
) -> tuple[RequestRecompute, ...]:
    """Return the victims with no more time, in all, than the run's recompute took.

    A replay may place more tokens than were computed again. Whose are too many is not known, so
    that each victim's time is cut alike, in whole ns; its tokens stay as the replay has them.
    """
    told = sum(x.recompute_ns or 0 for x in requests)
    most = totals.recompute_ns
    if most is None or told <= most:
        return requests
    cut, done = [], 0
    for one in requests:
        own = one.recompute_ns or 0
        upto = most * (done + own) // told - most * done // told
        early = (one.recompute_before_first_token_ns or 0) * upto // own if own else 0
        cut.append(replace(one, recompute_ns=upto, recompute_before_first_token_ns=early))
        done += own
    return tuple(cut)


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
