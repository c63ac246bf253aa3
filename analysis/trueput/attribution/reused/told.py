"""What tells requests of reused ids apart: the ids that rows must have, and copies."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from trueput.source_api import Problem


@dataclass
class Told:
    """What tells the requests of reused ids apart."""

    ids: dict[tuple[str, Path], dict[int, str]] = field(default_factory=dict)
    """Table and part -> place of a row in it -> the id that the row must have."""
    copies: dict[tuple[str, Path], list[int]] = field(default_factory=dict)
    """Table and part -> places of rows that stand there twice; the copy is left out."""
    tied: dict[tuple[str, int], str] = field(default_factory=dict)
    """File and row_ix of records beside the engine -> request."""
    gone: set[tuple[str, int]] = field(default_factory=set)
    """File and row_ix of records beside the engine that are copies."""
    problems: list[Problem] = field(default_factory=list)

    def applied(self, tied: pl.DataFrame) -> pl.DataFrame:
        """Return request_links with the requests that records beside the engine are of."""
        keys = list(self.tied)
        mine = pl.DataFrame(
            {
                "source_id": [source for source, _ in keys],
                "row_ix": [row for _, row in keys],
                "mine": [self.tied[key] for key in keys],
            },
            schema={"source_id": pl.String, "row_ix": pl.Int64, "mine": pl.String},
        )
        gone = pl.DataFrame(
            list(self.gone), schema={"source_id": pl.String, "row_ix": pl.Int64}, orient="row"
        )
        on = ["source_id", "row_ix"]
        left = tied.join(gone, on=on, how="anti", maintain_order="left")
        named = left.join(mine, on=on, how="left", maintain_order="left")
        ids = pl.coalesce("mine", "request_id").alias("request_id")
        return named.with_columns(ids).drop("mine")
