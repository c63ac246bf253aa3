"""A selection too large for memory is computed a few runs at a time, with the same answers."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from trueput.errors import QueryError
from trueput.schema import views
from trueput.verbs.opening import Reading, open_runs
from trueput.warehouse import by_runs, constants, session
from trueput.warehouse.plans import Question, scans_of

RUNS = ("errors_debug", "prefix_cache", "regress_candidate")
SLO = "ttft=1s,tpot=20ms"
QUESTIONS = {
    "whole": "FROM request_phases",
    "counted": "SELECT run_id, count(*) FROM request_outcomes GROUP BY run_id",
    "nothing of it": "SELECT count(*) FROM request_outcomes",
    "filtered by another column": "SELECT request_id FROM request_outcomes WHERE ttft_ns > 1000000",
    "joined": "SELECT p.request_id, p.queue_ns, o.outcome FROM request_phases AS p "
    "JOIN request_outcomes AS o USING (run_id, request_id)",
    "a row as one value": "SELECT r FROM recompute AS r",
    "by pattern": "SELECT COLUMNS('.*_ns') FROM run_phases",
    "nested": "SELECT outcome, n FROM (SELECT outcome, tpot_ns, count(*) AS n "
    "FROM request_outcomes GROUP BY ALL) WHERE tpot_ns IS NOT NULL",
    "two that rest on each other": "SELECT g.run_id, g.good_requests, w.name FROM goodput AS g "
    "JOIN (SELECT run_id, phase AS name FROM run_phases) AS w USING (run_id)",
    "ingested rows": "SELECT event, count(*) FROM request_events GROUP BY event",
    "no select": "DESCRIBE recompute",
}


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every selection and every file be large, and every run a piece of its own."""
    monkeypatch.setattr(session, "MATERIALISE_BELOW_ROWS", 0)
    monkeypatch.setattr(by_runs, "PIECE_BYTES", 1)
    monkeypatch.setattr(constants, "LEAST_BYTES", 0)


@pytest.fixture(scope="module")
def together(store: Path) -> dict[str, list[str]]:
    """Return the answers of the store as a small selection, sorted."""
    with open_runs(RUNS, Reading(store=store, slo=SLO)) as warehouse:
        return {n: sorted(map(repr, warehouse.query(q).rows)) for n, q in QUESTIONS.items()}


def test_one_run_at_a_time_gives_the_same_rows(
    store: Path, large: None, together: dict[str, list[str]]
) -> None:
    with open_runs(RUNS, Reading(store=store, slo=SLO)) as warehouse:
        for name, query in QUESTIONS.items():
            assert sorted(map(repr, warehouse.query(query).rows)) == together[name], name
    assert min(map(len, together.values())) >= 1
    assert len(together["whole"]) >= 15


def test_all_runs_in_one_go_give_the_same_rows(
    store: Path, large: None, together: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_runs, "PIECE_BYTES", 1 << 40)
    for name, query in QUESTIONS.items():
        with open_runs(RUNS, Reading(store=store, slo=SLO)) as warehouse:
            assert sorted(map(repr, warehouse.query(query).rows)) == together[name], name
    with open_runs(RUNS, Reading(store=store, slo=SLO)) as warehouse:
        for name, query in QUESTIONS.items():
            assert sorted(map(repr, warehouse.query(query).rows)) == together[name], name


def test_what_a_question_reads_once_is_not_kept(
    store: Path, large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_runs, "PIECE_BYTES", 1 << 40)
    once = "SELECT count(*) FROM request_outcomes"
    twice = f"SELECT ({once}), ({once} WHERE outcome = 'good') FROM goodput LIMIT 1"
    kept = "SELECT count(*) FROM duckdb_tables() WHERE schema_name = 'kept' AND estimated_size > 0"
    with open_runs(RUNS, Reading(store=store, slo=SLO)) as warehouse:
        (requests,) = warehouse.query(once).rows[0]
        named = f"{kept} AND table_name = 'request_outcomes'"
        assert warehouse.ask(named).rows == [(0,)]
        assert warehouse.query(twice).rows[0][0] == requests
        assert warehouse.ask(named).rows == [(1,)]


