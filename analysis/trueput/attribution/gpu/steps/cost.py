"""The cost model of the steps of a profile, and what it leaves open where graphs hide kernels.

It is fitted on the GPU's own busy time of each step, so that the launch gaps of the host do not
count as work. A step that ran a graph whose kernels are not shown was busy for at least its other
kernels and at most for these and the graph's span: were it fitted with its kernels alone, decoding
would seem to cost next to nothing, and mixed steps would be all prefill. The best model takes the
spans; low and high are those of every reading that the profile allows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np

from trueput.attribution.gpu.profile.marks import Bools
from trueput.attribution.gpu.steps.busy import Busy
from trueput.attribution.gpu.steps.knee import fit_line_or_knee
from trueput.attribution.iterations.cost import (
    MIN_FIT_STEPS,
    TRIMMED_RATIO,
    StepCost,
    StepParts,
    StepWork,
    fit_step_cost,
    split_steps,
)

MANY_HIDDEN: Final = TRIMMED_RATIO
"""The fit sets aside as large a share of steps; fewer that hide something do not move it."""
MOST_SCATTER: Final = 2.0
CONSTANTS: Final = 16
"""Constants that are tried, evenly spaced."""
LEAST_KERNELS: Final = 1 / 3
"""Decoding runs every layer as prefill does: no fewer kernels than so many of its."""
FEW: Final = 3
"""Of fewer steps nothing is concluded."""
_WORKS: Final = ("prefill", "decode", "recompute")


@dataclass(frozen=True)
class GpuCost:
    """A model and the other readings that low and high must hold."""

    best: StepCost
    others: tuple[StepCost, ...] = ()
    with_kv: GpuCost | None = None
    """Of steps whose KV is known."""

    def knows_kv(self, work: StepWork) -> Bools:
        """Return of which steps it knows what their KV costs."""
        known: Bools = ~np.isnan(work.kv_tokens)
        return known if self.with_kv is not None else np.zeros_like(known)


def fit_gpu_cost(work: StepWork, busy: Busy) -> GpuCost:
    """The model of the steps looked at: `work` with their own kernels' time, entries as in `busy`.

    And that of those whose KV is known, which other steps would make seem cheap.
    """
    cost = _fit(replace(work, kv_tokens=np.full(busy.ns.size, np.nan)), busy)
    known = ~np.isnan(work.kv_tokens)
    seen = _fit(work.of(known), busy.of(known)) if known.sum() >= MIN_FIT_STEPS else cost
    return replace(cost, with_kv=seen) if seen is not cost and seen.best.usable else cost


def _fit(work: StepWork, busy: Busy) -> GpuCost:
    """The model of some steps, with their KV where all of it is known.

    Graphs with spans: their steps with spans, and, for the bounds, the steps that hide nothing or,
    where these are too few, all with their own kernels alone. Without spans only steps that hide
    nothing count, and the bounds hold every constant that they allow.
    """
    lacking = _lacking(work, busy)
    is_damaged = bool(lacking.mean() > MANY_HIDDEN) if lacking.size else False
    if is_damaged:
        work, busy = work.of(~lacking), busy.of(~lacking)
    hidden = busy.is_hidden
    if busy.hidden_share <= MANY_HIDDEN:
        if is_damaged:
            best = fit_step_cost(work)
            return GpuCost(best, (best, *_constants(best, work)))
        best, *others = fit_line_or_knee(work)
        return GpuCost(best, tuple(others))
    shown = fit_step_cost(work.of(~hidden))
    spanned = hidden & busy.is_spanned
    if not spanned.any():
        return GpuCost(shown, (shown, *_constants(shown, work.of(~hidden))))
    known = ~hidden | spanned
    best, *others = fit_line_or_knee(replace(work, elapsed_ns=busy.most_ns).of(known))
    own = shown if shown.usable else fit_step_cost(work.of(known))
    return GpuCost(best, (*others, own))


def split_gpu_steps(cost: GpuCost, work: StepWork) -> StepParts:
    """Each step's time by work, exact in integers; low and high hold every reading."""
    plain = _split(cost, work)
    if cost.with_kv is None:
        return plain
    known, seen = cost.knows_kv(work), _split(cost.with_kv, work)
    names = [field.name for field in fields(plain)]
    return StepParts(*(np.where(known, getattr(seen, n), getattr(plain, n)) for n in names))


def _split(cost: GpuCost, work: StepWork) -> StepParts:
    parts = split_steps(cost.best, work)
    for other in cost.others:
        read = split_steps(other, work)
        bounds = {}
        for name in _WORKS:
            low, high = f"{name}_low_ns", f"{name}_high_ns"
            bounds[low] = np.minimum(getattr(parts, low), getattr(read, low))
            bounds[high] = np.maximum(getattr(parts, high), getattr(read, high))
        parts = replace(parts, **bounds)
    return parts if all(other.usable for other in cost.others) else _open(parts, work)


def _lacking(work: StepWork, busy: Busy) -> Bools:
    """Return which steps that only decode ran so few kernels that they lost some with their launch.

    Fitted as they are they would make decoding seem cheap, and mixed steps all prefill.
    """
    alone = (work.prefill_tokens == 0) & (work.recomputed_tokens == 0)
    whole = ~alone & ~busy.is_hidden
    if whole.sum() < FEW:
        return np.zeros(alone.size, np.bool_)
    few = busy.kernels <= LEAST_KERNELS * float(np.median(busy.kernels[whole]))
    found: Bools = few & alone & ~busy.is_hidden
    return found


def _open(parts: StepParts, work: StepWork) -> StepParts:
    """Without any model each work of a step that did several may be none of it, or nearly all."""
    present = np.stack(
        [work.prefill_tokens > 0, work.decode_sequences > 0, work.recomputed_tokens > 0]
    )
    mixed = present.sum(axis=0) > 1
    bounds = {}
    for name, here in zip(_WORKS, present & mixed, strict=True):
        low, high = f"{name}_low_ns", f"{name}_high_ns"
        bounds[low] = np.where(here, 0, getattr(parts, low))
        bounds[high] = np.where(here, work.elapsed_ns, getattr(parts, high))
    return replace(parts, **bounds)


def _constants(cost: StepCost, work: StepWork) -> tuple[StepCost, ...]:
    """The model with no constant, and with as large a one as the steps allow; the rest fitted anew.

    Steps that all prefill say little of what a step costs without. It is no more than the shortest
    took, and leaves the steps not worse explained than twice the scatter of the best model.
    """
    if not cost.usable:
        return ()
    least_r2 = 1 - MOST_SCATTER * (1 - cost.trimmed_r2)
    most = float(np.quantile(work.elapsed_ns, TRIMMED_RATIO))
    tried = (fit_step_cost(work, most * n / CONSTANTS) for n in range(CONSTANTS, 0, -1))
    largest = next((fit for fit in tried if fit.trimmed_r2 >= least_r2), cost)
    return fit_step_cost(work, 0.0), largest
