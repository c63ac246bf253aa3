"""A diagnosis on a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trueput.cli.output import Grid
from trueput.cli.pages.layout import heading, listed, say, span

if TYPE_CHECKING:
    from rich.console import Console

    from trueput.verbs.doctor import Diagnosis


def draw(console: Console, found: Sequence[Diagnosis]) -> None:
    """Print each run: its files, how well each question is answered, and what went wrong."""
    for one in found:
        heading(console, one.run_id, "" if one.usable else "unusable")
        read = [s for s in one.sources if s["format"]]
        listed(
            console,
            ("file", "format", "records", "clock", "to UTC by", "+-"),
            [
                [s["source_id"], s["format"], s["record_rows"], s["clock_kind"],
                 s["clock_method"], span(s["clock_uncertainty_ns"])]
                for s in read
            ],
            _file_entry,
            right=("records", "+-"),
        )  # fmt: skip
        left = [s for s in one.sources if not s["format"] and s["source_id"] != "run.toml"]
        if left:
            say(console, "not read: " + ", ".join(s["source_id"] for s in left), "dim")
        _evidence(console, one)
        _problems(console, one)


def _evidence(console: Console, one: Diagnosis) -> None:
    heading(console, "What these files can tell")
    listed(
        console,
        ("question", "basis", "from", "what would improve it"),
        [
            [e["question"], e["best_basis"], e["source"], e["what_would_improve_it"] or ""]
            for e in one.evidence
        ],
        _answer_entry,
    )


def _problems(console: Console, one: Diagnosis) -> None:
    shown = [p for p in one.problems if p["code"] != "INGEST002"]
    if shown:
        heading(console, "Problems in the input")
        listed(
            console,
            ("file", "line", "code", "severity", "times", "what"),
            [
                [p["source_id"], p["line"], p["code"], p["severity"], p["occurrences"], p["text"]]
                for p in shown
            ],
            _problem_entry,
            right=("line", "times"),
        )
    if one.failed_checks:
        heading(console, "Conservation checks that failed (please report)")
        for row in one.failed_checks[:10]:
            say(console, str(row), "red")


def _file_entry(row: Sequence[str]) -> tuple[str, str]:
    """Return a file and what was read of it, for a page that is too narrow for the table."""
    name, kind, records, clock, method, doubt = row
    by = f", to UTC by {method}" if method else ""
    return name, f"{kind}, {records} records; clock {clock} +- {doubt}{by}"


def _answer_entry(row: Sequence[str]) -> tuple[str, str]:
    question, basis, source, improve = row
    told = f"{basis}, from {source}" if source else basis
    return question, f"{told}; to improve it: {improve}" if improve else told


def _problem_entry(row: Sequence[str]) -> tuple[str, str]:
    name, line, code, severity, times, text = row
    where = f"{name or 'run'}:{line}" if line else name or "run"
    often = "" if times in {"", "1"} else f", {times} times"
    return where, f"{code} {severity}{often}: {text}"


def evidence_grid(found: Sequence[Diagnosis]) -> Grid:
    """Return the evidence of all runs as one grid."""
    columns = ["run_id", "question", "best_basis", "source", "what_would_improve_it"]
    return Grid(columns, [[e[c] for c in columns] for one in found for e in one.evidence])
