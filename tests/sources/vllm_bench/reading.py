"""Runs one source over one file and gives what it yielded in the form that the cases state."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from trueput.arrow import conform
from trueput.source_api import Batch, Clock, Fact, Problem, ReadOptions, Source

_OWN = ("run_id", "source_id")


def outcome(source: Source, path: Path, options: ReadOptions | None = None) -> dict[str, Any]:
    """Return rows by table (NULLs left out), facts, problem codes and the clock kind."""
    found: dict[str, Any] = {"facts": {}, "problems": [], "clock": None}
    for item in source.read(path, options or ReadOptions()):
        match item:
            case Batch(table, rows):
                whole = conform(table, rows, {"run_id": "r", "source_id": "s"}).to_pylist()
                found.setdefault(table, []).extend(_plain(row) for row in whole)
            case Fact(key, value):
                found["facts"][key] = value
            case Problem(code):
                assert code in source.problem_codes
                found["problems"].append(code)
            case Clock(kind):
                assert found["clock"] is None
                found["clock"] = kind.value
    return found


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        key: "inf" if isinstance(value, float) and math.isinf(value) else value
        for key, value in row.items()
        if value is not None and key not in _OWN
    }
