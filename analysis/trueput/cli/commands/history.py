"""trueput history"""

from __future__ import annotations

from typing import Annotated

import typer

from trueput.cli import options

ORDER = 58


def command(
    which: Annotated[
        str | None,
        typer.Argument(metavar="SERIES", help="Key of a series, or a run of it (default: all)."),
    ] = None,
    store: options.Store = None,
    slo: options.Slo = None,
    window: options.Window = "all",
    format_: options.Format = "table",
    output: options.Output = None,
) -> None:
    """Show the nights of a series, and where its level changed."""
    from dataclasses import asdict

    from trueput.cli.output import emit, rendered, to_csv, to_json, to_markdown
    from trueput.cli.pages import history_page
    from trueput.verbs.history import history

    found = history(which, options.reading(store, slo, window))
    if not found:
        options.say("the store holds no readable run yet: `trueput ingest PATH`")

    def page(target: object) -> None:
        history_page.draw(target, found)  # type: ignore[arg-type]  # a rich console

    writers = {
        "table": lambda: rendered(page),
        "json": lambda: to_json([asdict(series) for series in found]),
        "csv": lambda: to_csv(history_page.nights_grid(found)),
        "markdown": lambda: "\n".join(to_markdown(g) for g in history_page.grids(found)),
    }
    emit(writers, format_, output, page)
