"""Data on stdout, talk on stderr; JSON that keeps every digit; the same bytes each time."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from cli.program import Program

from trueput.cli.output import Writers, emit
from trueput.schema import tables, views
from trueput.warehouse.models import reads_nothing
from trueput.warehouse.session import Warehouse

ODD = """
SELECT
  170141183460469231731687303715884105727::HUGEINT AS huge,
  12345678901234567890::DECIMAL(20,0) AS whole, 1.25::DECIMAL(5,2) AS part,
  9007199254740993::BIGINT AS big, 7::INTEGER AS small, 'nan'::DOUBLE AS nan,
  'inf'::DOUBLE AS inf, '-inf'::DOUBLE AS minus_inf, NULL AS nothing, true AS yes, 0.1 AS tenth,
  [1, 9007199254740993] AS list, {'a': 'nan'::DOUBLE} AS struct, DATE '2026-11-29' AS day
"""


def rows(program: Program, query: str, *options: str) -> Any:
    done = program("sql", query, "--format", "json", *options)
    assert (done.code, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_json_keeps_every_integer_and_names_what_json_lacks(trueput: Program) -> None:
    (row,) = rows(trueput, ODD)
    assert row == {
        "huge": 2**127 - 1,
        "whole": 12345678901234567890,
        "part": 1.25,
        "big": 9007199254740993,
        "small": 7,
        "nan": None,
        "inf": "inf",
        "minus_inf": "-inf",
        "nothing": None,
        "yes": True,
        "tenth": 0.1,
        "list": [1, 9007199254740993],
        "struct": {"a": None},
        "day": "2026-11-29",
    }


def test_integers_as_text_for_tools_that_lose_digits(trueput: Program) -> None:
    (row,) = rows(trueput, ODD, "--int64", "string")
    assert row["huge"] == str(2**127 - 1)
    assert row["big"] == "9007199254740993"
    assert row["list"] == [1, "9007199254740993"]
    assert row["small"] == 7
    assert trueput("sql", "SELECT 1", "--int64", "text").code == 2


def test_csv_and_table_of_odd_values(trueput: Program) -> None:
    done = trueput("sql", ODD, "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    assert row["huge"] == str(2**127 - 1)
    assert (row["nan"], row["inf"], row["nothing"], row["yes"]) == ("", "inf", "", "true")
    page = trueput("sql", "SELECT 'nan'::DOUBLE AS a, NULL AS b, 0.0 AS c, 0 AS d").stdout
    assert page.splitlines()[-1].split() == ["-", "-", "0", "0"], "unknown is not 0"


def test_two_columns_of_one_name_are_both_there(trueput: Program) -> None:
    (row,) = rows(trueput, "SELECT 1 AS a, 2 AS a")
    assert sorted(row.values()) == [1, 2]


@pytest.mark.parametrize(
    "query",
    ["FROM goodput", "SELECT run_id, outcome, count(*) AS n FROM request_outcomes GROUP BY ALL"],
)
def test_a_query_without_an_order_has_one_all_the_same(trueput: Program, query: str) -> None:
    first = trueput("sql", query, "--format", "csv").stdout
    assert all(trueput("sql", query, "--format", "csv").stdout == first for _ in range(2))
    assert first.splitlines()[1:] == sorted(first.splitlines()[1:])


def test_a_query_with_an_order_keeps_it(trueput: Program) -> None:
    found = rows(
        trueput,
        "SELECT run_id FROM goodput WHERE run_id LIKE 'regress%' ORDER BY run_id DESC LIMIT 2",
    )
    assert [r["run_id"] for r in found] == ["regress_candidate_r2", "regress_candidate"]


@pytest.mark.parametrize(
    "query",
    ["SELECT 1 AS a;", "SELECT 1 AS a -- why", "WITH x AS (SELECT 1 AS a) FROM x",
     "VALUES (2), (1)", "DESCRIBE goodput", "SHOW TABLES",
     "-- why\nSELECT 1 AS a", "--why=1\nFROM runs",
     "CREATE TEMP TABLE x AS SELECT 1 AS a; SET threads = 1; FROM x"],
)  # fmt: skip
def test_every_kind_of_query_runs(trueput: Program, query: str) -> None:
    done = trueput("sql", query, "--format", "csv")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.count("\n") > 1


@pytest.mark.parametrize("verb", ["DESCRIBE", "SHOW", "SUMMARIZE", "-- why\nDESCRIBE"])
@pytest.mark.parametrize("name", ["gpu_ops", "goodput"])
def test_columns_that_are_described_keep_the_table_s_order(
    trueput: Program, verb: str, name: str
) -> None:
    documented = {**tables(), **views()}[name]
    described = [row["column_name"] for row in rows(trueput, f"{verb} {name}")]
    assert described == [column.name for column in documented.columns]
    assert described != sorted(described)


def test_rows_without_an_order_are_sorted(trueput: Program) -> None:
    found = rows(trueput, "SELECT * FROM (VALUES (3), (1), (2)) AS t(a)")
    assert [row["a"] for row in found] == [1, 2, 3]


@pytest.mark.parametrize("query", ["SELEC 1", "SELECT 1/", "SELECT 'a"])
def test_what_is_no_sql_builds_no_view(
    trueput: Program, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    built: list[object] = []
    monkeypatch.setattr(Warehouse, "prepare", lambda *given: built.append(given))
    done = trueput("sql", query)
    assert (done.code, built) == (2, [])
    assert "Parser Error" in done.stderr


@pytest.mark.parametrize(
    ("query", "alone"),
    [("SELECT 1 AS a;", True), ("VALUES (2), (1)", True), ("SELECT 1 UNION SELECT 2", True),
     ("DESCRIBE goodput", False), ("SHOW TABLES", False), ("FROM duckdb_views()", False),
     ("SELECT (SELECT count(*) FROM goodput)", False), ("SELECT current_schemas(true)", False),
     ("FROM (SHOW TABLES)", False), ("SELECT 1 IN (SELECT 1 FROM range(3))", False)],
)  # fmt: skip
def test_only_constants_alone_read_nothing(query: str, alone: bool) -> None:
    with duckdb.connect() as connection:
        assert reads_nothing(connection, query) is alone


def test_show_as_json_has_every_public_view(trueput: Program) -> None:
    found = json.loads(trueput("show", "regress_candidate", "--format", "json").stdout)
    public = {name for name in views() if not name.startswith("check_")}
    assert public <= set(found)
    assert found["goodput"][0]["planned_requests"] == 60
    assert len(found["request_phases"]) == 60
    assert all(r["run_id"] == "regress_candidate" for r in found["request_outcomes"])


@pytest.mark.long
def test_the_same_bytes_from_another_store(trueput: Program, tmp_path: Path) -> None:
    other = Program(tmp_path / "store")
    assert other("ingest", "sample_data/regress_candidate").code == 0
    for command in (
        ["show", "regress_candidate", "--format", "json"],
        ["show", "regress_candidate", "--format", "markdown"],
        ["doctor", "regress_candidate", "--format", "json"],
    ):
        first = trueput(*command)
        assert first.code == 0
        assert other(*command) == first
    assert other(*command) == first, "and the same once more"


def test_files_by_suffix_and_nothing_on_stdout(trueput: Program, tmp_path: Path) -> None:
    outputs = [tmp_path / f"made/runs.{suffix}" for suffix in ("json", "csv", "md", "txt")]
    options = [word for path in outputs for word in ("-o", str(path))]
    done = trueput("runs", *options)
    assert (done.code, done.stdout) == (0, "")
    texts = [path.read_text(encoding="utf-8") for path in outputs]
    formats = ("json", "csv", "markdown", "table")
    assert texts == [trueput("runs", "--format", name).stdout for name in formats]
    both = trueput("runs", "--format", "json", "-o", str(outputs[1]))
    assert both.stdout == texts[0]


@pytest.mark.long
def test_a_gate_writes_its_files_and_keeps_its_exit_code(trueput: Program, tmp_path: Path) -> None:
    sides = "regress_baseline,regress_baseline_r2", "regress_candidate,regress_candidate_r2"
    path = tmp_path / "gate.json"
    done = trueput("gate", *sides, "-o", str(path), "-o", str(tmp_path / "gate.md"))
    assert done.code == 1
    assert done.stdout.startswith("trueput gate: flagged: ")
    assert json.loads(path.read_text())["exit_code"] == 1
    assert (tmp_path / "gate.md").read_text().startswith("## trueput gate: flagged")


def test_colour_on_a_terminal_only_and_never_under_no_color(trueput: Program) -> None:
    sides = "regress_baseline,regress_baseline_r2", "regress_candidate,regress_candidate_r2"
    command = ("gate", *sides)
    plain = trueput(*command).stdout
    assert "\x1b" not in plain
    assert "\x1b[" in trueput(*command, terminal=True).stdout
    quiet = trueput(*command, terminal=True, environment={"NO_COLOR": "1"}).stdout
    assert "\x1b[3" not in quiet, "no colour; bold and dim are no colours"


@pytest.mark.parametrize("columns", ["", "0", "wide", "-3", "7"])
def test_an_odd_width_is_no_error(trueput: Program, columns: str) -> None:
    assert trueput("runs", environment={"COLUMNS": columns}).code == 0


@pytest.mark.parametrize("command", ["sources", "tables", "explain"])
@pytest.mark.parametrize("columns", [80, 160])
def test_lists_fit_the_page_and_cut_no_name(store: Path, command: str, columns: int) -> None:
    page = Program(store, columns)(command).stdout
    assert [line for line in page.splitlines() if len(line) > columns] == []
    entries = json.loads(Program(store)(command, "--format", "json").stdout)
    words = set(page.split())
    for entry in entries:
        name = entry.get("name") or entry["term"]
        assert set(name.split()) <= words, f"{name} is cut"


def test_help_names_every_command_in_whole_sentences(trueput: Program) -> None:
    page = trueput("--help").stdout
    assert "..." not in page.replace("[ARGS]...", "")
    for name in ("ingest", "runs", "show", "compare", "gate", "sql", "db", "tables", "sources",
                 "doctor", "noise", "explain", "demo", "policy", "baseline",
                 "history", "sweep"):  # fmt: skip
        assert f"\n  {name} " in page
        assert trueput(name, "--help").code == 0
    assert trueput("--version").stdout.startswith("trueput ")


def test_a_folder_made_for_a_file_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writers: Writers = {"table": lambda: "t", "json": lambda: "{}"}
    for _ in range(2):
        emit(writers, "table", [tmp_path / "new" / "x.json"])
    assert capsys.readouterr().err == f"made the folder `{tmp_path / 'new'}`\n"
    assert (tmp_path / "new" / "x.json").read_text() == "{}"
