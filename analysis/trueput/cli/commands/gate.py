"""trueput gate"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from trueput.cli import options
from trueput.errors import InputError, TrueputError

ORDER = 50
FORMATS = (*options.FORMATS, "junit", "github")
_STDOUT = {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}
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
    from trueput.cli.output import emit, escaped_json, out, printable_lines, rendered
    from trueput.cli.pages import gate_page
    from trueput.gate.render import to_annotations, to_json, to_junit, to_line, to_markdown
    from trueput.verbs.gate import gate

    try:
        result = gate(base, candidates, policy, options.reading(store, slo, window))
    except TrueputError as error:
        _say_failure(error, format_, output)
        raise
    except OSError as error:
        where = f"`{error.filename}`: " if error.filename else ""
        _say_failure(InputError(f"{where}{error.strerror or error}"), format_, output)
        raise

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
    silent = bool(output) and format_ == "table"
    if silent and not any(os.fspath(p).rpartition("=")[2] in _STDOUT for p in output or ()):
        out(to_line(result))
    if silent or format_ == "csv":
        for note in result.notes:
            options.say(f"{note.level}: {note.text}")
    if format_ == "github":
        _append_summary(writers["markdown"]())
    raise typer.Exit(result.exit_code)


def _say_failure(error: TrueputError, format_: str, output: list[Path] | None) -> None:
    """Say in every form that was asked for that nothing was judged, and why.

    The message itself goes to stderr, as ever; where a file cannot be written, that is said too.
    """
    from trueput.cli.output import emit, escaped_json, printable_lines
    from trueput.cli.pages import gate_page
    from trueput.gate import render

    writers: dict[str, Callable[[], str]] = {
        "table": lambda: printable_lines(render.failure_text(error)),
        "json": lambda: escaped_json(render.failure_json(error)),
        "markdown": lambda: printable_lines(render.failure_markdown(error)),
        "csv": gate_page.empty_csv,
        "junit": lambda: render.failure_junit(error),
        "github": lambda: render.failure_annotations(error),
    }
    try:
        if output:  # the default format writes nothing to stdout beside files
            emit(writers, "table", output)
        if format_ not in {"table", "csv"}:
            emit(writers, format_)
    except TrueputError as second:
        options.say(f"warning: {second}")
    if format_ == "github":
        _append_summary(writers["markdown"]())


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
