"""A run too long to replay: split by work in pieces, recompute as far as steps show it.

Reads the parts in batches and keeps none: memory does not grow with the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trueput.arrow import CODED, constant
from trueput.attribution.engine.record import EngineRecord, Row, cost_row
from trueput.attribution.iterations.cost import StepWork, fit_step_cost, overlapped, split_steps
from trueput.attribution.iterations.recompute import excess_tokens
from trueput.attribution.iterations.timeline import own_least
from trueput.attribution.iterations.work import work_columns
from trueput.attribution.records import EngineLimits, Ints, Steps

BATCH_ROWS: Final = 65_536
FIT_STEPS: Final = 20_000
"""The cost of a step has four parameters: more steps do not change it."""
SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: its multiples pick evenly, whatever repeats in the run."""
LIFE: Final = ("source_id", "engine", "incarnation")
NUMBERS: Final = (
    "step_ix", "elapsed_ns", "context_tokens", "generation_requests", "generation_tokens"
)  # fmt: skip


def _ints(batch: pa.RecordBatch, name: str) -> Ints:
    values = batch.column(name)
    filled = values.fill_null(0) if values.null_count else values
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)


def _pieces(record: EngineRecord) -> Iterator[tuple[str, Steps]]:
    """Yield the usable iterations in pieces of one engine life, without when they were logged and
    for how many requests."""
    columns = [*LIFE, *NUMBERS, "kv_used_ratio", "dummy"]
    for path in record.parts.get("engine_steps", ()):
        with pq.ParquetFile(
            path, read_dictionary=["source_id", "engine"], pre_buffer=False
        ) as source:
            for batch in source.iter_batches(BATCH_ROWS, columns=columns):
                known = pc.and_(batch.column("elapsed_ns").is_valid(),
                                batch.column("step_ix").is_valid())  # fmt: skip
                usable = pc.and_not(known, batch.column("dummy"))
                yield from _lives(batch if pc.all(usable).as_py() else batch.filter(usable))


def _lives(batch: pa.RecordBatch) -> Iterator[tuple[str, Steps]]:
    """Yield the iterations of each engine life among these rows, in the order of the first."""
    words: list[Any] = [batch.column(name) for name in LIFE[:2]]
    codes = [np.asarray(word.indices.to_numpy(), np.int64) for word in words]
    names = [word.dictionary for word in words]
    columns = (*codes, _ints(batch, "incarnation"))
    numbers = {name: _ints(batch, name) for name in NUMBERS}
    zeros = np.zeros(batch.num_rows, np.int64)
    kv = batch.column("kv_used_ratio").to_numpy(zero_copy_only=False).astype(np.float64)
    known: dict[str, Any] = numbers | {
        "logged_at_ns": zeros,
        "context_requests": zeros,
        "kv_used_ratio": kv,
    }
    for at, rows in _groups(columns):
        source, engine, life = (int(column[at]) for column in columns)
        steps = Steps(names[1][engine].as_py(), life, **known)
        yield names[0][source].as_py(), steps.of(rows)


def _groups(columns: Sequence[Ints]) -> Iterator[tuple[int, Any]]:
    """Yield the rows that are equal in all columns: the first of them, and what selects them."""
    if not len(columns[0]):
        return
    if all(int(column.min()) == int(column.max()) for column in columns):
        yield 0, slice(None)
        return
    _, first, which = np.unique(
        np.stack(columns, axis=1), axis=0, return_index=True, return_inverse=True
    )
    for group in np.argsort(first).tolist():
        yield int(first[group]), which == group


def _shape_work(steps: Steps, limits: EngineLimits) -> tuple[StepWork, Ints]:
    again = excess_tokens(steps, limits.spec_tokens)
    kv = np.full(len(again), np.nan)
    if limits.num_blocks and limits.block_size:
        kv = steps.kv_used_ratio * (limits.num_blocks - 1) * limits.block_size
    work = StepWork(steps.elapsed_ns, steps.context_tokens, again, steps.generation_requests, kv)
    return work, again


def _sample(record: EngineRecord, limits: EngineLimits) -> StepWork:
    """Return about FIT_STEPS of the run's iterations, all of a shorter run."""
    files = record.parts.get("engine_steps", ())
    count = sum(pq.ParquetFile(path).metadata.num_rows for path in files)
    share = np.uint64(min((1 << 64) - 1, (FIT_STEPS << 64) // max(count, 1)))
    done = 0
    sampled: list[Sequence[Any]] = []
    for _, steps in _pieces(record):
        size = len(steps.step_ix)
        place = np.arange(done, done + size, dtype=np.uint64) * SPREAD
        done += size
        work, _ = _shape_work(steps.of(place <= share), limits)
        sampled.append([getattr(work, name) for name in StepWork.__dataclass_fields__])
    if not sampled:
        none = np.zeros(0, np.int64)
        return StepWork(none, none, none, none, none.astype(np.float64))
    return StepWork(*(np.concatenate(column) for column in zip(*sampled, strict=True)))


def _table(numbers: dict[str, Ints], words: dict[str, str], incarnation: int) -> pa.Table:
    count = len(numbers["step_ix"])
    columns = {name: pa.array(values) for name, values in numbers.items()}
    columns |= {name: constant(word, count, CODED) for name, word in words.items()}
    return pa.table(columns | {"incarnation": np.full(count, incarnation)})


def attribute_long(
    record: EngineRecord, limits: EngineLimits, preemptions: int | None, rows: dict[str, Any]
) -> None:
    """Add step_costs, step_work and run_recompute to `rows`: fitted on a sample, then split."""
    cost = fit_step_cost(_sample(record, limits))
    rows["step_costs"] = [cost_row(record.run_id, cost)]
    shape = scheduled = low = high = 0

    def tables() -> Iterator[pa.Table]:
        nonlocal shape, scheduled, low, high
        for source, whole in _pieces(record):
            scheduled += int(whole.context_tokens.sum() + whole.generation_tokens.sum())
            # what did one kind of work has nothing to divide, and no row
            again = excess_tokens(whole, limits.spec_tokens)
            mixed = (whole.context_tokens > 0) & (whole.generation_requests > 0)
            kept = mixed | (again > 0)
            steps = whole.of(kept)
            work, again = _shape_work(steps, limits)
            parts = split_steps(cost, work)
            if limits.async_scheduling:
                parts = overlapped(parts, own_least(whole)[kept])
            shape += int(again.sum())
            low += int(parts.recompute_low_ns.sum())
            high += int(steps.elapsed_ns[again > 0].sum())
            numbers = work_columns(steps, again, np.zeros_like(again), parts)
            words = {"run_id": record.run_id, "source_id": source, "engine": steps.engine}
            yield _table(numbers, words, steps.incarnation)

    rows["step_work"] = tables()
    none = preemptions == 0

    def total() -> list[Row]:
        return [
            {
                "run_id": record.run_id,
                "preemptions": preemptions,
                "scheduled_tokens": scheduled,
                "recomputed_tokens": 0 if none else None,
                "recomputed_tokens_low": 0 if none else shape,
                "recomputed_tokens_high": 0 if none else None,
                "recompute_ns": 0 if none else None,
                "recompute_ns_low": 0 if none else low,
                "recompute_ns_high": 0 if none else None,
                "method": "counter" if none else "shape",
                "basis": "reported" if none else "bounded",
            }
        ]

    rows["run_recompute"] = total
