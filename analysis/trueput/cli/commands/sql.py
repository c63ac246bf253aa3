"""trueput sql"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from trueput.cli import options
from trueput.errors import InputError, UsageError

ORDER = 60


def command(
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="SQL; `-` or nothing reads stdin.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", metavar="FILE", help="Read the SQL from a file.")
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option("--run", metavar="NAME", help="Only this run; may be repeated."),
    ] = None,
    store: options.Store = None,
    slo: options.Slo = None,
    window: options.Window = "all",
    format_: options.Format = "table",
    output: options.Output = None,
    int64: Annotated[
        str,
        typer.Option(
            "--int64", metavar="FORM", help="JSON integers beyond 2^53 as `number` or `string`."
        ),
    ] = "number",
) -> None:
    """Ask the store in SQL (DuckDB)."""
    from trueput.cli.output import Grid, emit, grid_writers
    from trueput.verbs.sql import sql

    if int64 not in {"number", "string"}:
        raise UsageError(f"--int64: `{int64}` is neither number nor string")
    answer = sql(_text(query, file), options.reading(store, slo, window), run)
    numeric = frozenset(
        name
        for name, kind in zip(answer.names, answer.types, strict=True)
        if any(word in kind.upper() for word in ("INT", "DOUBLE", "DECIMAL", "FLOAT", "NUMBER"))
    )
    grid = Grid(answer.names, answer.rows, right=numeric)
    emit(grid_writers(grid, int64), format_, output)


class KIND(TyperCommand):
    """The command, whose query may begin with a comment (`-- why`) and is no option then."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the arguments apart; raises what the parser raises."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            name = getattr(error, "option_name", None)
            at = next((i for i, word in enumerate(given) if _is_comment(word, name)), None)
            if at is None:
                raise
            return super().parse_args(ctx, [*given[:at], *given[at + 1 :], "--", given[at]])


def _is_comment(word: str, refused: str | None) -> bool:
    """Whether a word that was refused as this option is SQL: no option's name holds a blank."""
    name = word.partition("=")[0]
    return name == refused and ("\n" in word or any(letter.isspace() for letter in name))


def _text(query: str | None, file: Path | None) -> str:
    if file is not None:
        if query is not None:
            raise UsageError("give the SQL as an argument or with -f, not both")
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"`{file}`: cannot be read ({error})") from error
    if query is None or query == "-":
        if sys.stdin.isatty():
            raise UsageError("no SQL given", 'try `trueput sql "FROM goodput"`')
        return sys.stdin.read()
    return query
