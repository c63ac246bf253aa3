"""Case files: `<view>.toml` gives rows as CSV and says which rows the view must have.

A case has a name, optionally `why` (the calculation by hand), `slo` and `window` as on the command
line, `policy` (columns of slo_policy), `where` (which rows of the view are looked at), `given`
(table -> CSV; columns that may not be NULL have a usual value) and `expect` (CSV of the columns
that matter; row order does not). An empty cell is NULL.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from effort import IS_LONG
from sql.case_store import csv_rows, open_store, shown, slo_row, typed_rows

from trueput.warehouse.models import models

FILES = sorted(Path(__file__).parent.glob("*.toml"))
KEYS = {"name", "why", "slo", "window", "policy", "class", "where", "given", "expect"}


Case = dict[str, Any]
Judging = tuple[str, str]
"""What cases share that are asked of one store: window and classes; an objective is each run's."""


@cache
def _all() -> dict[tuple[str, str], Case]:
    """Return the cases by view and name."""
    found: dict[tuple[str, str], Case] = {}
    for path in FILES:
        for case in tomllib.loads(path.read_text(encoding="utf-8"))["case"]:
            assert found.setdefault((path.stem, case["name"]), case) is case, case["name"]
    return found


def _judging(case: Case) -> Judging:
    return case.get("window", "all"), repr(case.get("class", ()))


def _asked(cases: Mapping[tuple[str, str], Case]) -> dict[tuple[str, str], list[list[str]]]:
    """Return what their views have for cases: each case is runs of its own in one store.

    To build the views takes most of the time, and no row of any is made of two runs.
    """
    given: dict[str, list[dict[str, Any]]] = {}
    for number, case in enumerate(cases.values()):
        for table, rows in _given(case).items():
            of_run = ({**row, "run_id": f"{number}.{row.get('run_id') or 'r'}"} for row in rows)
            given.setdefault(table, []).extend(of_run)
    first = next(iter(cases.values()))
    views = sorted({view for view, _ in cases})
    found = {}
    with open_store(
        given, views, window=first.get("window", "all"), classes=first.get("class", ())
    ) as connection:
        for number, (key, case) in enumerate(cases.items()):
            columns = ", ".join(f'"{column}"' for column in _columns(case))
            query = (
                f"SELECT {columns} FROM (SELECT * REPLACE (substr(run_id, length(of_case) + 1) "
                f"AS run_id) FROM \"{key[0]}\", (SELECT '{number}.' AS of_case) "
                f"WHERE starts_with(run_id, of_case)) WHERE {case.get('where', 'true')}"
            )
            found[key] = [[shown(v) for v in row] for row in connection.execute(query).fetchall()]
    return found


def _given(case: Case) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a case, with those of its runs and of how they are judged."""
    given = {table: typed_rows(table, text) for table, text in case.get("given", {}).items()}
    names = {str(r.get("run_id") or "r") for rows in given.values() for r in rows} or {"r"}
    given.setdefault("runs", [{"run_id": name} for name in sorted(names)])
    policy = case.get("policy") or {}
    judged = [slo_row(r.get("run_id") or "r", case.get("slo"), policy) for r in given["runs"]]
    given.setdefault("slo_policy", judged)
    return given


def _columns(case: Case) -> list[str]:
    expected = csv_rows(case["expect"])
    return list(expected[0]) if expected else [c.strip() for c in case["expect"].split(",")]


@cache
def _asked_together(judging: Judging) -> dict[tuple[str, str], list[list[str]]]:
    return _asked({key: case for key, case in _all().items() if _judging(case) == judging})


@pytest.mark.parametrize(
    ("view", "name"), [pytest.param(*key, id=": ".join(key)) for key in _all()]
)
def test_case(view: str, name: str) -> None:
    case = _all()[view, name]
    assert set(case) <= KEYS, f"unknown keys {set(case) - KEYS}"
    got = _asked({(view, name): case}) if IS_LONG else _asked_together(_judging(case))
    expected = csv_rows(case["expect"])
    assert sorted(got[view, name]) == sorted(list(row.values()) for row in expected)


def test_every_mart_has_a_case_file() -> None:
    marts = {m.name for m in models().values() if m.layer == "marts"}
    assert marts - {path.stem for path in FILES} == set()
