"""The demo on a page: what was asked, what trueput says, and what to try next."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from trueput.cli.pages import gate_page, show_page
from trueput.cli.pages.layout import heading, say

if TYPE_CHECKING:
    from rich.console import Console

    from trueput.verbs.demo import Story


def draw(console: Console, story: Story) -> None:
    """Tell the story of the sample runs and end with three commands to try."""
    heading(console, "1. One run, taken apart", "real vLLM 0.32 on a CPU, --max-num-seqs 24")
    show_page.draw(console, story.candidate)
    heading(console, "2. Did raising --max-num-seqs from 3 to 24 buy anything?", "two runs each")
    gate_page.draw(console, story.regression)
    heading(
        console, "3. The control", "other load, --max-num-seqs 4 to 16: preemptions, and better"
    )
    gate_page.draw(console, story.control)
    data = os.path.relpath(story.data)
    heading(console, "Try next")
    for line in (
        f"trueput show {data}/regress_candidate --slo ttft=5000ms,tpot=25ms",
        f"trueput doctor {data}/regress_baseline",
        'trueput sql "FROM gpu_ledger"',
    ):
        say(console, line)
