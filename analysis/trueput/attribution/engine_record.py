"""The engine's own record of one run -> recompute, its victims, and the cost of a step.

Gathers iterations, streams, limits and counters from the run's parts, gives them to the pure
functions of this package, and turns their results into rows of the derived tables. A run too long
to replay is split by work in pieces, with recompute as far as the shape of its steps shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from trueput.attribution.preemption import Attribution, attribute
from trueput.attribution.recompute import excess_tokens
from trueput.attribution.records import EngineLimits, Ints, Steps, Stream, Totals
from trueput.attribution.step_cost import (
    MAX_FIT_STEPS,
    StepCost,
    StepParts,
    StepWork,
    fit_step_cost,
    split_steps,
)
from trueput.clock import ClockFit
from trueput.source_api import Problem, Severity

Row = dict[str, Any]
Parts = Mapping[str, Sequence[Path]]

MAX_REPLAY_STEPS = 300_000
MAX_REPLAY_STREAMS = 100_000
MAX_NAMELESS_STEPS = 50_000
"""Without records of requests a run longer than this is taken in pieces, for memory's sake."""
PREEMPTIONS = "vllm:num_preemptions_total"
_STEP_COLUMNS = [
    "source_id", "engine", "incarnation", "step_ix", "line", "logged_at_ns", "elapsed_ns",
    "context_requests", "context_tokens", "generation_requests", "generation_tokens",
    "kv_used_ratio",
]  # fmt: skip


@dataclass(frozen=True)
class EngineRecord:
    """What one run's files say of its engine: where its parts are, what ties requests together."""

    run_id: str
    parts: Parts
    config: Mapping[str, Any]
    tied: pl.DataFrame
    fits: Mapping[str, ClockFit]

    def offset(self, source: str) -> int:
        """Nanoseconds from a file's clock to UTC; 0 where unknown."""
        fit = self.fits.get(source)
        return fit.offset_ns or 0 if fit is not None else 0


def attribute_engine(record: EngineRecord, rows: dict[str, Any], problems: list[Problem]) -> None:
    """Add run_recompute, step_costs, step_work and request_recompute to `rows`.

    Without iteration records only what counters say is added. A failure inside the attribution
    becomes a problem: the run keeps everything else, and recompute stays unknown.
    """
    count = sum(pq.ParquetFile(p).metadata.num_rows for p in record.parts.get("engine_steps", ()))
    grown = _growth(record)
    if count == 0:
        rows["run_recompute"] = _from_counters(record.run_id, grown.get(PREEMPTIONS))
        return
    limits = _limits(record.config)
    if count > MAX_NAMELESS_STEPS and not record.parts.get("requests"):
        # no requests: there is nothing to replay
        _attribute_long(record, limits, grown.get(PREEMPTIONS), rows)
        return
    if count > MAX_REPLAY_STEPS:
        text = f"{count} iterations are too many to replay; victims stay unknown"
        problems.append(Problem("ATTR003", Severity.INFO, text))
        _attribute_long(record, limits, grown.get(PREEMPTIONS), rows)
        return
    totals = _totals(record, grown)
    sources, steps = _steps(record)
    streams = _streams(record)
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
    _write(record.run_id, sources, steps, streams, found, rows)


def _limits(config: Mapping[str, Any]) -> EngineLimits:
    def whole(*keys: str) -> int | None:
        for key in keys:
            value = config.get(key)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
                return int(value)
        return None

    caching = config.get("config.enable_prefix_caching")
    block = whole("config.block_size", "kv.block_size")
    blocks = whole("config.num_gpu_blocks_override", "kv.blocks", "config.num_gpu_blocks")
    tokens = whole("kv.tokens")
    if blocks is None and block is not None and tokens is not None:
        blocks = tokens // block
    return EngineLimits(
        block_size=block,
        num_blocks=blocks,
        max_num_seqs=whole("config.max_num_seqs"),
        max_num_batched_tokens=whole("config.max_num_batched_tokens"),
        prefix_caching=caching if isinstance(caching, bool) else None,
        spec_tokens=whole("config.num_speculative_tokens") or 0,
    )


# -- gathering --------------------------------------------------------------------------------


def _scan(parts: Parts, table: str) -> pl.LazyFrame | None:
    files = list(parts.get(table, ()))
    return pl.scan_parquet(files) if files else None


def _totals(record: EngineRecord, grown: Mapping[str, int]) -> Totals:
    return Totals(
        prompt_tokens_computed=grown.get("vllm:prompt_tokens_by_source_total"),
        generation_tokens=grown.get("vllm:generation_tokens_total"),
        first_tokens=grown.get("vllm:time_to_first_token_seconds"),
        preemptions=grown.get(PREEMPTIONS),
        aborted=len(_aborted(record.parts)),
    )


