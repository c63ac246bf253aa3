"""Engine records that do not cover the load: sums over them are those of a part of it."""

from __future__ import annotations

from trueput.warehouse.session import Warehouse

_GAPS = "SELECT run_id, code, text FROM int_engine_coverage ORDER BY run_id, code, text"


def uncovered_loads(warehouse: Warehouse) -> dict[str, str]:
    """Return, for each run whose engine's record does not cover its load, what is missing."""
    found: dict[str, list[str]] = {}
    for row in warehouse.ask(_GAPS).dicts():
        found.setdefault(row["run_id"], []).append(f"{row['text']} ({row['code']})")
    return {run_id: "; ".join(texts) for run_id, texts in found.items()}
