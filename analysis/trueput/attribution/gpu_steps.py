"""Step annotations of a profile -> how each step's GPU time divides into kinds of work.

GPU operations belong to the step whose annotation holds the call that launched them, on the same
thread of the same process. The cost model of an iteration is fitted here on the GPU's own busy time
of each step, so that the launch gaps of the host do not count as work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from trueput.attribution.records import Ints
from trueput.attribution.step_cost import StepCost, StepWork, fit_step_cost, split_steps

Parts = Mapping[str, Sequence[Path]]

MAX_OPERATIONS = 100_000
"""Of more operations than this, slices of time are looked at for the fit; shares need none."""
SLICES = 8
SLICE_STEPS = 250
LATEST_NS = 10_000_000_000
"""A kernel that starts later after its launch than this is not looked for in a slice."""
_PLACE = ["source_id", "process_key", "thread_key"]


def gpu_steps(
    run_id: str, parts: Parts, iterations: pl.DataFrame, spec_tokens: int
) -> pl.DataFrame:
    """Return the rows of `gpu_steps`; empty where no annotation names a step.

    `iterations`: the engine log's steps in order (engine, incarnation, step_ix, context_requests,
    context_tokens, generation_requests, generation_tokens, recomputed_tokens), or
    an empty frame. Instants of `parts` must be UTC, or all on one clock.
    """
    steps = _annotations(parts)
    if steps.is_empty():
        return steps.clear()
    steps = _matched(steps, iterations)
    excess = pl.col("generation_tokens") - pl.col("generation_requests") * (1 + spec_tokens)
    shown = pl.when(excess > 0).then(excess)
    again = pl.when(pl.col("step_ix").is_not_null()).then("logged_recomputed").otherwise(shown)
    steps = steps.with_columns(again.alias("recomputed_tokens"))
    busy = _busy_by_step(parts, steps)
    cost = _fit(steps.join(busy, on="row", how="inner"), spec_tokens)
    return _rows(run_id, steps, cost, spec_tokens)


def _scan(parts: Parts, table: str) -> pl.LazyFrame | None:
    files = list(parts.get(table, ()))
    return pl.scan_parquet(files) if files else None


def _annotations(parts: Parts) -> pl.DataFrame:
    """Step annotations, the innermost of nested ones, numbered by start in their process."""
    ranges = _scan(parts, "gpu_ranges")
    if ranges is None:
        return pl.DataFrame()
    steps = (
        ranges.filter(
            pl.col("dialect").is_not_null()
            & (pl.col("context_tokens").is_not_null() | pl.col("generation_tokens").is_not_null())
        )
        .select(
            *_PLACE, "start_at_ns", "end_at_ns", "context_requests", "context_tokens",
            "generation_requests", "generation_tokens",
        )
        .sort([*_PLACE, "start_at_ns", "end_at_ns"], descending=[False] * 4 + [True])
        .collect()
    )  # fmt: skip
    if steps.is_empty():
        return pl.DataFrame()
    # an annotation that holds the next one of its thread is the outer of a nested pair
    next_end = pl.col("end_at_ns").shift(-1).over(_PLACE)
    next_start = pl.col("start_at_ns").shift(-1).over(_PLACE)
    outer = (next_start >= pl.col("start_at_ns")) & (next_end <= pl.col("end_at_ns"))
    inner = steps.filter(~outer.fill_null(value=False))
    numbered = inner.sort(["source_id", "process_key", "start_at_ns"]).with_columns(
        pl.col("context_requests", "context_tokens", "generation_requests", "generation_tokens")
        .fill_null(0),
    )  # fmt: skip
    numbered = numbered.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    return numbered.with_columns(pl.col("row").alias("gpu_step_ix"))


# -- matching with the engine's log -----------------------------------------------------------


def _codes(frame: pl.DataFrame) -> Ints:
    """One integer per step for its composition; equal compositions, equal codes."""
    out: Ints = np.zeros(frame.height, np.int64)
    for name in ("context_requests", "context_tokens", "generation_requests", "generation_tokens"):
        out = out * 1_000_003 + frame[name].fill_null(0).to_numpy().astype(np.int64)
    return out


def _matched(steps: pl.DataFrame, iterations: pl.DataFrame) -> pl.DataFrame:
    """Add each step's engine iteration, where one shift makes nearly all compositions agree."""
    found = []
    for _, part in steps.group_by(["source_id", "process_key"], maintain_order=True):
        found.append(_match_process(part, iterations))
    return pl.concat(found)