def test_questions_asked_together_give_the_same_rows(
    store: Path, large: None, together: dict[str, list[str]]
) -> None:
    chosen = {n: QUESTIONS[n] for n in ("counted", "nothing of it", "joined", "nested")}
    with open_runs(RUNS, Reading(store=store, slo=SLO)) as warehouse:
        found = warehouse.ask_all(chosen)
    assert {n: sorted(map(repr, a.rows)) for n, a in found.items()} == {
        n: together[n] for n in chosen
    }


def test_an_answer_does_not_depend_on_earlier_questions(store: Path, large: None) -> None:
    requests = 51 + 3  # those that the engine admitted, and rows of the client that it refused
    counted = "SELECT count(*) AS requests FROM int_ruled"
    with open_runs(("errors_debug",), Reading(store=store, slo=SLO)) as warehouse:
        assert warehouse.query(counted).rows == [(requests,)]
        assert warehouse.query("SELECT count(outcome) FROM request_outcomes").rows[0][0] > 0
        assert warehouse.query(counted).rows == [(requests,)]
        assert warehouse.columns(counted)["requests"].tolist() == [requests]
        assert warehouse.query("DESCRIBE int_ruled").rows
        assert warehouse.query(counted).rows == [(requests,)]


def test_statements_build_only_the_views_that_they_name(
    store: Path, large: None, tmp_path: Path
) -> None:
    unnamed = "SELECT count(*) FROM duckdb_views() WHERE view_name = 'gpu_ledger'"
    runs = sorted((run,) for run in RUNS)
    described = [column.name for column in views()["goodput"].columns]
    file = tmp_path / "runs.csv"
    answers = {
        "CREATE TEMP TABLE mine AS SELECT run_id FROM goodput; FROM mine ORDER BY ALL": runs,
        f"COPY (SELECT run_id FROM goodput) TO '{file}'; FROM '{file}' ORDER BY ALL": runs,
        "SET threads = 1; ATTACH ':memory:' AS other; SELECT 1": [(1,)],
    }
    with open_runs(RUNS, Reading(store=store)) as warehouse:
        for query, answer in answers.items():
            assert warehouse.query(query).rows == answer, query
        for query in ("DESCRIBE goodput", "SHOW goodput"):
            assert [row[0] for row in warehouse.query(query).rows] == described, query
        assert warehouse.query("EXPLAIN FROM goodput").rows
        with pytest.raises(QueryError, match="nothing_of_the_kind"):
            warehouse.query("EXPLAIN FROM nothing_of_the_kind")
        assert warehouse.ask(unnamed).rows == [(0,)]


@pytest.mark.parametrize(
    "query",
    ["SHOW TABLES", "SET threads = 1; SHOW TABLES", "SET threads = 1; DESC TABLES",
     "SET threads = 1; SHOW TABLES FROM main",
     "CREATE TEMP TABLE names AS SELECT view_name FROM duckdb_views(); FROM names"],
)  # fmt: skip
def test_a_list_of_views_holds_all(store: Path, large: None, query: str) -> None:
    with open_runs(("errors_debug",), Reading(store=store)) as warehouse:
        assert set(views()) <= {row[0] for row in warehouse.query(query).rows}


def test_a_query_that_is_wrong_says_so(store: Path, large: None) -> None:
    with (
        open_runs(RUNS, Reading(store=store)) as warehouse,
        pytest.raises(QueryError, match="no_such_column"),
    ):
        warehouse.query("SELECT no_such_column FROM request_outcomes")


def test_a_plan_tells_which_columns_are_read() -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA planned")
        connection.execute("CREATE TABLE planned.t (a BIGINT, b BIGINT, c BIGINT, d BIGINT)")
        connection.execute("CREATE VIEW t AS FROM planned.t")

        def scans(sql: str) -> list[set[str]]:
            return scans_of(connection, Question(sql), "planned", ["t"])["t"]

        def read(sql: str) -> set[str]:
            return set().union(*scans(sql))

        assert read("SELECT a FROM t WHERE b > 1 ORDER BY c") == {"a", "b", "c"}
        assert read("SELECT x.a FROM (SELECT *, b + c AS e FROM t) AS x") == {"a"}
        assert read("SELECT count(*) FROM t") == set()
        assert read("SELECT a.a FROM t AS a JOIN t AS b USING (d)") == {"a", "d"}
        assert read("SELECT t FROM t") == {"a", "b", "c", "d"}
        assert scans("SELECT a FROM t WHERE b = (SELECT max(b) FROM t)") in (
            [{"a", "b"}, {"b"}],
            [{"b"}, {"a", "b"}],
        )
