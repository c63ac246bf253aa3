"""trueput noise"""

from __future__ import annotations

from typing import Annotated

import typer

from trueput.cli import options

ORDER = 110


def command(
    runs: Annotated[list[str], typer.Argument(help="Repeats of one configuration.")],
    store: options.Store = None,
    slo: options.Slo = None,
    window: options.Window = "all",
    format_: options.Format = "table",
    output: options.Output = None,
) -> None:
    """Measure run-to-run variation of repeats, as lines for a policy."""
    from dataclasses import asdict

    from trueput.cli.output import Grid, emit, grid_writers, to_json
    from trueput.verbs.noise import noise

    found = noise(runs, options.reading(store, slo, window))
    columns = ["metric", "unit", "mean", "log_sd", "runs"]
    rows = [list(asdict(v).values()) for v in found.variations]
    writers = grid_writers(Grid(columns, rows, right=frozenset({"mean", "log_sd", "runs"})))
    writers["json"] = lambda: to_json(asdict(found))
    emit(writers, format_, output)
    if format_ == "table":
        options.say("for the policy:\n" + "\n".join(found.policy_lines))
