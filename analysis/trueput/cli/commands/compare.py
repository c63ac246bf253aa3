"""trueput compare"""

from __future__ import annotations

from typing import Annotated

import typer

from trueput.cli import options

ORDER = 40


def command(
    base: Annotated[
        str,
        typer.Argument(
            metavar="BASE", help="Baseline: run, path, repeats with commas, @NAME or @last:K."
        ),
    ],
    candidates: Annotated[
        list[str],
        typer.Argument(metavar="CANDIDATE", help="Candidates, each one configuration."),
    ],
    store: options.Store = None,
    slo: options.Slo = None,
    window: options.Window = "all",
    format_: options.Format = "table",
    output: options.Output = None,
) -> None:
    """Set configurations side by side."""
    from dataclasses import asdict

    from trueput.cli.output import Grid, emit, rendered, to_csv, to_json
    from trueput.cli.pages.compare_page import draw, markdown
    from trueput.verbs.compare import compare

    found = compare(base, candidates, options.reading(store, slo, window))

    def page(target: object) -> None:
        draw(target, found)  # type: ignore[arg-type]  # a rich console

    flat = [["/".join(c.candidate.runs), *asdict(line).values()] for c in found for line in c.lines]
    names = ["candidate", *asdict(found[0].lines[0])]
    names[3:5] = ["baseline", "candidate_value"]
    writers = {
        "table": lambda: rendered(page),
        "json": lambda: to_json([asdict(c) for c in found]),
        "csv": lambda: to_csv(Grid(names, flat)),
        "markdown": lambda: "\n".join(markdown(c) for c in found),
    }
    emit(writers, format_, output, page)
    if output or format_ == "csv":
        for text in dict.fromkeys(f"{n.level}: {n.text}" for c in found for n in c.notes):
            options.say(text)
