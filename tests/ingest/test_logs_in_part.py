"""A recorded log without its first, its last or half of its lines: what it proves of the whole."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from cases.recorded import fixtures_root

from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading
from trueput.verbs.sql import sql

Cut = Callable[[Sequence[str], Sequence[int]], Sequence[str]]

CUTS: dict[str, Cut] = {
    "whole": lambda lines, _: lines,
    # as by a logger that starts with the load
    "without start-up": lambda lines, places: lines[places[0] :],
    "first half": lambda lines, _: lines[: len(lines) // 2],
    "without the first 100": lambda lines, places: lines[places[100] :],
    "without the last 10": lambda lines, places: lines[: places[-10]],
}
WHOLE = ("whole", "without start-up")
QUERY = """
SELECT t.run_id, t.time_ns AS idle_ns, t.time_ns_low, t.time_ns_high, t.basis AS idle_basis,
  coalesce(u.time_ns, 0) AS unattributed_ns, a.basis, p.text
FROM gpu_ledger AS t
LEFT JOIN gpu_ledger AS u ON u.run_id = t.run_id AND u.work = 'unattributed'
JOIN (SELECT run_id, string_agg(DISTINCT basis) AS basis FROM gpu_activity GROUP BY run_id) AS a
  ON a.run_id = t.run_id
LEFT JOIN problems AS p ON p.run_id = t.run_id
WHERE t.work = 'idle'
"""
TOLD = {
    "first half": "the engine's log ends 25.5 s before the last answer that its client received",
    # the first token came 0.43 s into the second of iteration 0; 100 is printed in the next
    "without the first 100": "the engine's log begins at iteration 100, 0.569 s after the first "
    "token that its client received",
    # four iterations of 2,881 gave no token, and are not counted
    "without the last 10": "the engine's log ends at iteration 2870, and its counter had counted "
    "2877 iterations when the load ended",
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("parts")
    source = fixtures_root() / "vllm_cpu" / "regress_candidate"
    with gzip.open(source / "server.log.gz", "rt") as file:
        lines = file.read().splitlines(keepends=True)
    places = [at for at, line in enumerate(lines) if "Iteration(" in line]
    for name, cut in CUTS.items():
        shutil.copytree(source, folder / name)
        with gzip.open(folder / name / "server.log.gz", "wt", compresslevel=1) as file:
            file.write("".join(cut(lines, places)))
    ingest([folder / name for name in CUTS], store=folder / "store")
    return {row["run_id"]: row for row in sql(QUERY, Reading(store=folder / "store")).dicts()}


@pytest.mark.parametrize("cut", CUTS)
def test_a_part_of_a_log_bounds_what_the_whole_says(
    rows: dict[str, dict[str, Any]], cut: str
) -> None:
    (name,) = (run for run in rows if run.replace("_", " ") == cut)
    row, idle_ns = rows[name], rows["whole"]["idle_ns"]
    assert row["text"] == TOLD.get(cut)
    assert row["time_ns_low"] <= idle_ns <= row["time_ns_high"]
    if cut in WHOLE:
        assert row["time_ns_low"] == row["time_ns_high"]
        assert (row["idle_basis"], row["basis"], row["unattributed_ns"]) == (
            "reported",
            "reported",
            0,
        )
    else:
        assert row["time_ns_low"] < row["time_ns_high"]
        assert (row["idle_basis"], row["basis"]) == ("bounded", "bounded")


def test_the_time_after_the_last_line_is_not_idle(rows: dict[str, dict[str, Any]]) -> None:
    """The last line's second ends 24.5 s before the last answer."""
    half = next(row for run, row in rows.items() if "half" in run)
    assert 24.5e9 < half["unattributed_ns"] < 24.6e9
    assert half["idle_ns"] < 27.8e9 - 24.5e9
