"""trueput ingest"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from trueput.cli import options

ORDER = 10
SETTINGS = {
    "POLARS_MAX_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""What three libraries read when they are loaded. An ingest works in small blocks: idle threads
and a further pool of memory would cost time and memory and give nothing."""


def command(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Files, run folders, or folders of them."),
    ],
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="NAME", help="Name of the run (makes one run of all paths)."),
    ] = None,
    store: options.Store = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Read again; replace a run of that name from another path."),
    ] = False,
    format_: options.Format = "table",
) -> None:
    """Read logs, results and metrics into the store."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    from trueput.cli.output import Grid, emit, grid_writers
    from trueput.verbs.ingest import ingest

    passed: list[Path] = []
    done = ingest(paths, run, store, replace, options.progress_bar(), passed)
    columns = ["run", "state", "files", "requests", "iterations", "samples", "problems", "unread"]
    rows = [
        [
            d.run_id,
            d.state,
            None if d.state == "unchanged" else d.files,
            d.rows.get("requests"),
            d.rows.get("engine_steps"),
            _together(d.rows.get("engine_samples"), d.rows.get("gpu_samples")),
            None if d.state == "unchanged" else d.problems,
            len(d.unclaimed) + len(d.copies),
        ]
        for d in done
    ]
    grid = Grid(columns, rows, right=frozenset(columns[2:]), spare=("samples", "iterations"))
    emit(grid_writers(grid), format_)
    for path in passed:
        inside = "nothing in it is" if path.is_dir() else "not"
        options.say(f"`{path}`: {inside} of a known format, not read")
    for d in done:
        if d.unclaimed:
            options.say(f"`{d.run_id}`: of no known format, not read: {', '.join(d.unclaimed)}")
        if d.copies:
            options.say(f"`{d.run_id}`: copies of other files, not read: {', '.join(d.copies)}")
        if d.state == "unchanged":
            options.say(f"`{d.run_id}`: the same bytes as before, nothing changed")
        if not d.usable:
            options.say(f"`{d.run_id}`: too little of it could be read; see `trueput doctor`")
    if any(d.state != "unchanged" for d in done):
        options.say("what these files can and cannot tell: `trueput doctor RUN`")


def _together(*counts: int | None) -> int | None:
    """Return the sum of the counts that there are, None without any."""
    known = [n for n in counts if n is not None]
    return sum(known) if known else None
