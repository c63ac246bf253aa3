"""trueput runs"""

from __future__ import annotations

from trueput.cli import options

ORDER = 20


def command(
    store: options.Store = None,
    slo: options.Slo = None,
    window: options.Window = "all",
    format_: options.Format = "table",
    output: options.Output = None,
) -> None:
    """List the runs in the store."""
    from trueput.cli.output import Grid, emit, grid_writers
    from trueput.verbs.runs import runs

    rows = runs(options.reading(store, slo, window))
    if not rows:
        options.say("the store holds no run yet: `trueput ingest PATH`")
    columns = list(rows[0]) if rows else ["run_id"]
    shown = [c for c in columns if format_ != "table" or any(r[c] is not None for r in rows)]
    right = frozenset(c for c in shown if any(isinstance(r[c], (int, float)) for r in rows))
    grid = Grid(shown, [[r[c] for c in shown] for r in rows], right=right)
    emit(grid_writers(grid), format_, output)
