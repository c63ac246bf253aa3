"""The iterations that an engine's log printed, with what was computed again in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from trueput.arrow import arrow_schema

if TYPE_CHECKING:
    import polars as pl

KEYS = ["source_id", "engine", "incarnation", "step_ix"]
PRINTED = "logged_at_ns"
ELAPSED = "elapsed_ns"
SCHEDULED = ["context_requests", "context_tokens", "generation_requests", "generation_tokens"]


def log_iterations(parts: Mapping[str, Sequence[Path]], work: Any) -> pa.Table:
    """Return the iterations in order: source_id, engine, incarnation, step_ix, when they were
    printed (logged_at_ns, on the clock of the log), how long they took, what was scheduled,
    and recomputed_tokens from `work` (step_work as a frame; without one there are no rows: a log
    too long to replay cannot say what was computed again)."""
    if not parts.get("engine_steps"):
        # most profiles stand alone: no frames are needed for nothing
        known = arrow_schema("engine_steps")
        fields = [
            pa.field(name, known.field(name).type) for name in [*KEYS, PRINTED, ELAPSED, *SCHEDULED]
        ]
        return pa.schema([*fields, pa.field("recomputed_tokens", pa.int64())]).empty_table()
    import polars as pl

    found = _printed(parts)
    if not isinstance(work, pl.DataFrame):
        return _arrow(found.clear().with_columns(pl.lit(0).alias("recomputed_tokens")))
    again = work.select(*KEYS, "recomputed_tokens")
    joined = found.join(again, on=KEYS, how="left", maintain_order="left")
    return _arrow(joined.with_columns(pl.col("recomputed_tokens").fill_null(0)))


def printed_iterations(parts: Mapping[str, Sequence[Path]]) -> pa.Table:
    """Return the iterations as `log_iterations`, before anything says what was computed again."""
    return _arrow(_printed(parts))


def _printed(parts: Mapping[str, Sequence[Path]]) -> pl.DataFrame:
    import polars as pl

    from trueput.attribution.requests.tying import scan

    steps = scan(parts, "engine_steps").filter(~pl.col("dummy") & pl.col("step_ix").is_not_null())
    return (
        steps.select([*KEYS, PRINTED, ELAPSED, *SCHEDULED])
        .unique(KEYS, keep="first")
        .sort(KEYS)
        .collect()
    )


def _arrow(frame: pl.DataFrame) -> pa.Table:
    import polars as pl

    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())
