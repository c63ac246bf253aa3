"""trueput tables"""

from __future__ import annotations

from typing import Annotated

import typer

from trueput.cli import options

ORDER = 80


def command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A table or view.")] = None,
    format_: options.Format = "table",
    output: options.Output = None,
) -> None:
    """List tables and views, or the columns of one."""
    from trueput.cli.output import Grid, emit, grid_writers
    from trueput.verbs.sql import tables

    found = tables(name)
    if name is None:
        grid = Grid(["name", "kind", "one row per"], [[t.name, t.kind, t.doc] for t in found])
    else:
        columns = ["column", "type", "unit", "NULL means", "what it is"]
        rows = [
            [
                c.name,
                c.storage,
                c.shown_unit or None,
                c.null_means if c.null else "never NULL",
                c.doc,
            ]
            for c in found[0].columns
        ]
        grid = Grid(columns, rows, title=found[0].doc)
    emit(grid_writers(grid), format_, output)