def _match_process(part: pl.DataFrame, iterations: pl.DataFrame) -> pl.DataFrame:
    best: tuple[int, pl.DataFrame, int] | None = None
    mine = _codes(part)
    for _, log in iterations.group_by(["engine", "incarnation"], maintain_order=True):
        theirs = _codes(log)
        shift, agree = _best_shift(mine, theirs)
        if agree >= max(3, 0.9 * min(mine.size, theirs.size)) and (best is None or agree > best[0]):
            best = (agree, log, shift)
    names = {"engine": pl.String, "incarnation": pl.Int64, "step_ix": pl.Int64,
             "logged_recomputed": pl.Int64}  # fmt: skip
    if best is None:
        return part.with_columns(pl.lit(None, dtype=t).alias(n) for n, t in names.items())
    _, log, shift = best
    at = np.arange(mine.size) + shift
    inside = (at >= 0) & (at < log.height)
    same = np.zeros(mine.size, bool)
    same[inside] = mine[inside] == _codes(log)[at[inside]]
    index = pl.Series(np.where(same, at, 0))
    taken = log.select(
        "engine", "incarnation", "step_ix", pl.col("recomputed_tokens").alias("logged_recomputed")
    )[index]
    keep = pl.Series("same", same)
    blank = taken.with_columns(
        pl.when(keep).then(pl.col(n)).otherwise(None).alias(n) for n in names
    )
    return pl.concat([part, blank], how="horizontal")


def _best_shift(mine: Ints, theirs: Ints) -> tuple[int, int]:
    """The shift (position in `theirs` of the first of `mine`) at which most codes agree.

    Votes of the rarest compositions decide: a code that occurs often in both says little.
    """
    if not mine.size or not theirs.size:
        return 0, 0
    values, counts = np.unique(theirs, return_counts=True)
    common = np.intersect1d(mine, values)
    rare = sorted(common.tolist(), key=lambda v: int(counts[np.searchsorted(values, v)]))[:200]
    votes: dict[int, int] = {}
    for value in rare:
        here = np.flatnonzero(mine == value)[:50]
        there = np.flatnonzero(theirs == value)[:200]
        for shift in (there[None, :] - here[:, None]).ravel().tolist():
            votes[shift] = votes.get(shift, 0) + 1
    best = (0, 0)
    for shift in sorted(votes, key=lambda s: (-votes[s], s))[:50]:
        at = np.arange(mine.size) + shift
        inside = (at >= 0) & (at < theirs.size)
        agree = int((mine[inside] == theirs[at[inside]]).sum())
        if agree > best[1]:
            best = (shift, agree)
    return best


# -- the GPU's busy time of each step ---------------------------------------------------------


def _count(parts: Parts, table: str) -> int:
    return sum(pq.ParquetFile(p).metadata.num_rows for p in parts.get(table, ()))


def _spans(steps: pl.DataFrame, operations: int) -> list[tuple[int, int]]:
    """The stretches of host time whose steps are looked at for the fit."""
    if operations <= MAX_OPERATIONS:
        return [(min(steps["start_at_ns"].to_list()), max(steps["end_at_ns"].to_list()))]
    starts = steps["start_at_ns"].sort().to_numpy()
    ends = steps["end_at_ns"].sort().to_numpy()
    firsts = np.linspace(0, max(0, starts.size - SLICE_STEPS), SLICES).astype(int)
    return [
        (int(starts[i]), int(ends[min(i + SLICE_STEPS, ends.size) - 1])) for i in firsts.tolist()
    ]


