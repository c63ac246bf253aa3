"""trueput policy init, trueput policy check"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trueput.cli import options

ORDER = 55
SUMMARY = "Write a commented policy of the gate, or check one."


def init(
    path: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Where to write it (default: gate.toml).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
) -> None:
    """Write a commented policy that sets nothing."""
    from trueput.verbs import policy

    options.say(f"wrote `{policy.init(path, force)}`")


def check(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Policy file (TOML).")],
    format_: options.Format = "table",
    output: options.Output = None,
) -> None:
    """Read a policy and say what it holds a candidate to."""
    from dataclasses import asdict

    from trueput.cli.output import Grid, emit, grid_writers, to_json
    from trueput.verbs import policy

    found = policy.check(path)
    for note in found.notes:
        options.say(f"{note.level}: {note.text}")
    writers = grid_writers(Grid(("setting", "value"), found.settings))
    rows = [{"setting": name, "value": value} for name, value in found.settings]
    writers["json"] = lambda: to_json({"settings": rows, "notes": [asdict(n) for n in found.notes]})
    emit(writers, format_, output)


COMMANDS = {"init": init, "check": check}
