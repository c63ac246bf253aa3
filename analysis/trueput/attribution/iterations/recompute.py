"""How many tokens a run computed again: per step as far as its line shows, in all by conservation.

vLLM prints a resumed request as a generation request, so its recomputed tokens stand among the
generation tokens; a request preempted before its first token is printed as context again. Over
a run, what was scheduled minus what had to be computed once is what was computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trueput.attribution.records import Ints, Steps, Stream, Totals

COUNTER = "preemption_counter"
CONSERVATION = "conservation"
CONSERVATION_STREAMS = "conservation_requests"
REPLAY = "replay"
SHAPE = "shape"
NOTHING = "none"


@dataclass(frozen=True)
class TokenTotals:
    """A run's recomputed tokens: a value where there is one, and what it must lie between."""

    tokens: int | None
    low: int
    high: int | None
    scheduled: int
    method: str
    basis: str


@dataclass(frozen=True)
class ReplayTokens:
    """What a replay that reproduced every printed count says; the range over its stories."""

    tokens: int
    low: int
    high: int


def excess_tokens(steps: Steps, spec_tokens: int) -> Ints:
    """Tokens of each iteration beyond what its decoding can need: a lower bound of recompute.

    A resumed request yields one new token in the iteration that ends its recompute, so a
    recompute of several chunks shows one token less per further chunk.
    """
    need = steps.generation_requests * (1 + spec_tokens)
    return np.asarray(np.maximum(steps.generation_tokens - need, 0), dtype=np.int64)


def recomputed_by_step(steps: Steps, spec_tokens: int, assigned: Ints) -> Ints:
    """Recomputed tokens of each iteration: what victims were given, at least what shows.

    `assigned` holds the tokens found for known victims (n,), 0 where none; a step's whole
    tokens bound it.
    """
    most = steps.context_tokens + steps.generation_tokens
    least = excess_tokens(steps, spec_tokens)
    return np.asarray(np.minimum(np.maximum(least, assigned), most), dtype=np.int64)


def scheduled_tokens(steps: Sequence[Steps]) -> int:
    """Tokens of all printed iterations, prefilled, decoded and recomputed."""
    return sum(int((x.context_tokens + x.generation_tokens).sum()) for x in steps)


def lost_lines(steps: Sequence[Steps]) -> int:
    """Iterations whose number is missing between printed ones."""
    return sum(int(np.maximum(np.diff(x.step_ix) - 1, 0).sum()) for x in steps)


def computed_once(streams: Sequence[Stream], totals: Totals) -> tuple[int | None, str, bool]:
    """Tokens that had to be computed once, how that is known, and whether it is exact.

    A request that got its first token had its uncached prompt computed, and each output token
    but the last put through the model.
    """
    parts = (totals.prompt_tokens_computed, totals.generation_tokens, totals.first_tokens)
    if None not in parts:
        prompt, generated, first = (part or 0 for part in parts)
        counted = prompt + generated - first
        if totals.covers:
            # an aborted request's last steps are in no counter
            return counted, CONSERVATION, totals.aborted == 0
        told, _ = _told(streams) if _covers(streams) and totals.aborted == 0 else (0, False)
        return (
            (told, CONSERVATION_STREAMS, False)
            if told > counted
            else (counted, CONSERVATION, False)
        )
    if not streams:
        return None, NOTHING, False
    told, exact = _told(streams)
    return told, CONSERVATION_STREAMS, exact and totals.covers


def _told(streams: Sequence[Stream]) -> tuple[int, bool]:
    """Tokens that the requests say had to be computed once, and whether each says all of it."""
    total, exact = 0, True
    for stream in streams:
        prompt = stream.prompt_tokens or 0
        total += prompt - (stream.cached_prompt_tokens or 0)
        total += max(0, (stream.output_tokens or 0) - 1)
        exact &= not (
            stream.aborted
            or stream.prompt_tokens is None
            or stream.output_tokens is None
            or stream.cached_prompt_tokens is None
        )
    return total, exact


def recompute_totals(
    steps: Sequence[Steps],
    streams: Sequence[Stream],
    totals: Totals,
    spec_tokens: int,
    replay: ReplayTokens | None,
) -> TokenTotals:
    """The run's recomputed tokens by the best evidence there is, with what bounds them.

    `replay` is given only where every printed count was reproduced and the number of
    preemptions agrees with the engine's counter.
    """
    scheduled = scheduled_tokens(steps)
    shape = sum(int(excess_tokens(x, spec_tokens).sum()) for x in steps)
    if totals.preemptions == 0:
        return TokenTotals(0, 0, 0, scheduled, COUNTER, "reported")
    once, method, exact = computed_once(streams, totals)
    complete = lost_lines(steps) == 0 and bool(steps) and not _begins_late(steps)
    over = scheduled - once if once is not None else None
    if spec_tokens and over is not None:
        # rejected drafts are scheduled and computed once by nobody: they cannot be told apart
        exact, shape = False, 0
    if complete and exact and over is not None and over >= shape:
        if replay is not None and not replay.low <= over <= replay.high:
            # a log that ends early or counters of another window: neither is to be trusted
            low, high = max(shape, min(over, replay.low)), max(over, replay.high)
            return TokenTotals(None, low, high, scheduled, method, "bounded")
        return TokenTotals(over, over, over, scheduled, method, "inferred")
    if complete and over is not None and over >= shape and totals.covers and not spec_tokens:
        beyond = _beyond_received(streams, totals)
        shape = shape if beyond is None else max(shape, over - beyond)
    ceiling = over if complete and over is not None and over >= shape else None
    if method == CONSERVATION_STREAMS and ceiling is not None and not _covers(streams):
        # cached prompt tokens counted as computed make the difference too small to be a ceiling
        ceiling = None
    if replay is not None and complete:
        low = max(replay.low, shape)
        high = replay.high if ceiling is None else min(replay.high, ceiling)
        if low <= replay.tokens <= high:
            basis = "inferred" if low == high else "bounded"
            return TokenTotals(replay.tokens, low, high, scheduled, REPLAY, basis)
    if ceiling is not None:
        value = shape if shape == ceiling else None
        return TokenTotals(value, shape, ceiling, scheduled, method, "bounded")
    if not steps:
        return TokenTotals(None, 0, None, 0, NOTHING, "unknown")
    return TokenTotals(None, shape, None, scheduled, SHAPE, "bounded")


def _beyond_received(streams: Sequence[Stream], totals: Totals) -> int | None:
    """The most tokens that aborted requests can have been given beyond what `computed_once` has of
    them: what they asked for, and a prompt that no token came of. None where that is not known."""
    left = [x for x in streams if x.aborted]
    if len(left) != totals.aborted:
        return None
    total = 0
    for stream in left:
        if stream.prompt_tokens is None or stream.asked_output_tokens is None:
            return None
        total += max(0, stream.asked_output_tokens - (stream.output_tokens or 0))
        total += 0 if stream.output_tokens else stream.prompt_tokens
    return total


def _begins_late(steps: Sequence[Steps]) -> bool:
    """Whether an engine's first printed iteration is not its first."""
    return any(len(x.step_ix) and int(x.step_ix[0]) > 1 for x in steps)


def _covers(streams: Sequence[Stream]) -> bool:
    return all(x.cached_prompt_tokens is not None for x in streams)
