"""A view that cannot be computed is named with the reason; other views and other runs answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from effort import IS_LONG
from ingest.made import write_log

from trueput.errors import ExitCode, QueryError, ViewError
from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading
from trueput.verbs.show import show
from trueput.verbs.sql import sql
from trueput.warehouse import session
from trueput.warehouse.models import models

TOO_LARGE = 10**30


@pytest.fixture
def how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reading:
    """Two runs; the ledger's engine work of `one` overflows."""
    for name in ("one", "two"):
        write_log(tmp_path / name / "server.log")
    reading = Reading(store=tmp_path / "store")
    ingest([tmp_path / "one", tmp_path / "two"], store=reading.store)
    model = models()["int_engine_work"]
    sql_text = (
        f"SELECT * REPLACE (CAST(CASE WHEN run_id = 'one' THEN {TOO_LARGE} + window_ns "
        f"ELSE window_ns END AS BIGINT) AS window_ns) FROM (\n{model.sql}\n)"
    )
    monkeypatch.setitem(models(), model.name, replace(model, sql=sql_text))
    return reading


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("large", [False, True])
def test_the_failing_view_is_named(
    how: Reading, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(session, "MATERIALISE_BELOW_ROWS", 0)
    questions = [
        lambda: sql("FROM gpu_ledger", how),
        lambda: show("one", how),
        lambda: sql("SELECT * FROM gpu_ledger ORDER BY run_id", how),
    ]
    # to plan a ledger without its inner tables takes seconds
    for question in questions if IS_LONG or not large else questions[:2]:
        with pytest.raises(ViewError) as error:
            question()
        told = error.value.message
        # of a large selection inner views are written into those that read them
        assert "`int_engine_work`" in told or (large and told.startswith("the view `"))
        assert "Conversion Error" in told
        assert "does not exist" not in told
        assert error.value.exit_code is ExitCode.BUG


def test_other_views_and_runs_answer(how: Reading) -> None:
    assert sql("SELECT run_id FROM goodput", how).rows == [("one",), ("two",)]
    assert sql("SELECT DISTINCT run_id FROM gpu_ledger", how, ["two"]).rows == [("two",)]
    # a question to the catalogue builds every view that can be
    names = {name for (name,) in sql("SELECT view_name FROM duckdb_views()", how).rows}
    assert "goodput" in names
    with pytest.raises(QueryError, match="nothing_of_the_kind"):
        sql("FROM nothing_of_the_kind", how)
