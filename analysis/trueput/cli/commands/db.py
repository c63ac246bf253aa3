"""trueput db"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trueput.cli import options

ORDER = 70


def command(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="DuckDB file to write.")
    ] = Path("trueput.duckdb"),
    store: options.Store = None,
    slo: options.Slo = None,
    window: options.Window = "all",
) -> None:
    """Write a .duckdb file with every table and view over the store."""
    from trueput.verbs.sql import db

    path = db(output, options.reading(store, slo, window))
    options.say(f"open it with any DuckDB client: `{path}`")
