"""What attribution is given of a run: the parts on their clocks, and what files and user state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trueput.attribution.run import RunInput
from trueput.attribution.sessions import Load
from trueput.clock import ClockKind
from trueput.ingest.folders import RUN_TOML
from trueput.ingest.read import FileResult
from trueput.ingest.run_toml import goodput_slo
from trueput.ingest.work import Work
from trueput.source_api import Clock, Fact


def merge_facts(work_facts: list[tuple[str, Fact]]) -> dict[str, Any]:
    """Return one value per fact key; the first file that states it wins, run.toml first."""
    merged: dict[str, Any] = {}
    for _, fact in work_facts:
        if fact.value is not None and fact.key not in merged:
            merged[fact.key] = fact.value
    return merged


def facts_of(work: Work) -> list[tuple[str, Fact]]:
    """Return what files and run.toml state, with the file of each, the first to be believed first.

    The engine's configuration is what its files say, and run.toml only fills what they leave out.
    """
    found = [(RUN_TOML, f) for f in work.toml.facts if not f.key.startswith("config.")]
    found += [(r.source_id, f) for r in work.results for f in r.facts]
    return found + [(RUN_TOML, f) for f in work.toml.facts if f.key.startswith("config.")]


def run_input(work: Work, parts: dict[str, list[Path]], facts: dict[str, Any]) -> RunInput:
    """Return the input of attribution; `parts` are by table, `facts` the run's as a whole."""
    by_source: dict[str, dict[str, Any]] = {}
    for source, fact in facts_of(work):
        if fact.value is not None:
            by_source.setdefault(source, {}).setdefault(fact.key, fact.value)
    loads = [
        Load(c.name, c.flags, goodput_slo(c.flags["goodput"]) if "goodput" in c.flags else None)
        for c in work.toml.loads
    ]
    return RunInput(
        run_id=work.run_id,
        parts=parts,
        clocks={r.source_id: _clock_of_parts(r) for r in work.results},
        facts=by_source,
        anchors=work.toml.anchors,
        timezone=work.toml.timezone,
        loads=loads,
        slo=work.toml.slo,
        config=facts,
        formats={r.source_id: r.source_name for r in work.results},
    )


def _clock_of_parts(result: FileResult) -> Clock:
    """Return the clock that the parts are on: UTC where instants were moved while writing."""
    stated = result.clock
    if not result.moved_ns:
        return stated
    return Clock(ClockKind.UTC, 0, stated.uncertainty_ns, stated.method or "stated by the file")
