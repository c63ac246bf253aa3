"""trueput gate"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from trueput.cli import options
from trueput.errors import InputError, TrueputError, UsageError, bug

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
    try:
        code = _judge_and_write(base, candidates, policy, (store, slo, window), format_, output)
    except (TrueputError, OSError):
        raise
    except Exception as error:
        _say_failure(bug(error), format_, output)
        raise
    raise typer.Exit(code)


def _judge_and_write(
    base: str,
    candidates: list[str],
    policy: Path | None,
    how: tuple[Path | None, str | None, str],
    format_: str,
    output: list[Path] | None,
) -> int:
    """Judge, write every form that was asked for, and return the exit code."""
    from trueput.cli.output import emit, escaped_json, out, printable_lines, rendered
    from trueput.cli.pages import gate_page
    from trueput.gate.render import to_annotations, to_json, to_junit, to_line, to_markdown
    from trueput.verbs.gate import gate

    try:
        result = gate(base, candidates, policy, options.reading(*how))
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
    return result.exit_code


def _say_failure(error: TrueputError, format_: str, output: Sequence[Path] | None) -> None:
    """Say in every form that was asked for that nothing was judged, and why.

    The message itself goes to stderr, as ever; where a file cannot be written, that is said too,
    and the others are.
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
    # the default format writes nothing to stdout beside files
    wanted: list[tuple[str, list[Path]]] = [("table", [path]) for path in output or ()]
    if format_ not in {"table", "csv"}:
        wanted.append((format_, []))
    for name, paths in wanted:
        try:
            emit(writers, name, paths)
        except TrueputError as second:
            options.say_error(second, "warning")
    if format_ == "github":
        _append_summary(writers["markdown"]())


class KIND(TyperCommand):
    """The command, which leaves word in the files of `-o` also where it cannot be understood."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the arguments apart; raises what the parser raises."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.Exit:
            raise
        except Exception as error:
            message = error.format_message() if hasattr(error, "format_message") else None
            told = error if isinstance(error, TrueputError) else UsageError(message or str(error))
            _say_failure(told, "table", outputs_of(given))
            raise


def outputs_of(arguments: Sequence[str]) -> list[Path]:
    """Return the files that `-o` and `--output` name among arguments that may be anything."""
    found: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            break
        if word in {"-o", "--output"}:
            found.append(next(words, ""))
        elif word.startswith("--output="):
            found.append(word.removeprefix("--output="))
        elif word.startswith("-o") and len(word) > 2:
            found.append(word[2:])
    return [Path(name) for name in found if name]


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
