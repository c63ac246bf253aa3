"""A run short enough to replay: its streams and iterations -> victims, recompute, work of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from trueput.attribution.engine.counters import (
    FIRST_TOKENS,
    GENERATION_TOKENS,
    PREEMPTIONS,
    PREFILLED,
    PROMPT_TOKENS,
    summed,
)
from trueput.attribution.engine.coverage import Counted
from trueput.attribution.engine.record import EngineRecord, Row, cost_row
from trueput.attribution.engine.streams import aborted_of, scan_of, streams_of
from trueput.attribution.iterations.cost import StepParts
from trueput.attribution.iterations.work import work_columns
from trueput.attribution.preemption import Attribution, attribute
from trueput.attribution.preemption.confidence import SURE
from trueput.attribution.preemption.victims import LEAST_CONFIDENCE
from trueput.attribution.records import (
    SHAPE_NUMBERS,
    UNTOLD,
    EngineLimits,
    Ints,
    Steps,
    Stream,
    Totals,
)
from trueput.source_api import Problem, Severity

MAX_REPLAY_STREAMS = 100_000
_STEP_COLUMNS = [
    "source_id", "engine", "incarnation", "step_ix", "line", "logged_at_ns", "elapsed_ns",
    "context_requests", "context_tokens", "generation_requests", "generation_tokens",
    "kv_used_ratio",
]  # fmt: skip


def attribute_replayed(
    record: EngineRecord,
    limits: EngineLimits,
    counts: Counted,
    rows: dict[str, Any],
    problems: list[Problem],
) -> None:
    """Add run_recompute, step_costs, step_work, request_recompute and request_steps to `rows`."""
    sources, steps = _steps(record)
    streams = streams_of(record)
    totals = _totals(record, counts, streams)
    if len(streams) > MAX_REPLAY_STREAMS:
        text = f"{len(streams)} requests are too many to replay; victims stay unknown"
        problems.append(Problem("ATTR003", Severity.INFO, text))
        streams = []
    try:
        found = attribute(steps, streams, limits, totals)
    except Exception as error:  # noqa: BLE001  the run must not be lost with its attribution
        text = f"{type(error).__name__} while attributing recompute; it stays unknown"
        problems.append(Problem("ATTR004", Severity.ERROR, text))
        return
    if found.unsearched_steps:
        text = (
            f"{found.unsearched_steps} iterations fit the requests in more ways than were looked "
            "at; victims of preemption may be missing"
        )
        problems.append(Problem("ATTR003", Severity.INFO, text))
    if found.denied_shapes:
        text = "lengths in step annotations fit no account of the requests; these are not used"
        problems.append(Problem("ATTR020", Severity.WARNING, text))
    _write(record.run_id, sources, steps, streams, found, totals.preemptions, rows)


def _totals(record: EngineRecord, counts: Counted, streams: Sequence[Stream]) -> Totals:
    grown, covers = counts.grown, counts.uncovered is None
    aborted = {*aborted_of(record), *(x.request_id for x in streams if x.aborted)}
    return Totals(
        prompt_tokens_computed=grown.get(PROMPT_TOKENS),
        generation_tokens=grown.get(GENERATION_TOKENS),
        first_tokens=grown.get(FIRST_TOKENS),
        preemptions=counts.preemptions,
        aborted=len(aborted),
        prefilled_requests=grown.get(PREFILLED) if covers else None,
        prefilled_tokens=grown.get(summed(PREFILLED)) if covers else None,
        covers=covers,
        preemptions_least=grown.get(PREEMPTIONS, 0),
    )


def _array(frame: pl.DataFrame, name: str) -> Ints:
    return frame[name].fill_null(0).to_numpy().astype(np.int64)


def _make_steps(record: EngineRecord, frame: pl.DataFrame) -> Steps:
    offset = record.offset(str(frame["source_id"][0]))
    return Steps(
        engine=str(frame["engine"][0]),
        incarnation=int(frame["incarnation"][0]),
        step_ix=_array(frame, "step_ix"),
        logged_at_ns=_array(frame, "logged_at_ns") + offset,
        elapsed_ns=_array(frame, "elapsed_ns"),
        context_requests=_array(frame, "context_requests"),
        context_tokens=_array(frame, "context_tokens"),
        generation_requests=_array(frame, "generation_requests"),
        generation_tokens=_array(frame, "generation_tokens"),
        kv_used_ratio=frame["kv_used_ratio"].fill_null(float("nan")).to_numpy().astype(np.float64),
        shapes=_shapes(record, frame),
    )


def _shapes(record: EngineRecord, frame: pl.DataFrame) -> Ints | None:
    """What step annotations tell of the iterations of one life of an engine."""
    told = record.shapes.get((str(frame["engine"][0]), int(frame["incarnation"][0])))
    if told is None:
        return None
    step_ix, shapes = told
    found = np.full((frame.height, len(SHAPE_NUMBERS)), UNTOLD, np.int64)
    _, at, of = np.intersect1d(_array(frame, "step_ix"), step_ix, return_indices=True)
    found[at] = shapes[of]
    return found


def _steps(record: EngineRecord) -> tuple[list[str], list[Steps]]:
    """The iterations of each engine life, and the file of each; unusable rows are left out."""
    scan = scan_of(record.parts, "engine_steps")
    assert scan is not None
    usable = scan.filter(
        ~pl.col("dummy") & pl.col("elapsed_ns").is_not_null() & pl.col("step_ix").is_not_null()
    ).select(_STEP_COLUMNS)
    sources, found = [], []
    groups = usable.collect().group_by(["source_id", "engine", "incarnation"], maintain_order=True)
    for key, frame in groups:
        unique = frame.sort("step_ix", maintain_order=True).unique(
            "step_ix", keep="first", maintain_order=True
        )
        sources.append(str(key[0]))
        found.append(_make_steps(record, unique))
    return sources, found


def _work_frame(
    run_id: str, source: str, steps: Steps, again: Ints, of_context: Ints, parts: StepParts
) -> pl.DataFrame:
    return pl.DataFrame(work_columns(steps, again, of_context, parts)).with_columns(
        pl.lit(run_id).alias("run_id"),
        pl.lit(source).alias("source_id"),
        pl.lit(steps.engine).alias("engine"),
        pl.lit(steps.incarnation, pl.Int64).alias("incarnation"),
    )


def _write(
    run_id: str,
    sources: Sequence[str],
    steps: Sequence[Steps],
    streams: Sequence[Stream],
    found: Attribution,
    preemptions: int | None,
    rows: dict[str, Any],
) -> None:
    total = found.totals
    rows["step_costs"] = [cost_row(run_id, found.cost)]
    rows["run_recompute"] = [
        {
            "run_id": run_id,
            "preemptions": preemptions,
            "scheduled_tokens": total.scheduled_tokens,
            "recomputed_tokens": total.recomputed_tokens,
            "recomputed_tokens_low": total.recomputed_tokens_low,
            "recomputed_tokens_high": total.recomputed_tokens_high,
            "recompute_ns": total.recompute_ns,
            "recompute_ns_low": total.recompute_ns_low,
            "recompute_ns_high": total.recompute_ns_high,
            "method": total.method,
            "basis": total.basis,
        }
    ]
    frames = []
    for source, one, made in zip(sources, steps, found.steps, strict=True):
        spare = np.maximum(one.generation_tokens - one.generation_requests, 0)
        of_context = np.minimum(np.maximum(made.recomputed_tokens - spare, 0), one.context_tokens)
        frames.append(
            _work_frame(run_id, source, one, made.recomputed_tokens, of_context, made.parts)
        )
    rows["step_work"] = pl.concat(frames)
    rows["request_recompute"] = _request_rows(run_id, streams, found)
    rows["request_steps"] = _presence_rows(run_id, steps, streams, found)


def _presence_rows(
    run_id: str, steps: Sequence[Steps], streams: Sequence[Stream], found: Attribution
) -> list[Row]:
    """Who computed what in which iterations, as far as the replay says."""
    return [
        {
            "run_id": run_id,
            "engine": one.engine,
            "incarnation": one.incarnation,
            "request_id": streams[x.job].request_id,
            "work": x.work,
            "first_step_ix": int(one.step_ix[x.first]),
            "last_step_ix": int(one.step_ix[x.last]),
            "tokens": x.tokens,
            "tokens_else": x.other,
            "tokens_low": x.low,
            "tokens_high": x.high,
        }
        for one, presences in zip(steps, found.presences, strict=True)
        for x in presences
    ]


def _request_rows(run_id: str, streams: Sequence[Stream], found: Attribution) -> list[Row]:
    """Victims; and, where every counted preemption is explained, the rest as not preempted.

    Without those that may as well have been.
    """
    out = [
        {
            "run_id": run_id,
            "request_id": r.request_id,
            "preemptions": r.preemptions,
            "requeue_ns": r.requeue_ns,
            "recompute_ns": r.recompute_ns,
            "recomputed_tokens": r.recomputed_tokens,
            "requeue_before_first_token_ns": r.requeue_before_first_token_ns,
            "recompute_before_first_token_ns": r.recompute_before_first_token_ns,
            "confidence": r.confidence,
            "method": r.method,
            "basis": r.basis,
        }
        for r in found.requests
    ]
    if not out or found.unattributed_preemptions != 0:
        return out
    victims = {r.request_id for r in found.requests}
    sure = min(r.preempted_confidence for r in found.requests)
    zeros = dict.fromkeys(
        ["preemptions", "requeue_ns", "recompute_ns", "recomputed_tokens",
         "requeue_before_first_token_ns", "recompute_before_first_token_ns"], 0,
    )  # fmt: skip
    rest = [s.request_id for s in streams if s.request_id not in victims]
    certain = {name: min(sure, round(1 - found.doubts.get(name, 0.0), 4)) for name in rest}
    method = found.requests[0].method
    out += [
        {"run_id": run_id, "request_id": name, **zeros, "confidence": here, "method": method,
         "basis": "inferred" if here >= SURE else "bounded"}
        for name, here in certain.items() if here >= LEAST_CONFIDENCE
    ]  # fmt: skip
    return out
