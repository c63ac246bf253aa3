"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trueput.errors import QueryError, TrueputError, UsageError

if TYPE_CHECKING:
    from trueput.verbs.opening import Reading

FORMATS = ("table", "json", "csv", "markdown")


def offered(name: str, formats: Sequence[str] = FORMATS) -> str:
    """Return a format's name, before any work is done for one that does not exist."""
    if name not in formats:
        raise UsageError(
            f"--format: `{name}` is not offered here", "choose one of " + ", ".join(formats)
        )
    return name


def _offered(name: str) -> str:
    return offered(name)


Store = Annotated[
    Path | None,
    typer.Option(
        "--store", metavar="DIR", help="Store folder (default: $TRUEPUT_STORE, else ./.trueput)."
    ),
]
Slo = Annotated[
    str | None,
    typer.Option("--slo", metavar="LIMITS", help="Objective, e.g. ttft=500ms,tpot=50ms,e2e=10s."),
]
Window = Annotated[
    str,
    typer.Option(
        "--window", metavar="RULE", help="all, steady, or fixed:FROM..TO (from the first send)."
    ),
]
Format = Annotated[
    str,
    typer.Option(
        "--format", metavar="NAME", callback=_offered, help="table, json, csv or markdown."
    ),
]
Output = Annotated[
    list[Path] | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Write to a file; its suffix, or NAME= before it, names the format. Repeatable.",
    ),
]


def reading(store: Path | None, slo: str | None = None, window: str = "all") -> Reading:
    """Return how runs are to be read, with notes on stderr and a progress bar on a terminal."""
    from trueput.slo import parse_slo
    from trueput.verbs.opening import Reading
    from trueput.warehouse.connect import parse_window

    parse_window(window)
    if slo is not None:
        parse_slo(slo)
    return Reading(store=store, slo=slo, window=window, note=say, progress=progress_bar())


def say(text: str) -> None:
    """Say something that is not data, in one line on stderr.

    A name may hold anything: line breaks and control characters are escaped, so that none drives
    the terminal or begins a line that a CI runner would obey.
    """
    from trueput.cli.output import inert, printable

    sys.stderr.write(f"{inert(printable(text))}\n")


def say_error(error: TrueputError, level: str = "error") -> None:
    """Say what went wrong, and the hint in a paragraph of its own.

    Only what a database says of a query has lines of its own.
    """
    first, *more = error.message.split("\n") if isinstance(error, QueryError) else [error.message]
    say(f"{level}: {first}")
    for line in more:
        say(line)
    if error.hint:
        say("")
        say(f"hint: {error.hint}")


def progress_bar() -> Any:
    """Return a progress function that draws a bar on a terminal, None elsewhere."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from trueput.cli.output import printable

    bar = Progress(
        TextColumn("reading"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[file]}", markup=False),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("read", total=None, file="")

    def note(name: str, done: int, total: int) -> None:
        if not bar.live.is_started:
            bar.start()
        bar.update(task, completed=done, total=total, file=printable(name)[-50:])
        if done >= total:
            bar.stop()

    return note
