"""One run on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trueput.cli.output import Grid
from trueput.cli.output import to_csv as grid_csv
from trueput.cli.output import to_markdown as grid_markdown
from trueput.cli.pages.layout import heading, say
from trueput.cli.pages.show.activity import draw_activity
from trueput.cli.pages.show.ledger import draw_ledger
from trueput.cli.pages.show.recompute import draw_paid, draw_recompute
from trueput.cli.pages.show.requests import draw_outcomes, draw_phases

if TYPE_CHECKING:
    from rich.console import Console

Found = dict[str, list[dict[str, Any]]]


def draw(console: Console, found: Found, asked: str | None = None) -> None:
    """Print the page of one run; `asked` is its window as it was asked for."""
    has_requests = any(map(_tells, found["goodput"]))
    _head(console, found, has_requests=has_requests)
    if has_requests:
        for row in found["goodput"]:
            draw_outcomes(console, row, asked)
        draw_phases(console, found)
    draw_recompute(console, found)
    draw_ledger(console, found)
    draw_activity(console, found)
    draw_paid(console, found)
    _evidence(console, found)


def _tells(row: dict[str, Any]) -> bool:
    """Return whether a row of goodput holds any figure."""
    ends = ("_requests", "_rps", "_per_s", "_tokens", "_rps_low", "_ratio_low")
    return any(value is not None for name, value in row.items() if name.endswith(ends))


def _head(console: Console, found: Found, *, has_requests: bool) -> None:
    run = found["runs"][0]
    parts = [run["engine"], run["engine_version"], run["model"], run["hardware"]]
    heading(console, run["run_id"], "  ".join(str(p) for p in parts if p))
    if not run["usable"]:
        say(console, "too little of this run could be read: see `trueput doctor`", "bold red")
    if run["simulated"]:
        say(console, "simulated: no real engine ran")
    slo = found["slo_policy"][0]
    if slo["slo"]:
        say(console, f"objective {slo['slo']} (from {slo['origin']})")
    elif has_requests:
        say(console, "no objective is known, so no request is good or late: give --slo")


def _evidence(console: Console, found: Found) -> None:
    missing = [r for r in found["evidence"] if r["what_would_improve_it"]]
    if missing:
        heading(console, "What would let these files say more")
        for row in missing:
            say(console, f"{row['question']}: {row['what_would_improve_it']}")
    problems = [p for p in found["problems"] if p["severity"] != "info"]
    if problems:
        heading(console, "Problems in the input")
        for problem in problems[:10]:
            where = problem["source_id"] or "run"
            where += f":{problem['line']}" if problem["line"] else ""
            say(console, f"{where}: {problem['code']} {problem['text']}")
        if len(problems) > 10:
            say(console, f'and {len(problems) - 10} more: `trueput sql "FROM problems"`')


def _grid(name: str, rows: list[dict[str, Any]]) -> Grid:
    columns = list(rows[0]) if rows else []
    return Grid(columns, [list(r.values()) for r in rows], title=name)


def to_markdown(found: Found) -> str:
    """Return every non-empty view as a Markdown table."""
    skip = {"request_outcomes", "request_phases", "timeline"}
    grids = [_grid(n, rows) for n, rows in found.items() if rows and n not in skip]
    return "\n".join(grid_markdown(g) for g in grids)


def to_csv(found: Found) -> str:
    """Return the run's requests as CSV: outcome and phases of each."""
    phases = {r["request_id"]: r for r in found["request_phases"]}
    names = [n for n in (found["request_phases"] or [{}])[0] if n.endswith("_ns") and n != "e2e_ns"]
    rows = [
        {**r, **{n: phases.get(r["request_id"], {}).get(n) for n in names}}
        for r in found["request_outcomes"]
    ]
    return grid_csv(_grid("", rows))
