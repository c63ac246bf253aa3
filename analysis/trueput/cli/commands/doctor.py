"""trueput doctor"""

from __future__ import annotations

from typing import Annotated

import typer

from trueput.cli import options

ORDER = 100


def command(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A path, or a run of the store.")],
    store: options.Store = None,
    slo: options.Slo = None,
    window: options.Window = "all",
    format_: options.Format = "table",
    output: options.Output = None,
) -> None:
    """Say what a folder can prove, and which switch would let it prove more."""
    from dataclasses import asdict

    from trueput.cli.output import emit, rendered, to_csv, to_json, to_markdown
    from trueput.cli.pages import doctor_page
    from trueput.verbs.doctor import doctor

    found = doctor(path, options.reading(store, slo, window))

    def draw(target: object) -> None:
        doctor_page.draw(target, found)  # type: ignore[arg-type]  # a rich console

    writers = {
        "table": lambda: rendered(draw),
        "json": lambda: to_json([asdict(d) for d in found]),
        "csv": lambda: to_csv(doctor_page.evidence_grid(found)),
        "markdown": lambda: to_markdown(doctor_page.evidence_grid(found)),
    }
    emit(writers, format_, output, draw)
