"""What must add up in every recorded run, and the counts that are known from elsewhere."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from cases.recorded import RUNS

from trueput.schema import views

if TYPE_CHECKING:
    from cases.conftest import Ask, RowsOf

PARTS = ("queue", "prefill", "decode", "requeue", "recompute", "kv_transfer", "outside",
         "unattributed")  # fmt: skip
CHECKS = sorted(name for name in views() if name.startswith("check_"))
# sent and complete as the clients printed them; all sent, none lost
WHOLE = {
    "baseline_low": 14,
    "regress_baseline": 60,
    "regress_baseline_r2": 60,
    "regress_candidate": 60,
    "regress_candidate_truth": 60,
    "baseline_high": 56,
    "candidate_high": 56,
    "control_baseline": 50,
    "control_candidate": 50,
    "candidate_overload_truth": 44,
    "torch_profile": 22,
}
# goodput as the client printed it, under the objective of its own command
PRINTED_GOODPUT = {
    "baseline_low": 0.37,
    "regress_baseline": 1.07,
    "regress_baseline_r2": 1.24,
    "regress_candidate": 0.85,
    "regress_candidate_truth": 0.80,
    "baseline_high": 0.54,
    "candidate_high": 0.44,
    "control_baseline": 0.70,
    "control_candidate": 1.02,
    "candidate_overload_truth": 0.00,
    "prefix_cache": 1.36,
    "errors_debug": 0.27,
    "torch_profile": 0.06,
}


def test_all_runs_are_there(ask: Ask) -> None:
    assert [r["run_id"] for r in ask("SELECT run_id FROM runs ORDER BY run_id")] == list(RUNS)


@pytest.mark.parametrize("check", CHECKS)
def test_checks_are_empty(ask: Ask, check: str) -> None:
    assert ask(f"FROM {check}") == []


def test_there_are_at_least_six_checks() -> None:
    assert len(CHECKS) >= 6


def test_the_phases_of_every_request_sum_to_its_wall_time(ask: Ask) -> None:
    rows = [r for r in ask("FROM request_phases") if r["e2e_ns"] is not None]
    assert len({r["run_id"] for r in rows}) == len(RUNS)
    for row in rows:
        parts = [row[f"{part}_ns"] for part in PARTS]
        assert sum(p or 0 for p in parts) == row["e2e_ns"], row
        assert all(p is None or p >= 0 for p in parts), row


def test_an_unknown_phase_is_null_and_says_so(ask: Ask) -> None:
    for row in ask("FROM request_phases"):
        for part in PARTS:
            assert (row[f"{part}_ns"] is None) == (row[f"{part}_basis"] == "unknown"), (row, part)


def test_every_ledger_sums_to_window_times_devices(ask: Ask) -> None:
    rows = ask("FROM gpu_ledger")
    assert {r["run_id"] for r in rows} == set(RUNS)
    for run in RUNS:
        cells = [r for r in rows if r["run_id"] == run]
        whole = cells[0]["window_ns"] * cells[0]["devices"]
        assert sum(c["time_ns"] or 0 for c in cells) == whole, run
        for cell in cells:
            if cell["time_ns"] is not None:
                assert cell["time_ns_low"] <= cell["time_ns"] <= cell["time_ns_high"], cell


def test_outcomes_partition_the_planned_requests(ask: Ask) -> None:
    counted = ("good", "late", "rejected", "failed", "aborted", "unfinished", "not_sent", "unknown")
    for row in ask("FROM goodput"):
        if row["slo"] is None:
            continue
        assert sum(row[f"{name}_requests"] for name in counted) == row["planned_requests"], row
    by_request = ask(
        "SELECT run_id, count(*) AS n FROM request_outcomes "
        "WHERE outcome IS DISTINCT FROM 'other_traffic' GROUP BY run_id"
    )
    planned = {r["run_id"]: r["planned_requests"] for r in ask("FROM goodput")}
    assert {r["run_id"]: r["n"] for r in by_request} == planned


@pytest.mark.parametrize("run", WHOLE)
def test_all_that_was_planned_came_back(rows_of: RowsOf, run: str) -> None:
    (row,) = rows_of("goodput", run)
    chain = ("planned", "sent", "answered", "complete")
    assert {row[f"{name}_requests"] for name in chain} == {WHOLE[run]}
    assert row["client_claimed_complete_requests"] == WHOLE[run]


@pytest.mark.parametrize("run", PRINTED_GOODPUT)
def test_goodput_is_what_the_client_printed(rows_of: RowsOf, run: str) -> None:
    (row,) = rows_of("goodput", run)
    # the client divides by its own duration, which goes on for some ms after the last reply
    assert row["goodput_rps"] == pytest.approx(PRINTED_GOODPUT[run], rel=0.01, abs=0.006)


def test_errors_debug_client_side(rows_of: RowsOf) -> None:
    (row,) = rows_of("goodput", "errors_debug")
    assert row["planned_requests"] == row["sent_requests"] == 10
    assert (row["complete_requests"], row["rejected_requests"]) == (7, 3)
    assert (row["failed_requests"], row["aborted_requests"], row["unknown_requests"]) == (0, 0, 0)


def test_errors_debug_engine_side(rows_of: RowsOf) -> None:
    rows = [r for r in rows_of("requests", "errors_debug") if r["vantage"] == "engine"]
    found = Counter(r["status"] for r in rows)
    assert found.pop("refused", 0) == 7, "refused requests, seen only as access lines"
    assert found == {"finished": 41, "aborted": 10}, "51 admitted"


def test_prefix_cache_counts_what_was_never_sent(rows_of: RowsOf) -> None:
    (row,) = rows_of("goodput", "prefix_cache")
    assert (row["planned_requests"], row["sent_requests"]) == (48, 45)
    assert (row["not_sent_requests"], row["complete_requests"]) == (3, 45)


@pytest.mark.parametrize(("run", "sent", "finished", "aborted"), [
    ("aiperf", 40, 38, 2),
    ("guidellm", 51, 22, 29),
])  # fmt: skip
def test_engine_side_of_other_clients(
    rows_of: RowsOf, run: str, sent: int, finished: int, aborted: int
) -> None:
    (row,) = rows_of("goodput", run)
    assert row["sent_requests"] == sent
    assert (row["complete_requests"], row["aborted_requests"]) == (finished, aborted)
    # the log has one `"POST /v1/... 200` for each: who left in the midst of a stream was answered
    assert row["answered_requests"] == sent
    assert row["good_requests"] is None, "no objective is known"
    assert row["client_claimed_complete_requests"] is None, "the client's files are not read"


def test_no_source_claims_the_truth(ask: Ask) -> None:
    assert ask("FROM sources WHERE source_id LIKE '%truth_%' AND format IS NOT NULL") == []


def test_no_text_of_prompts_or_replies_is_kept(ask: Ask) -> None:
    rows = ask("SELECT DISTINCT text FROM problems")
    rows += ask("SELECT DISTINCT detail AS text FROM request_events")
    assert all(len(r["text"] or "") < 300 for r in rows)
