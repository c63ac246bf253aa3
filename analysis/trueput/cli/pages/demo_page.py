"""The demo on a page: what was asked, what trueput says, and what to try next."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trueput.cli.output import printable
from trueput.cli.pages import gate_page, show_page
from trueput.cli.pages.layout import heading

if TYPE_CHECKING:
    from rich.console import Console

    from trueput.verbs.demo import Story


def draw(console: Console, story: Story) -> None:
    """Tell the story of the sample runs and end with three commands to try."""
    from rich.text import Text

    heading(console, "1. One run, taken apart", "real vLLM 0.32 on a CPU, --max-num-seqs 24")
    show_page.draw(console, story.candidate)
    heading(console, "2. Did raising --max-num-seqs from 3 to 24 buy anything?", "two runs each")
    gate_page.draw(console, story.regression)
    heading(
        console, "3. The control", "other load, --max-num-seqs 4 to 16: preemptions, and better"
    )
    gate_page.draw(console, story.control)
    heading(console, "Try next")
    data, program = os.path.relpath(story.data), called_as(sys.argv[0])
    kept = "" if story.store is None else f" --store {shlex.quote(str(story.store))}"
    for line in (
        f"show {shlex.quote(f'{data}/regress_candidate')} --slo ttft=5000ms,tpot=25ms",
        f"doctor {shlex.quote(f'{data}/regress_baseline')}",
        'sql "FROM gpu_ledger"',
    ):
        # a command is copied whole: it is not broken over lines
        console.print(Text(printable(f"  {program} {line}{kept}")), soft_wrap=True)


def called_as(argument: str) -> str:
    """Return what runs this program from the current folder, as its own first argument tells.

    Its name where a shell finds that, else the path by which it was called.
    """
    called = Path(argument)
    if called.name == "__main__.py":
        python = Path(sys.executable)
        known = shutil.which(python.name) == str(python)
        return f"{shlex.quote(python.name if known else str(python))} -m trueput"
    found = shutil.which(called.name)
    by_path = called.name != argument and called.exists()
    if by_path and not (found and called.samefile(found)):
        return shlex.quote(argument)
    return called.name
