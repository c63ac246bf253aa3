"""What an engine iteration's time was spent on: a cost model fitted on the run's own iterations.

An iteration that prefills, decodes and recomputes at once prints one duration. The model is
time = constant + a x prefilled and recomputed tokens + b x decode sequences + c x KV tokens in
use, with no negative coefficient. It serves to divide a printed duration, never to replace it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_FIT_STEPS = 200_000
"""A longer run is fitted on an evenly strided sample, so that memory stays bounded."""
MIN_FIT_STEPS = 50
POOR_FIT_R2 = 0.5
"""Trimmed R2 below which the model is not used and time is shared by tokens."""
TRIMMED_RATIO = 0.01
HUBER_SIGMAS = 1.345
"""The textbook tuning: 95 % efficient on normal errors."""
MAX_ROUNDS = 50
NNLS = "robust_nnls"
TOKEN_SHARE = "token_share"


@dataclass(frozen=True)
class StepCost:
    """A fitted model; the coefficients are ns per unit, all >= 0."""

    constant_ns: float
    prefill_token_ns: float
    decode_sequence_ns: float
    kv_token_ns: float
    n: int
    trimmed_r2: float
    method: str
    """`robust_nnls`, or `token_share` where the fit was too poor to use."""
    knee_tokens: int = 0
    beyond_token_ns: float = 0.0
    """What each token beyond `knee_tokens` of an iteration costs on top, whatever work it is of."""

    @property
    def usable(self) -> bool:
        """Whether time is divided by the model rather than by token share."""
        return self.method == NNLS


@dataclass(frozen=True)
class StepParts:
    """ns of each iteration by work; the three parts of a row sum exactly to its elapsed time.

    `*_low` and `*_high` give the constant all to the other work, or all to this one. Each bound
    stands alone: the lows of a row do not sum to its elapsed time, nor do the highs.
    """

    prefill_ns: Ints
    decode_ns: Ints
    recompute_ns: Ints
    prefill_low_ns: Ints
    prefill_high_ns: Ints
    decode_low_ns: Ints
    decode_high_ns: Ints
    recompute_low_ns: Ints
    recompute_high_ns: Ints


@dataclass(frozen=True)
class StepWork:
    """What each iteration did; arrays of one length, KV tokens NaN where unknown."""

    elapsed_ns: Ints
    prefill_tokens: Ints
    """First computation of prompt tokens."""
    recomputed_tokens: Ints
    decode_sequences: Ints
    """Sequences that were given one new token after their first."""
    kv_tokens: Floats
    kv_by_work: Floats | None = None
    """(n, 3) of these tokens by the work that reads them, where it is known who has them."""

    def of(self, which: NDArray[np.bool_]) -> StepWork:
        """Return some of the iterations."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        some: dict[str, Any] = {n: None if c is None else c[which] for n, c in columns.items()}
        return StepWork(**some)

    @property
    def all_tokens(self) -> Ints:
        """What each iteration computed, one token a decoding sequence."""
        return self.prefill_tokens + self.recomputed_tokens + self.decode_sequences


def _design(work: StepWork, rows: slice, knee_tokens: int | None) -> Floats:
    tokens = work.prefill_tokens[rows] + work.recomputed_tokens[rows]
    kv = np.nan_to_num(work.kv_tokens[rows], nan=0.0)
    columns = [np.ones(len(tokens)), tokens, work.decode_sequences[rows], kv]
    if knee_tokens is not None:
        columns.append(np.maximum(work.all_tokens[rows] - knee_tokens, 0))
    return np.stack(columns, axis=1).astype(np.float64)


def _weighted_nnls(design: Floats, y: Floats, weights: Floats) -> Floats:
    # The triangle of a QR has five rows whatever the run's length; the columns are scaled because
    # tokens and constants differ by orders of magnitude.
    scale = np.sqrt((design**2).mean(axis=0))
    scale[scale == 0] = 1.0
    root = np.sqrt(weights)
    width = design.shape[1]
    stacked = np.empty((len(y), width + 1))
    np.divide(design, scale, out=stacked[:, :width])
    stacked[:, :width] *= root[:, None]
    np.multiply(y, root, out=stacked[:, width])
    triangle: Floats = np.asarray(np.linalg.qr(stacked, mode="r"), dtype=np.float64)
    return np.asarray(_nnls(triangle[:, :-1], triangle[:, -1]) / scale, dtype=np.float64)