def _growth(record: EngineRecord) -> dict[str, int]:
    """Differences of the counters; the whole count where scraping began with the engine."""
    samples = _scan(record.parts, "engine_samples")
    grown: dict[str, float] = {}
    if samples is not None:
        wanted = samples.filter(
            pl.col("kind").is_in(["counter", "histogram_count"])
            & pl.col("metric").is_in(
                [
                    "vllm:prompt_tokens_by_source_total",
                    "vllm:generation_tokens_total",
                    "vllm:time_to_first_token_seconds",
                    PREEMPTIONS,
                ]
            )
        )
        series = ["source_id", "engine", "incarnation", "metric", "labels"]
        ends = (
            wanted.sort("at_ns", maintain_order=True)
            .group_by(series)
            .agg(pl.col("value").first().alias("first"), pl.col("value").last().alias("last"))
        )
        base = pl.when(pl.col("incarnation") > 0).then(0.0).otherwise(pl.col("first"))
        for row in ends.with_columns((pl.col("last") - base).alias("growth")).collect().to_dicts():
            name = row["metric"]
            of_cache = "source=local_compute" not in row["labels"]
            if name == "vllm:prompt_tokens_by_source_total" and of_cache:
                continue
            grown[name] = grown.get(name, 0.0) + row["growth"]
    return {name: round(value) for name, value in grown.items()}


def _aborted(parts: Parts) -> set[str]:
    events = _scan(parts, "request_events")
    if events is None:
        return set()
    key = pl.coalesce("request_id", pl.col("engine_request_id").str.replace(r"-[0-9a-f]{8}$", ""))
    found = events.filter(pl.col("event") == "aborted").select(key.alias("id")).unique().collect()
    return set(found["id"].drop_nulls().to_list())


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
    )


def _steps(record: EngineRecord) -> tuple[list[str], list[Steps]]:
    """The iterations of each engine life, and the file of each; unusable rows are left out."""
    scan = _scan(record.parts, "engine_steps")
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


def _streams(record: EngineRecord) -> list[Stream]:
    """Every request of the run, client and engine side together.

    None without any record of requests: log lines alone give neither lengths nor arrivals, so
    nothing can be replayed or counted with them.
    """
    requests = _scan(record.parts, "requests")
    if requests is None:
        return []
    engine = _engine_side(record)
    client: dict[str, Row] = {}
    rows = requests.filter(pl.col("vantage") == "client").select(
        "source_id", "row_ix", "prompt_tokens", "output_tokens", "asked_output_tokens",
        "sent_at_ns", "first_token_at_ns", "ended_at_ns", "gaps_ns", "status",
    ).collect()  # fmt: skip
    named = rows.join(
        record.tied.select("source_id", "row_ix", "request_id"), on=["source_id", "row_ix"]
    )
    for row in named.iter_rows(named=True):
        offset = record.offset(row["source_id"])
        for name in ("sent_at_ns", "first_token_at_ns", "ended_at_ns"):
            row[name] = row[name] + offset if row[name] is not None else None
        client[row["request_id"]] = row
    aborted = _aborted(record.parts)
    names = sorted(set(engine) | {n for n in client if not engine or n in engine})
    return [_stream(n, client.get(n, {}), engine.get(n, {}), n in aborted) for n in names]


def _engine_side(record: EngineRecord) -> dict[str, Row]:
    found: dict[str, Row] = {}
    requests = _scan(record.parts, "requests")
    if requests is not None:
        spans = requests.filter(pl.col("vantage") == "engine").select(
            "source_id", "request_id", "prompt_tokens", "cached_prompt_tokens", "output_tokens",
            "asked_output_tokens", "arrived_at_ns", "queue_ns", "prefill_ns", "decode_ns", "e2e_ns",
        )  # fmt: skip
        for row in spans.collect().iter_rows(named=True):
            if row["request_id"] is None:
                continue
            if row["arrived_at_ns"] is not None:
                row["arrived_at_ns"] += record.offset(row["source_id"])
            found[row["request_id"]] = row
    events = _scan(record.parts, "request_events")
    if events is not None:
        seen = events.filter(
            pl.col("event").is_in(["received", "added"])
            & pl.col("request_id").is_not_null()
            & ~pl.col("request_id").str.starts_with("tokenize-")
        )
        limits = seen.group_by("request_id").agg(
            pl.col("max_tokens").max(), pl.col("prompt_tokens").max()
        )
        for name, max_tokens, prompt in limits.collect().iter_rows():
            row = found.setdefault(name, {})
            if row.get("asked_output_tokens") is None:
                row["asked_output_tokens"] = max_tokens
            if row.get("prompt_tokens") is None:
                row["prompt_tokens"] = prompt
    return found


