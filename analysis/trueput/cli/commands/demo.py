"""trueput demo"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trueput.cli import options

ORDER = 130


def command(
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Folder of the sample runs.")
    ] = None,
    store: options.Store = None,
) -> None:
    """Tell the whole story on recorded sample runs, in under a minute."""
    from trueput.cli.output import emit, rendered
    from trueput.cli.pages import demo_page
    from trueput.verbs.demo import demo

    story = demo(data, options.reading(store))

    def draw(target: object) -> None:
        demo_page.draw(target, story)  # type: ignore[arg-type]  # a rich console

    emit({"table": lambda: rendered(draw)}, "table", draw=draw)
