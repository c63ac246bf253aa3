"""doctor: what a folder can prove, and which switch would let it prove more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trueput.verbs.opening import Reading, open_runs, runs_of

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Diagnosis:
    """One run: its files and clocks, its problems, and how well each question is answered."""

    run_id: str
    usable: bool
    sources: Rows
    problems: Rows
    evidence: Rows
    failed_checks: Rows


_CHECKS = "check_"


def doctor(path: str, reading: Reading | None = None) -> list[Diagnosis]:
    """Return a diagnosis for each run at `path` (or for the run of that name)."""
    from trueput.schema import views

    how = reading or Reading()
    names = runs_of(path, how)
    with open_runs(names, how) as warehouse:
        by_view = {v: warehouse.view(v) for v in ("runs", "sources", "problems", "evidence")}
        checks = [
            {"check": name, **row}
            for name in views()
            if name.startswith(_CHECKS)
            for row in warehouse.view(name)
        ]
    return [
        Diagnosis(
            run_id=name,
            usable=any(r["usable"] for r in by_view["runs"] if r["run_id"] == name),
            sources=_of(by_view["sources"], name),
            problems=_of(by_view["problems"], name),
            evidence=_of(by_view["evidence"], name),
            failed_checks=_of(checks, name),
        )
        for name in names
    ]


def _of(rows: Rows, run_id: str) -> Rows:
    return [r for r in rows if r["run_id"] == run_id]
