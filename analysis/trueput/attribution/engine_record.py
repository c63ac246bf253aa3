"""The engine's own record of one run -> recompute, its victims, and the cost of a step.

Gathers iterations, streams, limits and counters from the run's parts and gives them to the pure
functions of this package; writes their results as rows of the derived tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from trueput.clock import ClockFit
from trueput.source_api import Problem

Row = dict[str, Any]


def attribute_engine(
    run_id: str,
    parts: Mapping[str, Sequence[Path]],
    config: Mapping[str, Any],
    tied: pl.DataFrame,
    fits: Mapping[str, ClockFit],
    rows: dict[str, Any],
    problems: list[Problem],
) -> None:
    """Add the derived rows of recompute to `rows`."""
    return
