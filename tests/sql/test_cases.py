"""Case files: `<view>.toml` gives rows as CSV and says which rows the view must have.

A case has a name, optionally `why` (the calculation by hand), `slo` and `window` as on the command
line, `policy` (columns of slo_policy), `where` (which rows of the view are looked at), `given`
(table -> CSV; columns that may not be NULL have a usual value) and `expect` (CSV of the columns
that matter; row order does not). An empty cell is NULL.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from sql.case_store import csv_rows, open_store, shown, typed_rows

from trueput.warehouse.models import models

FILES = sorted(Path(__file__).parent.glob("*.toml"))
KEYS = {"name", "why", "slo", "window", "policy", "class", "where", "given", "expect"}


def _cases() -> list[Any]:
    found = []
    for path in FILES:
        for case in tomllib.loads(path.read_text(encoding="utf-8"))["case"]:
            found.append(pytest.param(path.stem, case, id=f"{path.stem}: {case['name']}"))
    return found


@pytest.mark.parametrize(("view", "case"), _cases())
def test_case(view: str, case: dict[str, Any]) -> None:
    assert set(case) <= KEYS, f"unknown keys {set(case) - KEYS}"
    given = {table: typed_rows(table, text) for table, text in case.get("given", {}).items()}
    expected = csv_rows(case["expect"])
    columns = list(expected[0]) if expected else case["expect"].strip().split(",")
    names = ", ".join(f'"{c.strip()}"' for c in columns)
    with open_store(
        given, [view], case.get("slo"), case.get("window", "all"), case.get("policy"),
        case.get("class", ()),
    ) as connection:  # fmt: skip
        query = f'SELECT {names} FROM "{view}" WHERE {case.get("where", "true")}'
        got = connection.execute(query).fetchall()
    assert sorted([shown(v) for v in row] for row in got) == sorted(
        list(row.values()) for row in expected
    )


def test_every_mart_has_a_case_file() -> None:
    marts = {m.name for m in models().values() if m.layer == "marts"}
    assert marts - {path.stem for path in FILES} == set()