def _first(*values: Any) -> Any:
    return next((v for v in values if v is not None), None)


def _stream(name: str, client: Row, engine: Row, aborted: bool) -> Stream:
    gaps = client.get("gaps_ns")
    output = _first(engine.get("output_tokens"), client.get("output_tokens"))
    return Stream(
        request_id=name,
        prompt_tokens=_first(engine.get("prompt_tokens"), client.get("prompt_tokens")),
        cached_prompt_tokens=engine.get("cached_prompt_tokens"),
        output_tokens=output,
        asked_output_tokens=_first(
            client.get("asked_output_tokens"), engine.get("asked_output_tokens")
        ),
        sent_at_ns=client.get("sent_at_ns"),
        first_token_at_ns=client.get("first_token_at_ns"),
        ended_at_ns=client.get("ended_at_ns"),
        gaps_ns=np.asarray(gaps, np.int64) if gaps else None,
        arrived_at_ns=engine.get("arrived_at_ns"),
        queue_ns=engine.get("queue_ns"),
        prefill_ns=engine.get("prefill_ns"),
        decode_ns=engine.get("decode_ns"),
        e2e_ns=engine.get("e2e_ns"),
        aborted=aborted,
    )


# -- writing ----------------------------------------------------------------------------------


def _from_counters(run_id: str, preemptions: int | None) -> list[Row]:
    """Without iterations: nothing was recomputed where nothing was preempted, else unknown."""
    if preemptions is None:
        return []
    none = preemptions == 0
    zero = 0 if none else None
    return [
        {
            "run_id": run_id, "recomputed_tokens": zero, "recomputed_tokens_low": 0,
            "recomputed_tokens_high": zero, "recompute_ns": zero, "recompute_ns_low": 0,
            "recompute_ns_high": zero, "method": "counter",
            "basis": "reported" if none else "bounded",
        }
    ]  # fmt: skip


def _cost_row(run_id: str, cost: StepCost) -> Row:
    fitted = cost.usable
    return {
        "run_id": run_id,
        "constant_ns": cost.constant_ns if fitted else None,
        "prefill_token_ns": cost.prefill_token_ns if fitted else None,
        "decode_sequence_ns": cost.decode_sequence_ns if fitted else None,
        "kv_token_ns": cost.kv_token_ns if fitted else None,
        "steps_fitted": cost.n,
        "trimmed_r2": None if np.isnan(cost.trimmed_r2) else cost.trimmed_r2,
        "method": cost.method,
    }


def _work_frame(
    run_id: str, source: str, steps: Steps, again: Ints, of_context: Ints, parts: StepParts
) -> pl.DataFrame:
    """Rows of step_work: only iterations with several kinds of work, or with recompute."""
    kinds = (
        (parts.prefill_ns > 0).astype(np.int64)
        + (parts.decode_ns > 0).astype(np.int64)
        + (parts.recompute_ns > 0).astype(np.int64)
    )
    keep = (kinds > 1) | (again > 0)
    columns: dict[str, Any] = {
        "step_ix": steps.step_ix,
        "recomputed_tokens": again,
        "context_recomputed_tokens": of_context,
        "prefill_ns": parts.prefill_ns,
        "decode_ns": parts.decode_ns,
        "recompute_ns": parts.recompute_ns,
        "prefill_ns_low": parts.prefill_low_ns,
        "prefill_ns_high": parts.prefill_high_ns,
        "decode_ns_low": parts.decode_low_ns,
        "decode_ns_high": parts.decode_high_ns,
        "recompute_ns_low": parts.recompute_low_ns,
        "recompute_ns_high": parts.recompute_high_ns,
    }
    return pl.DataFrame({n: v[keep] for n, v in columns.items()}).with_columns(
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
    rows: dict[str, Any],
) -> None:
    total = found.totals
    rows["step_costs"] = [_cost_row(run_id, found.cost)]
    rows["run_recompute"] = [
        {
            "run_id": run_id,
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
    """Who computed what in which iterations, where the replay reproduced the run's counts."""
    if found.unreproduced_steps:
        return []
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
        }
        for one, presences in zip(steps, found.presences, strict=True)
        for x in presences
    ]


