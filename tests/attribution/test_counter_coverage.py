"""Counters cover a run's iterations, or its figures say that they do not.

Expectations are sums by hand over a few scrapes; instants are in seconds.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trueput.arrow import arrow_schema
from trueput.attribution.engine.counters import (
    GENERATION_TOKENS,
    PREEMPTIONS,
    STARTED,
    CounterLife,
    counter_lives,
)
from trueput.attribution.engine.coverage import LoggedLife, counted, judge

S = 1_000_000_000


def scrapes(
    *samples: tuple[float, float, float], engine: str = "0", started: int | None = None
) -> CounterLife:
    """A life from (instant, preemptions, generated tokens), in order."""
    (t0, p0, g0), (t1, p1, g1) = samples[0], samples[-1]
    ends = {
        (PREEMPTIONS, "", "counter"): ((round(t0 * S), p0), (round(t1 * S), p1)),
        (GENERATION_TOKENS, "", "counter"): ((round(t0 * S), g0), (round(t1 * S), g1)),
    }
    start = None if started is None else started * S
    return CounterLife(engine, frozenset({"m"}), ends, start, restarted=False)


def logged(first: int, last: int, *, from_start: bool = True) -> LoggedLife:
    return LoggedLife("0", first * S, last * S + S, from_start)


LOG = [logged(100, 150)]


def test_counters_known_before_and_after_are_the_run_s() -> None:
    found = judge([scrapes((99, 4, 50), (151, 9, 250))], LOG)
    assert found.uncovered is None
    assert (found.preemptions, found.grown[GENERATION_TOKENS]) == (5, 200)


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        (((99, 0, 0), (140, 3, 90)), "the scrapes end 11 s before the last iteration"),
        (((99, 0, 0), (150.5, 3, 90)), "the scrapes end 0.5 s before the last iteration"),
        (((120, 4, 50), (160, 9, 250)), "the scrapes begin 20 s after the first iteration"),
        (((170, 4, 50),), "no scrape shows a life"),
    ],
)
def test_what_is_not_covered_is_told_and_preemptions_are_unknown(
    samples: tuple[tuple[float, float, float], ...], said: str
) -> None:
    found = judge([scrapes(*samples)], LOG)
    assert (found.uncovered or "").startswith(said)
    assert found.preemptions is None


def test_a_process_that_began_with_the_log_counts_from_zero() -> None:
    found = judge([scrapes((170, 4, 50), started=90)], LOG)
    assert (found.uncovered, found.preemptions, found.grown[GENERATION_TOKENS]) == (None, 4, 50)


@pytest.mark.parametrize("first", [LOG[0], logged(100, 150, from_start=False)])
def test_a_start_proves_nothing_of_a_log_that_begins_late(first: LoggedLife) -> None:
    found = judge([scrapes((120, 4, 50), (160, 9, 250), started=90)], [first])
    assert (found.preemptions == 9) == first.from_start


def test_the_start_of_an_earlier_life_proves_nothing_of_a_later_one() -> None:
    # it began at 90 and counted both lives' worth; the log says the engine began again at 200
    lives = [logged(100, 150), logged(200, 250)]
    found = judge([scrapes((160, 1, 10), (260, 2, 20), started=190)], lives)
    assert (found.uncovered or "").startswith("no scrape shows a life")
    assert (found.preemptions, found.grown[GENERATION_TOKENS]) == (None, 20)


def test_both_lives_scraped_add_up() -> None:
    lives = [logged(100, 150), logged(200, 250)]
    two = [scrapes((99, 0, 0), (160, 2, 30)), scrapes((199, 0, 0), (260, 3, 40))]
    found = judge(two, lives)
    assert (found.uncovered, found.preemptions, found.grown[GENERATION_TOKENS]) == (None, 5, 70)


def test_more_processes_than_the_log_holds_are_not_its_work() -> None:
    found = judge([scrapes((99, 0, 0), (160, 2, 30)), scrapes((98, 0, 0), (160, 1, 9))], LOG)
    assert (found.uncovered or "").startswith("2 processes were scraped")
    assert found.grown == {}


def test_an_engine_that_was_scraped_and_not_logged_is_told() -> None:
    both = [scrapes((99, 0, 0), (160, 0, 30)), scrapes((99, 0, 0), (160, 4, 30), engine="1")]
    found = judge(both, LOG)
    assert found.uncovered == "the log lacks a life of engine 1 that was scraped"
    assert (found.preemptions, found.grown[GENERATION_TOKENS]) == (None, 30)


def test_no_preemption_before_a_late_scrape_hides_none() -> None:
    found = judge([scrapes((120, 0, 50), (160, 2, 250))], LOG)
    assert found.uncovered is not None
    assert found.preemptions == 2


def samples_file(
    folder: Path, name: str, rows: list[tuple[int, float]], started: float | None
) -> Path:
    every = [(at, PREEMPTIONS, "counter", value) for at, value in rows]
    if started is not None:
        every += [(at, STARTED, "gauge", started) for at, _ in rows]
    columns = {
        "run_id": "r", "source_id": name, "line": 1, "engine": "0", "incarnation": 0,
        "labels": "", "le": None,
    }  # fmt: skip
    table = [
        {**columns, "at_ns": at * S, "metric": m, "kind": k, "value": v} for at, m, k, v in every
    ]
    path = folder / f"{name}.parquet"
    pq.write_table(pa.Table.from_pylist(table, arrow_schema("engine_samples")), path)
    return path


@pytest.mark.parametrize("started", [None, 5.0])
def test_a_scrape_in_each_file_is_one_series(tmp_path: Path, started: float | None) -> None:
    held = [(20, 1.0), (10, 1.0), (30, 7.0)]
    files = [samples_file(tmp_path, f"f{at}", [(at, v)], started) for at, v in held]
    (life,) = counter_lives({"engine_samples": files}, lambda _: 0)
    assert (life.first_ns, life.last_ns) == (10 * S, 30 * S)
    assert life.growth(from_zero=False) == {PREEMPTIONS: 6}


def test_files_of_two_processes_are_two_series(tmp_path: Path) -> None:
    one = [samples_file(tmp_path, f"a{at}", [(at, v)], 5.0) for at, v in [(10, 1.0), (30, 4.0)]]
    two = [samples_file(tmp_path, f"b{at}", [(at, v)], 6.0) for at, v in [(11, 2.0), (31, 9.0)]]
    lives = counter_lives({"engine_samples": [*one, *two]}, lambda _: 0)
    assert [x.growth(from_zero=False)[PREEMPTIONS] for x in lives] == [3, 7]


@pytest.mark.parametrize(("value", "expected"), [(30.0, None), (0.0, 0)])
def test_a_single_scrape_alone_says_only_zero(
    tmp_path: Path, value: float, expected: int | None
) -> None:
    file = samples_file(tmp_path, "one", [(10, value)], None)
    assert counted({"engine_samples": [file]}, {}).preemptions == expected
