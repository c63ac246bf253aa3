"""Step annotations of a profile -> how each step's GPU time divides into kinds of work.

GPU operations belong to the step whose annotation holds the call that launched them, on the same
thread of the same process. The shares follow the cost model of the profile's steps (gpu_cost). A
profile may have millions of operations and hundreds of thousands of steps: its parts are read by
row groups, and the rows are made in pieces.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from trueput.attribution.gpu.losses.lost_steps import LostSteps, lost_steps
from trueput.attribution.gpu.profile.marks import CONTEXT_UNTOLD, Bools, Marks
from trueput.attribution.gpu.steps.busy import busy_by_step
from trueput.attribution.gpu.steps.cost import GpuCost, fit_gpu_cost, split_gpu_steps
from trueput.attribution.gpu.steps.match import matched
from trueput.attribution.gpu.steps.shapes import kv_by_annotation, read_with_shapes
from trueput.attribution.gpu.time.clock import OfFile, clock_problems
from trueput.attribution.iterations.cost import StepCost, StepWork
from trueput.attribution.iterations.kv import KV_WORKS
from trueput.attribution.records import Floats, Ints
from trueput.source_api import Problem, Severity

PIECE_STEPS = 4_096
_SCALE = 1_000_000_000
_WORKS = ("prefill", "decode", "recompute")
_SETTINGS = ("max_num_seqs", "dtype", "tensor_parallel_size", "enforce_eager", "async_scheduling")
"""Settings that an engine prints whenever it prints any."""


def gpu_steps(
    run_id: str,
    parts: Mapping[str, Sequence[Path]],
    iterations: pa.Table,
    spec_tokens: int | None,
    offsets: Mapping[str, int],
    told: list[OfFile] | None = None,
    lost: list[LostSteps] | None = None,
    dated: Collection[str] = (),
    least_again: int | None = None,
) -> Iterator[pa.Table] | None:
    """Return the rows of `gpu_steps` in pieces; None where no annotation names a step.

    `iterations`: the engine log's steps in order (engine, incarnation, step_ix, context_requests,
    context_tokens, generation_requests, generation_tokens, recomputed_tokens, and, where it is told
    whose KV they read, KV_WORKS), or an empty table.
    `spec_tokens`: how many tokens the engine speculates for a sequence, None where nothing tells.
    Instants of `parts` must be on one clock; `offsets` (ns by file) take those of the rows to UTC.
    What contradicts the log's clock, or itself, is added to `told`; `iterations` then has
    source_id and logged_at_ns. What profiles lack of their steps is added to `lost`; `dated` are
    files in UTC.
    `least_again`: tokens that the run computed again at least; where the iterations come to more,
    a step's are known as far as its generation tokens show them.
    """
    denied: list[str] = []
    marks = read_with_shapes(parts.get("gpu_ranges", ()), denied)
    at = matched(marks, iterations, offsets, dated) if marks is not None else np.zeros(0, np.int64)
    if lost is not None:
        lost += lost_steps(parts, marks, at, iterations, offsets, dated)
    if marks is None:
        return None
    if told is not None:
        found = clock_problems(marks, at, iterations, offsets)
        told += [(source, problem) for source, problem in found if source in dated]
        told += [(source, _contradicted()) for source in denied]
    again, known = _recomputed(marks, at, iterations, spec_tokens)
    certain = again
    if least_again is not None and _all_again(iterations) > least_again:
        certain = np.minimum(again, _excess(marks, spec_tokens or 0))
        known = known & (certain == again)
    busy = busy_by_step(parts, marks)
    busy = busy.of(marks.untold[busy.step] == 0)
    kv = _kv(at, iterations)
    if marks.shapes is not None:
        kv = np.where(np.isnan(kv), kv_by_annotation(marks, again), kv)
    work = _work(marks.of(busy.step), again[busy.step], busy.ns, kv[busy.step])
    cost = fit_gpu_cost(work, busy)
    spare = np.where(known, 0, _excess(marks, 0) if spec_tokens is None else 0)
    return _pieces(
        run_id, marks, _Answers(at, iterations, again, certain, known, spare, kv, cost, offsets)
    )


def speculated_tokens(config: Mapping[str, Any]) -> int | None:
    """Return how many tokens an engine speculates, 0 where its settings are known without any.

    None without the engine's settings.
    """
    told = config.get("config.num_speculative_tokens")
    if isinstance(told, int) and not isinstance(told, bool):
        return told
    return 0 if any(config.get(f"config.{key}") is not None for key in _SETTINGS) else None


@dataclass(frozen=True)
class _Answers:
    """What is known of the steps beside their annotations; arrays with an entry per step."""

    at: Ints
    """Position of the engine iteration, -1 without one."""
    iterations: pa.Table
    again: Ints
    certain: Ints
    """As many of them as there surely were."""
    known: Bools
    spare: Ints
    """Generation tokens that are recompute or speculated."""
    kv: Floats
    cost: GpuCost
    offsets: Mapping[str, int]


def _recomputed(
    marks: Marks, at: Ints, iterations: pa.Table, spec_tokens: int | None
) -> tuple[Ints, Bools]:
    """Tokens computed again in each step, and whether that is known.

    From the matched iteration, else generation tokens beyond what decoding needs. Where nobody
    tells how many tokens are speculated, such tokens may be either.
    """
    excess = _excess(marks, spec_tokens or 0)
    again, known = excess, excess > 0
    if spec_tokens is None:
        again, known = np.zeros_like(excess), np.zeros(excess.size, np.bool_)
    of_log = at >= 0
    if of_log.any():
        logged = iterations.column("recomputed_tokens").to_numpy()
        again[of_log] = logged[at[of_log]]
        known = known | of_log
    return again, known


def _contradicted() -> Problem:
    text = "lengths and squares in step annotations contradict each other; none is used"
    return Problem("ATTR020", Severity.WARNING, text)


def _all_again(iterations: pa.Table) -> int:
    """Return how many tokens all iterations computed again."""
    found = iterations.column("recomputed_tokens").to_numpy()
    return int(found.sum()) if found.size else 0


def _excess(marks: Marks, spec_tokens: int) -> Ints:
    """Generation tokens beyond what decoding needs; none where the sequences are not told."""
    need = marks.generation_requests.astype(np.int64) * (1 + spec_tokens)
    excess: Ints = np.maximum(marks.generation_tokens - need, 0)
    return excess


def _kv(at: Ints, iterations: pa.Table) -> Floats:
    """(n, 3) KV tokens that each work of each step read, NaN where nothing tells."""
    if KV_WORKS[0] not in iterations.column_names or not iterations.num_rows:
        return np.full((at.size, 3), np.nan)
    logged = np.stack([iterations.column(name).to_numpy() for name in KV_WORKS], axis=1)
    found: Floats = np.where(at[:, None] >= 0, logged[np.maximum(at, 0)], np.nan)
    return found


def _work(marks: Marks, again: Ints, busy: Ints, kv: Floats) -> StepWork:
    """The composition as work: recompute is taken from generation tokens first."""
    tokens, requests = marks.generation_tokens, marks.generation_requests
    spare = np.maximum(tokens - requests, 0)
    of_context = np.minimum(np.maximum(again - spare, 0), marks.context_tokens)
    decode = np.maximum(np.minimum(requests, tokens - (again - of_context)), 0)
    return StepWork(busy, marks.context_tokens - of_context, again, decode, kv.sum(axis=1), kv)


def _pieces(run_id: str, marks: Marks, answers: _Answers) -> Iterator[pa.Table]:
    for first in range(0, len(marks), PIECE_STEPS):
        which = slice(first, first + PIECE_STEPS)
        yield _rows(run_id, first, marks.of(which), which, answers)


def _rows(run_id: str, first: int, marks: Marks, which: slice, answers: _Answers) -> pa.Table:
    """The rows of some steps: shares from the model and the composition alone."""
    size = len(marks)
    offset = np.array([answers.offsets.get(str(p[0]), 0) for p in marks.places])[marks.place]
    texts = zip(*marks.places, strict=True)
    place: Any = pa.array(marks.place)
    columns: dict[str, Any] = {
        name: pa.array(text, pa.string()).take(place)
        for name, text in zip(("source_id", "process_key", "thread_key"), texts, strict=True)
    }
    columns["gpu_step_ix"] = np.arange(first, first + size)
    columns["start_at_ns"] = marks.start_ns + offset
    columns["end_at_ns"] = marks.end_ns + offset
    at = answers.at[which]
    index: Any = pa.array(np.maximum(at, 0), mask=at < 0)
    for name in ("engine", "incarnation", "step_ix"):
        columns[name] = answers.iterations.column(name).take(index)
    again = answers.again[which]
    columns["recomputed_tokens"] = pa.array(again, mask=~answers.known[which])
    kv, cost = answers.kv[which], answers.cost
    columns |= _ratios(cost, marks, (again, answers.certain[which], answers.spare[which]), kv)
    columns["run_id"] = pa.repeat(run_id, size)
    knows = cost.knows_kv(_work(marks, again, again, kv)).astype(np.int64)
    columns |= _models((cost.best, (cost.with_kv or cost).best), knows)
    return pa.table(columns)


def _models(costs: Sequence[StepCost], which: Ints) -> dict[str, Any]:
    """What tells of the model that divides each step, which is one of `costs`."""
    taken: Any = pa.array(which)
    r2 = [None if np.isnan(cost.trimmed_r2) else cost.trimmed_r2 for cost in costs]
    told: dict[str, Any] = {
        "method": pa.array([cost.method for cost in costs], pa.string()),
        "trimmed_r2": pa.array(r2, pa.float64()),
        "steps_fitted": pa.array([cost.n for cost in costs], pa.int64()),
    }
    return {name: values.take(taken) for name, values in told.items()}


def _ratios(
    cost: GpuCost, marks: Marks, tokens: tuple[Ints, Ints, Ints], kv: Floats
) -> dict[str, Any]:
    """The shares of each step, with what the annotation leaves open in low and high.

    `tokens` were computed again: likely, surely, and those that may have been.
    """
    again, certain, spare = tokens
    whole: Ints = np.full(len(marks), _SCALE, np.int64)
    # tokens of prefill that are not told are some: a step of nothing else is all prefill
    alone = (marks.untold & CONTEXT_UNTOLD > 0) & (marks.generation_tokens == 0)
    marks = replace(marks, context_tokens=np.where(alone, 1, marks.context_tokens))
    parts = split_gpu_steps(cost, _work(marks, again, whole, kv))
    shares = {
        f"{work}{end}": getattr(parts, f"{work}{end}_ns")
        for work in _WORKS
        for end in ("", "_low", "_high")
    }
    for reading in (np.maximum(again, spare), certain):
        if (reading == again).all():
            continue
        other = split_gpu_steps(cost, _work(marks, reading, whole, kv))
        for work in _WORKS:
            low, high = getattr(other, f"{work}_low_ns"), getattr(other, f"{work}_high_ns")
            shares[f"{work}_low"] = np.minimum(shares[f"{work}_low"], low)
            shares[f"{work}_high"] = np.maximum(shares[f"{work}_high"], high)
    mixed = (marks.untold > 0) & ~alone
    for work in ("prefill", "decode"):
        shares[f"{work}_low"] = np.where(mixed, 0, shares[f"{work}_low"])
        shares[f"{work}_high"] = np.where(mixed, _SCALE, shares[f"{work}_high"])
    return {
        f"{work}_ratio{end}": shares[f"{work}{end}"] / _SCALE
        for work in _WORKS
        for end in ("", "_low", "_high")
    }
