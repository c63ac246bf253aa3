"""A selection too large for memory is computed a few runs at a time, with the same answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from trueput.verbs.opening import Reading
from trueput.verbs.sql import sql
from trueput.warehouse import session


@pytest.mark.parametrize("view", ["request_outcomes", "request_phases", "recompute"])
def test_one_run_at_a_time_gives_the_same_rows(
    store: Path, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows() -> list[str]:
        return sorted(map(repr, sql(f"FROM {view}", Reading(store=store, slo="ttft=1s")).rows))

    together = rows()
    monkeypatch.setattr(session, "MATERIALISE_BELOW_ROWS", 0)
    monkeypatch.setattr(session, "PIECE_BYTES", 1)
    assert len(together) >= 15
    assert rows() == together
