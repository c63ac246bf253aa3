"""trueput baseline set, accept, list, remove"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from trueput.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trueput.verbs.baseline import Entry

ORDER = 57
SUMMARY = "Name baselines, and accept runs for `@last:K`."


def set_(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, used as `@NAME`.")],
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Its runs or paths.")],
    store: options.Store = None,
    format_: options.Format = "table",
    output: options.Output = None,
) -> None:
    """Make runs the baseline `@NAME`, in place of what it was."""
    from trueput.verbs import baseline

    _print(baseline.set_(name, runs, options.reading(store)), format_, output)


def accept(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run or path, or repeats.")],
    store: options.Store = None,
    format_: options.Format = "table",
    output: options.Output = None,
) -> None:
    """Accept a run as the newest of its configuration, for `@last:K`."""
    from trueput.verbs import baseline

    _print(baseline.accept(run, options.reading(store)), format_, output)


def list_(
    store: options.Store = None,
    format_: options.Format = "table",
    output: options.Output = None,
) -> None:
    """List the runs of every baseline, then the accepted ones."""
    from trueput.verbs import baseline

    entries = baseline.list_(options.reading(store))
    if not entries:
        options.say("no baseline yet: `trueput baseline set NAME RUN...`")
    _print(entries, format_, output)


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="`@NAME`, or an accepted run.")],
    store: options.Store = None,
) -> None:
    """Forget a baseline or an accepted run; its data stays in the store."""
    from trueput.verbs import baseline

    gone = baseline.remove(name, options.reading(store))
    options.say(f"no longer a baseline: {', '.join(dict.fromkeys(gone))}")


def _print(entries: Sequence[Entry], format_: str, output: options.Output) -> None:
    from dataclasses import astuple

    from trueput.cli.output import Grid, emit, grid_writers

    columns = ("baseline", "run", "state", "key", "at")
    grid = Grid(columns, [astuple(entry) for entry in entries], spare=("at", "key"))
    emit(grid_writers(grid), format_, output)


COMMANDS = {"set": set_, "accept": accept, "list": list_, "remove": remove}
