"""trueput gate"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from trueput.cli import options

ORDER = 50
FORMATS = (*options.FORMATS, "junit", "github")
_SUMMARY_LIMIT = 1_000_000
"""Bytes of a step summary: GitHub drops one of more than a mebibyte."""


def _offered(name: str) -> str:
    return options.offered(name, FORMATS)


Format = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="NAME",
        callback=_offered,
        help="table, json, csv, markdown, junit, or github (annotations and step summary).",
    ),
]


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
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Policy file (TOML).")
    ] = None,
    store: options.Store = None,
    slo: options.Slo = None,
    window: options.Window = "all",
    format_: Format = "table",
    output: options.Output = None,
) -> None:
    """Judge candidates against a baseline; the exit code is the verdict."""
    from trueput.cli.output import emit, escaped_json, printable_lines, rendered
    from trueput.cli.pages import gate_page
    from trueput.gate.render import to_annotations, to_json, to_junit, to_markdown
    from trueput.verbs.gate import gate

    result = gate(base, candidates, policy, options.reading(store, slo, window))

    def draw(target: object) -> None:
        gate_page.draw(target, result)  # type: ignore[arg-type]  # a rich console

    writers = {
        "table": lambda: rendered(draw),
        "json": lambda: escaped_json(to_json(result)),
        "markdown": lambda: printable_lines(to_markdown(result)),
        "csv": lambda: gate_page.to_csv(result),
        "junit": lambda: to_junit(result),
        "github": lambda: to_annotations(result),
    }
    emit(writers, format_, output, draw)
    if format_ == "github":
        _append_summary(writers["markdown"]())
    raise typer.Exit(result.exit_code)


def _append_summary(text: str) -> None:
    """Append to the step's summary where GitHub says it is; a verdict never hangs on it."""
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if not place:
        return
    whole = text.encode("utf-8", "backslashreplace")
    kept = whole[:_SUMMARY_LIMIT].decode("utf-8", "ignore")
    if len(whole) > _SUMMARY_LIMIT:
        kept += "\n\nCut here: a step summary holds no more. `-o gate.md` writes the whole.\n"
    try:
        with Path(place).open("a", encoding="utf-8") as stream:
            stream.write(kept)
    except OSError as error:
        options.say(f"warning: $GITHUB_STEP_SUMMARY cannot be written ({error.strerror})")
