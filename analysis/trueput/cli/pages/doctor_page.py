"""A diagnosis on a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trueput.cli.output import Grid
from trueput.cli.pages.layout import heading, say, span, table

if TYPE_CHECKING:
    from rich.console import Console

    from trueput.verbs.doctor import Diagnosis


def draw(console: Console, found: Sequence[Diagnosis]) -> None:
    """Print each run: its files, how well each question is answered, and what went wrong."""
    for one in found:
        heading(console, one.run_id, "" if one.usable else "unusable")
        read = [s for s in one.sources if s["format"]]
        table(
            console,
            ("file", "format", "records", "clock", "to UTC by", "+-"),
            [
                [s["source_id"], s["format"], s["record_rows"], s["clock_kind"],
                 s["clock_method"], span(s["clock_uncertainty_ns"])]
                for s in read
            ],
            right=("records", "+-"),
        )  # fmt: skip
        left = [s for s in one.sources if not s["format"] and s["source_id"] != "run.toml"]
        if left:
            say(console, "not read: " + ", ".join(s["source_id"] for s in left), "dim")
        _evidence(console, one)
        _problems(console, one)


def _evidence(console: Console, one: Diagnosis) -> None:
    heading(console, "What these files can tell")
    table(
        console,
        ("question", "basis", "from", "what would improve it"),
        [
            [e["question"], e["best_basis"], e["source"], e["what_would_improve_it"] or ""]
            for e in one.evidence
        ],
    )


def _problems(console: Console, one: Diagnosis) -> None:
    shown = [p for p in one.problems if p["code"] != "INGEST002"]
    if shown:
        heading(console, "Problems in the input")
        table(
            console,
            ("file", "line", "code", "severity", "times", "what"),
            [
                [p["source_id"], p["line"], p["code"], p["severity"], p["occurrences"], p["text"]]
                for p in shown
            ],
            right=("line", "times"),
        )
    if one.failed_checks:
        heading(console, "Conservation checks that failed (please report)")
        for row in one.failed_checks[:10]:
            say(console, str(row), "red")


def evidence_grid(found: Sequence[Diagnosis]) -> Grid:
    """Return the evidence of all runs as one grid."""
    columns = ["run_id", "question", "best_basis", "source", "what_would_improve_it"]
    return Grid(columns, [[e[c] for c in columns] for one in found for e in one.evidence])
