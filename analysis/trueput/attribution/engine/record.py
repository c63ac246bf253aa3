"""The engine's own record of one run -> recompute, its victims, and the cost of a step.

Chooses by the length of the record: a run is replayed, or, where it is too long for that, split
by work in pieces with recompute as far as the shape of its steps shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from trueput.attribution.engine.coverage import counted
from trueput.attribution.iterations.cost import StepCost
from trueput.attribution.records import EngineLimits, Ints
from trueput.clock import ClockFit
from trueput.source_api import Problem, Severity

if TYPE_CHECKING:
    import polars as pl

Row = dict[str, Any]
Parts = Mapping[str, Sequence[Path]]

MAX_REPLAY_STEPS = 300_000
MAX_NAMELESS_STEPS = 50_000
"""Without records of requests a run longer than this is taken in pieces, for memory's sake."""


@dataclass(frozen=True)
class EngineRecord:
    """What one run's files say of its engine: where its parts are, what ties requests together.

    `tied` is None where the run has no record of a request.
    """

    run_id: str
    parts: Parts
    config: Mapping[str, Any]
    tied: pl.DataFrame | None
    fits: Mapping[str, ClockFit]
    shapes: Mapping[tuple[str, int], tuple[Ints, Ints]] = field(default_factory=dict)
    """What step annotations tell of iterations, by engine and incarnation: which iterations, and
    their (n, 6) SHAPE_NUMBERS."""

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
    counts = counted(record.parts, record.fits)
    if counts.uncovered is not None:
        text = f"{counts.uncovered}; its counters are at least what they say"
        problems.append(Problem("ATTR017", Severity.WARNING, text))
    if count == 0:
        rows["run_recompute"] = _from_counters(record.run_id, counts.preemptions)
        return
    limits = _limits(record.config)
    # without requests there is nothing to replay
    is_nameless = count > MAX_NAMELESS_STEPS and not record.parts.get("requests")
    if is_nameless or count > MAX_REPLAY_STEPS:
        from trueput.attribution.engine.long import attribute_long

        if not is_nameless:
            text = f"{count} iterations are too many to replay; victims stay unknown"
            problems.append(Problem("ATTR003", Severity.INFO, text))
        attribute_long(record, limits, counts.preemptions, rows)
        return
    from trueput.attribution.engine.replayed import attribute_replayed

    attribute_replayed(record, limits, counts, rows, problems)


def _limits(config: Mapping[str, Any]) -> EngineLimits:
    def whole(*keys: str) -> int | None:
        for key in keys:
            value = config.get(key)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
                return int(value)
        return None

    caching = config.get("config.enable_prefix_caching")
    ahead = config.get("config.async_scheduling")
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
        async_scheduling=ahead if isinstance(ahead, bool) else None,
    )


def _from_counters(run_id: str, preemptions: int | None) -> list[Row]:
    """Without iterations: nothing was recomputed where nothing was preempted, else unknown."""
    if preemptions is None:
        return []
    none = preemptions == 0
    zero = 0 if none else None
    return [
        {
            "run_id": run_id, "preemptions": preemptions,
            "recomputed_tokens": zero, "recomputed_tokens_low": 0,
            "recomputed_tokens_high": zero, "recompute_ns": zero, "recompute_ns_low": 0,
            "recompute_ns_high": zero, "method": "counter",
            "basis": "reported" if none else "bounded",
        }
    ]  # fmt: skip


def cost_row(run_id: str, cost: StepCost) -> Row:
    """Return the row of step_costs."""
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
