"""trueput explain"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from trueput.cli import options

if TYPE_CHECKING:
    from rich.console import Console

ORDER = 120


def command(
    term: Annotated[
        str | None,
        typer.Argument(metavar="TERM", help="A term, rule, problem code, verdict, table or view."),
    ] = None,
    format_: options.Format = "table",
    output: options.Output = None,
) -> None:
    """Explain a word of trueput."""
    from dataclasses import asdict

    from rich.text import Text

    from trueput.cli.output import Grid, emit, grid_writers, printable, rendered, to_json
    from trueput.verbs.explain import explain

    found = explain(term)
    if term is None:
        grid = Grid(["term", "kind", "meaning"], [[e.term, e.kind, e.text] for e in found])
        emit(grid_writers(grid), format_, output)
        return
    entry = found[0]
    lines = [f"{entry.term} ({entry.kind})", "", entry.text]
    lines += [f"formula: {entry.formula}"] if entry.formula else []
    lines += ["", f"what to do: {entry.remedy}"] if entry.remedy else []
    lines += [f"elsewhere: {entry.elsewhere}"] if entry.elsewhere else []

    def page(target: Console) -> None:
        for line in lines:
            target.print(Text(printable(line)))

    grid = Grid(list(asdict(entry)), [list(asdict(entry).values())])
    writers = grid_writers(grid)
    writers["table"] = lambda: rendered(page)
    writers["json"] = lambda: to_json(asdict(entry))
    emit(writers, format_, output)
