"""A failure while rows are made and written: the run keeps all the rest and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from trueput.attribution import gpu_steps
from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading
from trueput.verbs.sql import sql

PROFILED = Path(__file__).parents[2] / "sample_data" / "simulated_base"


def test_gpu_steps_that_cannot_be_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(gpu_steps, "split_steps", fail)
    (done,) = ingest([PROFILED], store=tmp_path)
    assert done.state == "new"
    reading = Reading(store=tmp_path)
    found = sql("SELECT code, severity FROM problems WHERE code LIKE 'ATTR%'", reading).dicts()
    assert found == [{"code": "ATTR005", "severity": "error"}]
    assert sql("SELECT count(*) AS n FROM gpu_steps", reading).dicts() == [{"n": 0}]
    assert sql("SELECT count(*) > 0 AS there FROM gpu_ops", reading).dicts() == [{"there": True}]
    assert not list((tmp_path / "gpu_steps").rglob("*.parquet"))
