"""A failure while rows are made and written: the run keeps all the rest and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trueput.attribution.gpu.steps import division as gpu_steps
from trueput.attribution.gpu.time.union import GpuUnion
from trueput.attribution.requests import instants as request_instants
from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading
from trueput.verbs.sql import sql

PROFILED = Path(__file__).parents[2] / "sample_data" / "simulated_base"


@pytest.mark.long
def test_gpu_steps_that_cannot_be_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(gpu_steps, "split_gpu_steps", fail)
    (done,) = ingest([PROFILED], store=tmp_path)
    assert done.state == "new"
    reading = Reading(store=tmp_path)
    found = sql("SELECT code, severity FROM problems WHERE code LIKE 'ATTR%'", reading).dicts()
    assert found == [{"code": "ATTR005", "severity": "error"}]
    assert sql("SELECT count(*) AS n FROM gpu_steps", reading).dicts() == [{"n": 0}]
    assert sql("SELECT count(*) > 0 AS there FROM gpu_ops", reading).dicts() == [{"there": True}]
    assert not list((tmp_path / "gpu_steps").rglob("*.parquet"))


UNIONS = "SELECT * FROM gpu_activity WHERE metric LIKE '%union'"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The unions of the run where nothing fails."""
    store = tmp_path_factory.mktemp("whole")
    ingest([PROFILED], store=store)
    return sql(UNIONS, Reading(store=store)).dicts()


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("broken", ["_take", "totals"])
def test_operations_that_cannot_be_united(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, whole: list[dict[str, Any]]
) -> None:
    assert len(whole) == 4

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(GpuUnion, broken, fail)
    (done,) = ingest([PROFILED], store=tmp_path)
    assert done.state == "new"
    reading = Reading(store=tmp_path)
    found = sql("SELECT code, severity FROM problems WHERE code LIKE 'ATTR%'", reading).dicts()
    assert found == [{"code": "ATTR006", "severity": "warning"}]
    # the view looks at the operations themselves, once
    assert sql(UNIONS, reading).dicts() == whole
    assert sql("FROM check_gpu_busy", reading).dicts() == []


LOGGED = Path(__file__).parents[2] / "sample_data" / "regress_baseline"


@pytest.mark.long
def test_events_that_cannot_be_grouped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def phases(store: Path) -> list[dict[str, Any]]:
        return sql("FROM requests ORDER BY ALL", Reading(store=store)).dicts()

    ingest([LOGGED], store=tmp_path / "whole")
    assert any(row["engine_request_id"] for row in phases(tmp_path / "whole"))

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(request_instants, "_instants", fail)
    (done,) = ingest([LOGGED], store=tmp_path / "store")
    assert done.state == "new"
    reading = Reading(store=tmp_path / "store")
    found = sql("SELECT code, severity FROM problems WHERE code LIKE 'ATTR%'", reading).dicts()
    assert found == [{"code": "ATTR012", "severity": "warning"}]
    assert sql("FROM request_instants", reading).dicts() == []
    # the views group the events themselves
    assert phases(tmp_path / "store") == phases(tmp_path / "whole")