def _request_rows(run_id: str, streams: Sequence[Stream], found: Attribution) -> list[Row]:
    """Victims; and, where every counted preemption is explained, the rest as not preempted."""
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
    sure = min(r.confidence for r in found.requests)
    zeros = dict.fromkeys(
        ["preemptions", "requeue_ns", "recompute_ns", "recomputed_tokens",
         "requeue_before_first_token_ns", "recompute_before_first_token_ns"], 0,
    )  # fmt: skip
    rest = [s.request_id for s in streams if s.request_id not in victims]
    method = found.requests[0].method
    out += [
        {"run_id": run_id, "request_id": name, **zeros, "confidence": sure, "method": method,
         "basis": "inferred"}
        for name in rest
    ]  # fmt: skip
    return out


# -- runs too long to replay ------------------------------------------------------------------


PIECE_ROWS = 65_536
_COUNTED_COLUMNS = ["dummy", "elapsed_ns", "step_ix"]
_SHAPE_COLUMNS = [
    "source_id", "engine", "incarnation", "context_tokens", "generation_requests",
    "generation_tokens", "kv_used_ratio", *_COUNTED_COLUMNS,
]  # fmt: skip


def _usable(frame: pl.DataFrame) -> pl.Series:
    known = frame["elapsed_ns"].is_not_null() & frame["step_ix"].is_not_null()
    return ~frame["dummy"] & known


def _count(record: EngineRecord) -> int:
    """Return how many iterations can be used."""
    total = 0
    for path in record.parts.get("engine_steps", ()):
        with pq.ParquetFile(path) as source:
            for batch in source.iter_batches(PIECE_ROWS, columns=_COUNTED_COLUMNS):
                frame = pl.from_arrow(batch)
                assert isinstance(frame, pl.DataFrame)
                total += int(_usable(frame).sum())
    return total


def _pieces(record: EngineRecord) -> Iterator[tuple[str, Steps]]:
    """Yield the iterations in pieces, without when they were logged and for how many requests."""
    none = pl.lit(0, dtype=pl.Int64)
    for path in record.parts.get("engine_steps", ()):
        with pq.ParquetFile(path) as source:
            for batch in source.iter_batches(PIECE_ROWS, columns=_SHAPE_COLUMNS):
                frame = pl.from_arrow(batch)
                assert isinstance(frame, pl.DataFrame)
                frame = frame.filter(_usable(frame))
                frame = frame.with_columns(logged_at_ns=none, context_requests=none)
                for key, part in frame.group_by(
                    ["source_id", "engine", "incarnation"], maintain_order=True
                ):
                    yield str(key[0]), _make_steps(record, part)


def _shape_work(steps: Steps, limits: EngineLimits) -> tuple[StepWork, Ints]:
    again = excess_tokens(steps, limits.spec_tokens)
    kv = np.full(len(again), np.nan)
    if limits.num_blocks and limits.block_size:
        kv = steps.kv_used_ratio * (limits.num_blocks - 1) * limits.block_size
    work = StepWork(steps.elapsed_ns, steps.context_tokens, again, steps.generation_requests, kv)
    return work, again


def _attribute_long(
    record: EngineRecord, limits: EngineLimits, preemptions: int | None, rows: dict[str, Any]
) -> None:
    """Fit on a strided sample, then split piece by piece: memory does not grow with the run."""
    stride = max(1, -(-_count(record) // MAX_FIT_STEPS))
    every = slice(None, None, stride)
    sampled = [
        tuple(getattr(w, n).copy() for n in StepWork.__dataclass_fields__)
        for w, _ in (_shape_work(s.of(every), limits) for _, s in _pieces(record))
    ]
    cost = fit_step_cost(StepWork(*(np.concatenate(c) for c in zip(*sampled, strict=True))))
    rows["step_costs"] = [_cost_row(record.run_id, cost)]
    shape = scheduled = spent = low = high = 0

    def frames() -> Iterator[pl.DataFrame]:
        nonlocal shape, scheduled, spent, low, high
        for source, whole in _pieces(record):
            scheduled += int(whole.context_tokens.sum() + whole.generation_tokens.sum())
            # what did one kind of work has nothing to divide, and no row
            again = excess_tokens(whole, limits.spec_tokens)
            mixed = (whole.context_tokens > 0) & (whole.generation_requests > 0)
            steps = whole.of(mixed | (again > 0))
            work, again = _shape_work(steps, limits)
            parts = split_steps(cost, work)
            shape += int(again.sum())
            spent += int(parts.recompute_ns.sum())
            low += int(parts.recompute_low_ns.sum())
            high += int(steps.elapsed_ns[again > 0].sum())
            yield _work_frame(record.run_id, source, steps, again, np.zeros_like(again), parts)

    rows["step_work"] = frames()
    none = preemptions == 0

    def total() -> list[Row]:
        return [
            {
                "run_id": record.run_id,
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
