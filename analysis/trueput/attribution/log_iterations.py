"""The iterations that an engine's log printed, with what was computed again in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from trueput.attribution.tying import scan


def log_iterations(parts: Mapping[str, Sequence[Path]], work: Any) -> pa.Table:
    """Return the iterations in order: source_id, engine, incarnation, step_ix, what was scheduled,
    and recomputed_tokens from `work` (step_work as a frame; without one there are no rows: a log
    too long to replay cannot say what was computed again)."""
    columns = ["source_id", "engine", "incarnation", "step_ix", "context_requests",
               "context_tokens", "generation_requests", "generation_tokens"]  # fmt: skip
    keys = ["source_id", "engine", "incarnation", "step_ix"]
    steps = scan(parts, "engine_steps").filter(~pl.col("dummy") & pl.col("step_ix").is_not_null())
    found = steps.select(columns).unique(keys, keep="first").sort(keys).collect()
    if not isinstance(work, pl.DataFrame):
        return _arrow(found.clear().with_columns(pl.lit(0).alias("recomputed_tokens")))
    again = work.select(*keys, "recomputed_tokens")
    joined = found.join(again, on=keys, how="left", maintain_order="left")
    return _arrow(joined.with_columns(pl.col("recomputed_tokens").fill_null(0)))


def _arrow(frame: pl.DataFrame) -> pa.Table:
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())
