"""trueput sweep"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trueput.cli import options

if TYPE_CHECKING:
    from trueput.verbs.sweep import Sweep

ORDER = 52


def command(
    base: Annotated[
        str,
        typer.Argument(
            metavar="BASE", help="Baseline: run, path, repeats with commas, @NAME or @last:K."
        ),
    ],
    configs: Annotated[
        list[str],
        typer.Argument(
            metavar="CONFIG", help="Configurations, or the folder of a `vllm bench sweep`."
        ),
    ],
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Policy file (TOML).")
    ] = None,
    rung: Annotated[
        str | None,
        typer.Option(
            "--rung", metavar="NAME", help="What activity means (default: the best shared rung)."
        ),
    ] = None,
    store: options.Store = None,
    slo: options.Slo = None,
    window: options.Window = "all",
    format_: options.Format = "table",
    output: options.Output = None,
) -> None:
    """Set many configurations against one baseline; -o FILE.html, .svg or .png draws them."""
    from dataclasses import asdict

    from trueput.cli.output import emit, rendered, to_csv, to_json
    from trueput.cli.pages import sweep_page
    from trueput.verbs.sweep import sweep

    found = sweep(base, configs, policy, options.reading(store, slo, window), rung)

    def page(target: object) -> None:
        sweep_page.draw(target, found)  # type: ignore[arg-type]  # a rich console

    shown = {k: v for k, v in asdict(found).items() if k != "result"}
    writers = {
        "table": lambda: rendered(page),
        "json": lambda: to_json(shown),
        "csv": lambda: to_csv(sweep_page.plain_grid(found)),
        "markdown": lambda: sweep_page.markdown(found),
        "html": lambda: _picture(found, "html"),
        "svg": lambda: _picture(found, "svg"),
        "png": lambda: _picture(found, "png"),
    }
    emit(writers, format_, output, page)
    if output or format_ == "csv":
        for note in found.notes:
            options.say(f"{note.level}: {note.text}")


def _picture(found: Sweep, form: str) -> str | bytes:
    from trueput.cli.pages.sweep_page import counted, points
    from trueput.report import sweep_chart

    title = f"{counted(len(found.rows))} against {found.baseline}"
    notes = [f"{note.level}: {note.text}" for note in found.notes]
    picture = sweep_chart.Picture(title, found.rung, found.slo, points(found), notes)
    if form == "png":
        return sweep_chart.png(picture)
    return sweep_chart.html(picture) if form == "html" else sweep_chart.svg(picture)
