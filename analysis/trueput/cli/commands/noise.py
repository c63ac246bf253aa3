"""trueput noise"""

from __future__ import annotations

from typing import Annotated

import typer

from trueput.cli import options

ORDER = 110


def command(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Repeats of one configuration.")],
    store: options.Store = None,
    slo: options.Slo = None,
    window: options.Window = "all",
    format_: options.Format = "table",
    output: options.Output = None,
) -> None:
    """Measure run-to-run variation of repeats, as lines for a policy."""
    from dataclasses import asdict

    from trueput.cli.output import (
        Grid,
        emit,
        grid_writers,
        print_grid,
        printable,
        rendered,
        to_json,
    )
    from trueput.units import ns_text
    from trueput.verbs.noise import noise

    found = noise(runs, options.reading(store, slo, window))
    columns = ["metric", "unit", "mean", "log_sd", "runs"]
    rows = [list(asdict(v).values()) for v in found.variations]
    right = frozenset({"mean", "log_sd", "runs"})
    people = [
        [v.metric, "" if v.unit == "ns" else v.unit,
         ns_text(round(v.mean)) if v.unit == "ns" else v.mean, v.log_sd, v.runs]
        for v in found.variations
    ]  # fmt: skip
    lines = (
        ["", "for the policy:", "", *map(printable, found.policy_lines)]
        if found.policy_lines
        else []
    )
    writers = grid_writers(Grid(columns, rows, right=right))
    writers["table"] = lambda: (
        rendered(lambda c: print_grid(c, Grid(columns, people, right=right)))
        + "".join(f"{line}\n" for line in lines)
    )
    writers["json"] = lambda: to_json(asdict(found))
    emit(writers, format_, output)
