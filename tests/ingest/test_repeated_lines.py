"""Lines that stand in an engine's log twice: every figure is that of the log without them."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading
from trueput.verbs.sql import sql

RUN = Path(__file__).parents[2] / "sample_data" / "regress_baseline"
LINES = gzip.decompress((RUN / "server.log.gz").read_bytes()).splitlines(keepends=True)
HALF = len(LINES) // 2
STEP = b"Iteration("
REFUSED = b'INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 400 Bad Request\n'

Ask = Callable[[str], list[dict[str, Any]]]
FIGURES = [
    "SELECT count(*) AS n, sum(elapsed_ns) AS ns FROM engine_steps",
    "SELECT scheduled_tokens AS n FROM recompute",
    "SELECT work, time_ns FROM gpu_ledger ORDER BY ALL",
    "SELECT count(*) AS n FROM requests WHERE vantage = 'engine'",
    "SELECT planned_requests AS n FROM goodput",
]


def read(folder: Path, logs: dict[str, list[bytes]]) -> Ask:
    """Ingest a run of these logs; return what asks it."""
    run = folder / "run"
    run.mkdir(parents=True)
    for name, lines in logs.items():
        (run / name).write_bytes(b"".join(lines))
    ingest([run], store=folder / "store")
    reading = Reading(store=folder / "store")
    return lambda query: sql(query, reading).dicts()


def told(ask: Ask) -> list[dict[str, Any]]:
    return ask("SELECT code, severity, occurrences AS n FROM problems")


def steps(lines: list[bytes]) -> int:
    return sum(STEP in line for line in lines)


def with_refusal(lines: list[bytes]) -> list[bytes]:
    """Return the lines with one refused request, which has no id and no time, among iterations."""
    at = next(n for n, line in enumerate(lines) if n > HALF - 60 and STEP in line)
    return [*lines[: at + 1], REFUSED, *lines[at + 1 :]]


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """The figures of the log in one piece."""
    ask = read(tmp_path_factory.mktemp("once"), {"server.log": with_refusal(LINES)})
    assert told(ask) == []
    return [ask(query) for query in FIGURES]


def test_a_window_that_a_collector_sent_twice(
    tmp_path: Path, once: list[list[dict[str, Any]]]
) -> None:
    lines = with_refusal(LINES)
    window = lines[HALF - 300 : HALF]
    assert REFUSED in window
    ask = read(tmp_path, {"server.log": lines[:HALF] + window + lines[HALF:]})
    assert [ask(query) for query in FIGURES] == once
    assert told(ask) == [{"code": "ATTR015", "severity": "warning", "n": steps(window)}]


def test_rotated_logs_that_overlap(tmp_path: Path, once: list[list[dict[str, Any]]]) -> None:
    lines = with_refusal(LINES)
    logs = {"server.log.1": lines[:HALF], "server.log": lines[HALF - 800 :]}
    ask = read(tmp_path, logs)
    assert [ask(query) for query in FIGURES] == once
    assert told(ask) == [
        {"code": "ATTR015", "severity": "warning", "n": steps(lines[HALF - 800 : HALF])}
    ]


def test_two_engines_that_number_alike_are_two(tmp_path: Path) -> None:
    """The log of a second engine at the same time: every third iteration took another time."""
    other = [
        line.replace(b"elapsed time: ", b"elapsed time: 1") if STEP in line and n % 3 == 0 else line
        for n, line in enumerate(LINES)
    ]
    ask = read(tmp_path, {"a.log": LINES, "b.log": other})
    assert ask("SELECT count(*) AS n FROM engine_steps") == [{"n": 2 * steps(LINES)}]
    assert "ATTR015" not in {row["code"] for row in told(ask)}


def test_a_server_that_is_started_again_repeats_nothing(tmp_path: Path) -> None:
    """Its numbers begin again, at later times."""
    later = [line.replace(b" 11-29 13:", b" 11-29 15:") for line in LINES]
    ask = read(tmp_path, {"server.log": LINES + later})
    assert ask("SELECT count(*) AS n FROM engine_steps") == [{"n": 2 * steps(LINES)}]
    assert "ATTR015" not in {row["code"] for row in told(ask)}
