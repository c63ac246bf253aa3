"""trueput sources"""

from __future__ import annotations

from trueput.cli import options

ORDER = 90


def command(format_: options.Format = "table", output: options.Output = None) -> None:
    """List the formats that trueput reads."""
    from trueput.cli.output import Grid, emit, grid_writers
    from trueput.verbs.sources import sources

    columns = ["name", "what it is", "versions", "what it proves", "how to get it"]
    rows = [[s.name, s.title, s.versions, s.proves, s.turn_on] for s in sources()]
    emit(grid_writers(Grid(columns, rows)), format_, output)
