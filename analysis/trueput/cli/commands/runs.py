"""trueput runs"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trueput.cli import options

if TYPE_CHECKING:
    from trueput.cli.output import Grid

ORDER = 20


def command(
    store: options.Store = None,
    slo: options.Slo = None,
    window: options.Window = "all",
    format_: options.Format = "table",
    output: options.Output = None,
) -> None:
    """List the runs in the store."""
    from trueput.cli.output import Grid, emit, grid_writers, print_grid, rendered
    from trueput.verbs.runs import runs

    rows = runs(options.reading(store, slo, window))
    if not rows:
        options.say("the store holds no run yet: `trueput ingest PATH`")
    columns = list(rows[0]) if rows else ["run_id"]
    right = frozenset(c for c in columns if any(isinstance(r[c], (int, float)) for r in rows))
    grid = Grid(columns, [[r[c] for c in columns] for r in rows], right=right)
    writers = grid_writers(grid)
    writers["table"] = lambda: rendered(lambda c: print_grid(c, _page(rows)))
    emit(writers, format_, output)


def _complete(row: Mapping[str, Any]) -> str | None:
    """Return how many of the planned requests are complete; a range where files leave it open."""
    low, high = row["complete_requests_low"], row["complete_requests_high"]
    if low is None:
        return None
    told = f"{low}" if low == high else f"{low} to {high}"
    return told if row["planned_requests"] is None else f"{told} of {row['planned_requests']}"


def _page(rows: Sequence[Mapping[str, Any]]) -> Grid:
    """Return the runs for people: what fits beside each other, in words that wrap."""
    from trueput.cli.output import Grid
    from trueput.cli.pages.layout import rate

    cells = [
        [
            r["run_id"],
            r["session"],
            " ".join(str(r[k]) for k in ("engine", "engine_version") if r[k]) or None,
            r["model"],
            None if r["slo"] is None else r["slo"].replace(",", ", "),
            _complete(r),
            None if r["goodput_rps"] is None else rate(r["goodput_rps"]),
            r["preemptions"],
            r["recomputed_tokens"],
            None if r["usable"] else "unusable",
        ]
        for r in rows
    ]  # fmt: skip
    names = [
        "run", "session", "engine", "model", "objective", "complete", "goodput", "preemptions",
        "recomputed", "state",
    ]  # fmt: skip
    optional = {"session", "state"}
    kept = [
        i for i, n in enumerate(names) if n not in optional or any(c[i] is not None for c in cells)
    ]
    right = frozenset({"complete", "goodput", "preemptions", "recomputed"})
    return Grid(
        [names[i] for i in kept],
        [[c[i] for i in kept] for c in cells],
        right=right,
        spare=("engine", "model", "preemptions"),
    )