def _nnls(design: Floats, y: Floats) -> Floats:
    """Least squares with no negative coefficient: the best of all choices of the columns that
    count. There are few columns; `scipy.optimize.nnls` takes longer to load than an ingest."""
    width = design.shape[1]
    best, least = np.zeros(width), float(y @ y)
    for count in range(1, width + 1):
        for chosen in itertools.combinations(range(width), count):
            part = design[:, chosen]
            found = np.linalg.lstsq(part, y, rcond=None)[0]
            residual = y - part @ found
            square = float(residual @ residual)
            if (found >= 0).all() and square < least:
                least = square
                best = np.zeros(width)
                best[list(chosen)] = found
    return best


def _trimmed_r2(y: Floats, residual: Floats) -> float:
    kept = np.abs(residual) <= np.quantile(np.abs(residual), 1 - TRIMMED_RATIO)
    spread = float(((y[kept] - y[kept].mean()) ** 2).sum())
    if spread <= 0:
        # a run whose iterations all took the same time leaves nothing to explain
        return 1.0 if float(np.abs(residual[kept]).max(initial=0.0)) < 1.0 else 0.0
    return 1 - float((residual[kept] ** 2).sum()) / spread


def fit_step_cost(
    work: StepWork,
    constant_ns: float | None = None,
    knee_tokens: int | None = None,
    rounds: int = MAX_ROUNDS,
) -> StepCost:
    """The model of one engine's iterations, robust against stalls, the same on every call.

    Huber weights about the median absolute deviation, re-weighted until the coefficients rest:
    one stall of any length counts as little as any other outlier. With `constant_ns` the constant
    is this and the rest is fitted. With `knee_tokens` all tokens beyond so many have a cost of
    their own on top. Weights are found anew at most `rounds` times.
    """
    length = len(work.elapsed_ns)
    rows = slice(None, None, max(1, -(-length // MAX_FIT_STEPS)))
    y = work.elapsed_ns[rows].astype(np.float64)
    if len(y) < MIN_FIT_STEPS:
        return StepCost(0.0, 0.0, 0.0, 0.0, len(y), float("nan"), TOKEN_SHARE)
    design = _design(work, rows, knee_tokens)
    if constant_ns is not None:
        design[:, 0] = 0.0
        y = y - constant_ns
    # start from weights that already distrust the longest, or one 25 s stall sets the course
    weights = np.where(y <= np.quantile(y, 1 - TRIMMED_RATIO), 1.0, 1e-6)
    coefficients = _weighted_nnls(design, y, weights)
    for _ in range(rounds):
        residual = y - design @ coefficients
        spread = 1.4826 * float(np.median(np.abs(residual))) + 1.0
        # beyond a few hundred sigmas Huber's 1/r still pulls: cap the pull of any one row
        ratio = np.abs(residual) / (HUBER_SIGMAS * spread)
        weights = np.where(ratio <= 1, 1.0, 1 / np.maximum(ratio, 1.0))
        weights[ratio > 50] = 0.0
        if not weights.any():
            break
        newer = _weighted_nnls(design, y, weights)
        done = np.allclose(newer, coefficients, rtol=1e-6, atol=1e-9)
        coefficients = newer
        if done:
            break
    r2 = _trimmed_r2(y, y - design @ coefficients)
    constant, token, sequence, kv, *beyond = (float(value) for value in coefficients)
    constant = constant if constant_ns is None else constant_ns
    method = NNLS if r2 >= POOR_FIT_R2 else TOKEN_SHARE
    return StepCost(
        constant, token, sequence, kv, len(y), r2, method, knee_tokens or 0, sum(beyond)
    )  # fmt: skip


def _round_shares(elapsed: Ints, shares: Floats) -> Ints:
    """(n, k) integers that sum exactly to `elapsed` by row, each within 1 of its share."""
    total = shares.sum(axis=1, keepdims=True)
    ratio = np.divide(shares, total, out=np.zeros_like(shares), where=total > 0)
    # cumulative rounding keeps every part >= 0 and the sum exact
    edges = np.floor(np.cumsum(ratio, axis=1) * elapsed[:, None] + 0.5).astype(np.int64)
    edges = np.minimum(np.maximum.accumulate(edges, axis=1), elapsed[:, None])
    edges[:, -1] = elapsed
    return np.diff(edges, axis=1, prepend=0)


def _variable_cost(cost: StepCost, work: StepWork) -> Floats:
    """(n, 3) ns of prefill, decode, recompute before what is nobody's own is shared."""
    prefill = work.prefill_tokens.astype(np.float64)
    again = work.recomputed_tokens.astype(np.float64)
    decode = work.decode_sequences.astype(np.float64)
    if not cost.usable:
        return np.stack([prefill, decode, again], axis=1)
    if work.kv_by_work is not None:
        kv_ns = np.nan_to_num(work.kv_by_work, nan=0.0) * cost.kv_token_ns
        own = (cost.prefill_token_ns, cost.decode_sequence_ns, cost.prefill_token_ns)
        found: Floats = np.stack([prefill, decode, again], axis=1) * np.array(own) + kv_ns
        return found
    kv = np.nan_to_num(work.kv_tokens, nan=0.0) * cost.kv_token_ns
    # reading the cache is what decoding does; a step without decode reads it for its prompt work
    tokens = prefill + again
    share = np.divide(prefill, tokens, out=np.zeros_like(prefill), where=tokens > 0)
    lone = decode == 0
    parts = [
        prefill * cost.prefill_token_ns + np.where(lone, kv * share, 0.0),
        np.where(lone & (tokens > 0), 0.0, decode * cost.decode_sequence_ns + kv),
        again * cost.prefill_token_ns + np.where(lone, kv * (1 - share), 0.0),
    ]
    return np.stack(parts, axis=1)


def _beyond(cost: StepCost, work: StepWork) -> tuple[Floats, Floats, Floats]:
    """(n, 3) ns that the tokens beyond the knee cost on top: the mean, least and most of what a
    work adds to an iteration, over the orders in which its works may have joined it."""
    tokens = np.stack([work.prefill_tokens, work.decode_sequences, work.recomputed_tokens], axis=1)
    orders = list(itertools.permutations(range(3)))
    added = np.zeros((len(orders), *tokens.shape))
    for at, order in enumerate(orders):
        joined = np.zeros(len(tokens), np.int64)
        for place in order:
            before = np.maximum(joined - cost.knee_tokens, 0)
            joined = joined + tokens[:, place]
            added[at, :, place] = np.maximum(joined - cost.knee_tokens, 0) - before
    ns = added * cost.beyond_token_ns
    return ns.mean(axis=0), ns.min(axis=0), ns.max(axis=0)


def split_steps(cost: StepCost, work: StepWork) -> StepParts:
    """Each iteration's elapsed time by work, exact in integers.

    What the model does not explain of a step is shared like the constant: the parts are scaled
    to the printed duration. In steps that only decode everything is decode's. What tokens beyond
    the knee cost is each work's in the mean of all orders, and in the bounds in any.
    """
    own = _variable_cost(cost, work)
    mean = least = most = np.zeros_like(own)
    if cost.usable and cost.beyond_token_ns > 0:
        mean, least, most = _beyond(cost, work)
    tokens = np.stack([work.prefill_tokens, work.decode_sequences, work.recomputed_tokens], axis=1)
    present = tokens > 0
    variable = np.where(present, own + mean, 0.0)
    # where the coefficients of all that was done are 0 the constant can only go by tokens
    empty = variable.sum(axis=1) <= 0
    variable[empty] = tokens[empty]
    idle = ~present.any(axis=1)
    variable[idle, 1] = 1.0
    parts = _round_shares(work.elapsed_ns, variable)
    least, most = (np.maximum(variable + end - mean, 0.0) for end in (least, most))
    low, high = _bounds(cost, work, (variable, least, most), present)
    low, high = np.minimum(low, parts), np.maximum(high, parts)
    return StepParts(
        *(parts[:, i] for i in range(3)),
        *(bound[:, i] for i in range(3) for bound in (low, high)),
    )


def overlapped(parts: StepParts, own: Floats) -> StepParts:
    """Lower the lows of iterations of whose durations only a share (n,) was surely their own."""
    names = ("prefill_low_ns", "decode_low_ns", "recompute_low_ns")
    lows = {name: np.floor(getattr(parts, name) * own).astype(np.int64) for name in names}
    return replace(parts, **lows)


def _bounds(
    cost: StepCost,
    work: StepWork,
    variables: tuple[Floats, Floats, Floats],
    present: NDArray[np.bool_],
) -> tuple[Ints, Ints]:
    """(n, 3) low and high of each part: the constant to the others, or to this one.

    `variables` are what each work costs beside it: the mean, least and most. Without a model any
    work of a mixed iteration may be none of it, or nearly all.
    """
    elapsed = work.elapsed_ns[:, None]
    variable, least, most = variables
    if cost.usable:
        total = variable.sum(axis=1, keepdims=True) + np.float64(cost.constant_ns)
        low = least / total * elapsed
        high = np.where(present, (most + cost.constant_ns) / total * elapsed, 0.0)
    else:
        low, high = np.zeros_like(variable), np.where(variable > 0, elapsed, 0.0)
    alone = present & (present.sum(axis=1, keepdims=True) <= 1)
    low, high = np.where(alone, elapsed, low), np.where(alone, elapsed, high)
    return (
        np.clip(np.floor(low), 0, elapsed).astype(np.int64),
        np.clip(np.ceil(high), 0, elapsed).astype(np.int64),
    )
