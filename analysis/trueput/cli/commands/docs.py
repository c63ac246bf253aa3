"""trueput docs: writes or checks the generated pages of a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trueput.cli import options
from trueput.errors import ExitCode

ORDER = 900
HIDDEN = True


def command(
    check: Annotated[bool, typer.Option("--check", help="Only say which pages are stale.")] = False,
    root: Annotated[Path, typer.Option("--root", help="Root of the checkout.")] = Path(),
) -> None:
    """Write the generated reference pages of a checkout."""
    from trueput.cli.reference import cli_reference
    from trueput.docs import pages, stale

    text = cli_reference()
    if check:
        old = stale(root, text)
        for name in old:
            options.say(f"stale: {name} (write it with `trueput docs`)")
        if old:
            raise typer.Exit(int(ExitCode.FLAGGED))
        return
    for name, page in pages(text).items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page, encoding="utf-8")
