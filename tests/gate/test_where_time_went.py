"""The sentence that says where device time went, and profiles that cannot tell it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gate.made_up import repeats

from trueput.gate.figures import RunFigures
from trueput.gate.verdict import gate

WINDOW_NS = 100 * 10**9


def with_ledger(runs: list[RunFigures], decode: float, basis: str) -> list[RunFigures]:
    """Runs that decode for so much of their window; the rest is idle, or a gap nobody can name."""
    rest = "idle" if basis == "measured" else "unattributed"
    cells = {"decode": decode, rest: 1 - decode}
    shared = {"window_ns": WINDOW_NS, "devices": 1}
    rows = [
        {"work": work, "outcome": "good" if work == "decode" else "none", "basis": "measured",
         "time_ns": round(share * WINDOW_NS), **shared}
        for work, share in cells.items()
    ]  # fmt: skip
    if rest != "idle":
        rows.append({"work": "idle", "outcome": "none", "basis": basis, "time_ns": 0, **shared})
    return [replace(run, gpu_ledger=tuple(rows)) for run in runs]


@pytest.mark.parametrize(("basis", "is_told"), [("measured", True), ("bounded", False)])
def test_a_profile_that_lost_operations_does_not_say_where_time_went(
    basis: str, is_told: bool
) -> None:
    base = with_ledger(repeats("a", 3), 0.6, "measured")
    cand = with_ledger(repeats("b", 3, tokens=14_000), 0.7, basis)
    found = gate(base, [("candidate", cand)], None).candidates[0].findings
    headline = next(f.conclusion for f in found if f.rule == "activity-without-goodput")
    assert ("of device time in the window" in headline) is is_told
    # from 60 % of the window to 70 %
    assert ("for good ones +10.0" in headline) is is_told
