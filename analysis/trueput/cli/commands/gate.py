"""trueput gate"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trueput.cli import options

ORDER = 50


def command(
    base: Annotated[
        str, typer.Argument(metavar="BASE", help="Baseline: a run, a path, or repeats with commas.")
    ],
    candidates: Annotated[
        list[str],
        typer.Argument(metavar="CANDIDATE", help="Candidates, each one configuration."),
    ],
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Policy file (TOML).")
    ] = None,
    store: options.Store = None,
    slo: options.Slo = None,
    window: options.Window = "all",
    format_: options.Format = "table",
    output: options.Output = None,
) -> None:
    """Judge candidates against a baseline; the exit code is the verdict."""
    from trueput.cli.output import emit, escaped_json, printable_lines, rendered
    from trueput.cli.pages import gate_page
    from trueput.gate.render import to_json, to_markdown
    from trueput.verbs.gate import gate

    result = gate(base, candidates, policy, options.reading(store, slo, window))

    def draw(target: object) -> None:
        gate_page.draw(target, result)  # type: ignore[arg-type]  # a rich console

    writers = {
        "table": lambda: rendered(draw),
        "json": lambda: escaped_json(to_json(result)),
        "markdown": lambda: printable_lines(to_markdown(result)),
        "csv": lambda: gate_page.to_csv(result),
    }
    emit(writers, format_, output, draw)
    raise typer.Exit(result.exit_code)
