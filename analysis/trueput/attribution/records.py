"""What the attribution of one run takes and gives back: frozen records of numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SHAPE_NUMBERS: Final = tuple(
    f"{group}_{number}"
    for group in ("context", "generation")
    for number in ("squares", "kv_tokens", "products")
)
"""Columns of gpu_ranges: sums over the requests of a step of their scheduled tokens squared, their
lengths, and their tokens times their lengths."""
UNTOLD: Final = -1


@dataclass(frozen=True)
class Steps:
    """One engine process's iterations in order; every array has one entry per iteration."""

    engine: str
    incarnation: int
    step_ix: Ints
    """The number the engine printed; a jump is an iteration whose line was lost."""
    logged_at_ns: Ints
    """UTC, whole seconds: the line was printed after its iteration, within that second."""
    elapsed_ns: Ints
    context_requests: Ints
    context_tokens: Ints
    generation_requests: Ints
    generation_tokens: Ints
    kv_used_ratio: Floats
    """Share of KV blocks in use after the iteration, to 0.001; NaN where not printed."""
    shapes: Ints | None = None
    """(n, 6): what step annotations tell of the iterations (SHAPE_NUMBERS), UNTOLD where nothing;
    None where no annotation of the run does."""

    def of(self, which: slice | NDArray[np.bool_]) -> Steps:
        """Return some of the iterations."""
        names = [f.name for f in fields(self) if f.name not in ("engine", "incarnation")]
        known = {name: getattr(self, name) for name in names}
        chosen: dict[str, Any] = {k: x if x is None else x[which] for k, x in known.items()}
        return replace(self, **chosen)


@dataclass(frozen=True)
class Stream:
    """One request as its client and the engine saw it; None is "not observed"."""

    request_id: str
    prompt_tokens: int | None
    cached_prompt_tokens: int | None
    output_tokens: int | None
    """Produced in all; for an aborted request what its client had received, or None."""
    asked_output_tokens: int | None
    sent_at_ns: int | None
    first_token_at_ns: int | None
    ended_at_ns: int | None
    gaps_ns: Ints | None
    """Client gaps between chunks, in order: n - 1 of n chunks."""
    arrived_at_ns: int | None
    queue_ns: int | None
    prefill_ns: int | None
    decode_ns: int | None
    e2e_ns: int | None
    aborted: bool
    aborted_at_ns: int | None = None
    """When the engine printed that it was, to the whole second where the log has no more."""


@dataclass(frozen=True)
class EngineLimits:
    """What the engine's configuration allows; None is "not stated"."""

    block_size: int | None
    num_blocks: int | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    prefix_caching: bool | None
    spec_tokens: int
    async_scheduling: bool | None = None


@dataclass(frozen=True)
class Totals:
    """Differences of the engine's own counters over the run; None is "not scraped"."""

    prompt_tokens_computed: int | None
    generation_tokens: int | None
    first_tokens: int | None
    preemptions: int | None
    aborted: int
    prefilled_requests: int | None = None
    """Requests that finished, with what they computed of their prompts when first scheduled."""
    prefilled_tokens: int | None = None
    covers: bool = True
    """Whether the counters are of all iterations; else they are at least what they say, and
    `preemptions` is unknown."""
    preemptions_least: int = 0


@dataclass(frozen=True)
class RequestRecompute:
    """What preemption cost one request that was preempted at least once."""

    request_id: str
    preemptions: int
    requeue_ns: int
    """Preempted until scheduled again, all its preemptions together."""
    recompute_ns: int
    recomputed_tokens: int
    requeue_before_first_token_ns: int
    recompute_before_first_token_ns: int
    confidence: float
    """0..1: that this request was preempted, so often, and computed so many tokens again."""
    method: str
    basis: str
    """`bounded` where that is not sure: what others were preempted of may be this one's."""
    preempted_confidence: float
    """0..1: that this request was preempted, and so often."""


@dataclass(frozen=True)
class RecomputeTotals:
    """The run's recomputed tokens and their time; low = high = value where exact."""

    recomputed_tokens: int | None
    recomputed_tokens_low: int
    recomputed_tokens_high: int | None
    scheduled_tokens: int
    recompute_ns: int | None
    recompute_ns_low: int
    recompute_ns_high: int | None
    method: str
    basis: str