def _busy_by_step(parts: Parts, steps: pl.DataFrame) -> pl.DataFrame:
    """Busy time (union of compute kernels, mean over its devices) of the steps looked at."""
    ops, launches = _scan(parts, "gpu_ops"), _scan(parts, "gpu_launches")
    empty = pl.DataFrame(schema={"row": pl.Int64, "busy_ns": pl.Int64})
    if ops is None or launches is None:
        return empty
    spans = _spans(steps, _count(parts, "gpu_ops"))
    called, ran = (
        pl.any_horizontal(pl.col("start_at_ns").is_between(a, b + late) for a, b in spans)
        for late in (0, LATEST_NS)
    )
    calls = launches.filter(called & pl.col("correlation_id").is_not_null()).select(
        *_PLACE, "correlation_id", pl.col("start_at_ns").alias("called_at")
    )
    kernels = ops.filter(ran & (pl.col("kind") == "kernel") & (pl.col("class") == "compute"))
    joined = kernels.select(
        "source_id", "process_key", "correlation_id", "device_key", "start_at_ns", "end_at_ns"
    ).join(calls, on=["source_id", "process_key", "correlation_id"])
    return _attributed(joined.collect(engine="streaming"), steps)


def _attributed(kernels: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    inside = kernels.sort("called_at").join_asof(
        steps.select("row", *_PLACE, "start_at_ns", "end_at_ns").sort("start_at_ns"),
        left_on="called_at", right_on="start_at_ns", by=_PLACE, strategy="backward",
        suffix="_step", check_sortedness=False,
    )  # fmt: skip
    inside = inside.filter(pl.col("called_at") <= pl.col("end_at_ns_step"))
    ordered = inside.sort(["device_key", "start_at_ns", "end_at_ns"])
    before = pl.col("end_at_ns").cum_max().shift(1).over("device_key").fill_null(0)
    fresh = (pl.col("end_at_ns") - pl.max_horizontal("start_at_ns", before)).clip(lower_bound=0)
    by_device = (
        ordered.with_columns(fresh.alias("fresh"))
        .group_by("row", "device_key")
        .agg(pl.col("fresh").sum())
    )
    return by_device.group_by("row").agg(
        pl.col("fresh").mean().round().cast(pl.Int64).alias("busy_ns")
    )


def _work(steps: pl.DataFrame, busy: Ints) -> StepWork:
    """The composition as work: recompute is taken from generation tokens first."""
    again = steps["recomputed_tokens"].fill_null(0).to_numpy().astype(np.int64)
    tokens = steps["generation_tokens"].to_numpy().astype(np.int64)
    requests = steps["generation_requests"].to_numpy().astype(np.int64)
    context = steps["context_tokens"].to_numpy().astype(np.int64)
    spare = np.maximum(tokens - requests, 0)
    of_context = np.minimum(np.maximum(again - spare, 0), context)
    decode = np.maximum(np.minimum(requests, tokens - (again - of_context)), 0)
    unknown = np.full(again.size, np.nan)
    return StepWork(busy, context - of_context, again, decode, unknown)


def _fit(measured: pl.DataFrame, spec_tokens: int) -> StepCost:
    return fit_step_cost(_work(measured, measured["busy_ns"].to_numpy().astype(np.int64)))


_SCALE = 1_000_000_000


def _rows(run_id: str, steps: pl.DataFrame, cost: StepCost, spec_tokens: int) -> pl.DataFrame:
    """The shares of each step, from the model and its composition alone."""
    whole: Ints = np.full(steps.height, _SCALE, np.int64)
    parts = split_steps(cost, _work(steps, whole))
    columns: dict[str, Any] = {}
    for work in ("prefill", "decode", "recompute"):
        columns[f"{work}_ratio"] = getattr(parts, f"{work}_ns") / _SCALE
        columns[f"{work}_ratio_low"] = getattr(parts, f"{work}_low_ns") / _SCALE
        columns[f"{work}_ratio_high"] = getattr(parts, f"{work}_high_ns") / _SCALE
    kept = steps.select(
        *_PLACE, "gpu_step_ix", "start_at_ns", "end_at_ns", "engine", "incarnation", "step_ix",
        "recomputed_tokens",
    )  # fmt: skip
    r2 = None if np.isnan(cost.trimmed_r2) else cost.trimmed_r2
    return kept.with_columns(
        *(pl.Series(n, v, pl.Float64) for n, v in columns.items()),
        pl.lit(run_id).alias("run_id"),
        pl.lit(cost.method).alias("method"),
        pl.lit(r2, pl.Float64).alias("trimmed_r2"),
        pl.lit(cost.n, pl.Int64).alias("steps_fitted"),
    )
