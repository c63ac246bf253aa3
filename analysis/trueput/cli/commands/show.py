"""trueput show"""

from __future__ import annotations

from typing import Annotated

import typer

from trueput.cli import options
from trueput.errors import ExitCode

ORDER = 30


def command(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="A run of the store, or a path (ingested when new)."),
    ],
    store: options.Store = None,
    slo: options.Slo = None,
    window: options.Window = "all",
    format_: options.Format = "table",
    output: options.Output = None,
) -> None:
    """Show one run: outcomes, goodput, phases, recompute, engine time, evidence."""
    from trueput.cli.output import emit, rendered, to_json
    from trueput.cli.pages import show_page
    from trueput.verbs.show import show

    found = show(run, options.reading(store, slo, window))

    def draw(target: object) -> None:
        show_page.draw(target, found, window)  # type: ignore[arg-type]  # a rich console

    writers = {
        "table": lambda: rendered(draw),
        "json": lambda: to_json(found),
        "markdown": lambda: show_page.to_markdown(found),
        "csv": lambda: show_page.to_csv(found),
    }
    emit(writers, format_, output, draw)
    if not all(r["usable"] for r in found["runs"]):
        raise typer.Exit(int(ExitCode.UNUSABLE))
