"""Two requests of one id are two: a run reads as it does without what used its ids before."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading
from trueput.verbs.sql import sql

SAMPLES = Path(__file__).parents[2] / "sample_data"
FILES = ("run.toml", "server.log", "otlp.jsonl", "bench.json")
SLO = "ttft=5s,tpot=20ms"


def held(run: str, prefix: str = "") -> dict[str, bytes]:
    """Return the files of a recorded run, with another prefix of its ids."""
    found = {}
    for name in FILES:
        path = SAMPLES / run / name
        data = path.read_bytes() if path.exists() else gzip.decompress(
            path.with_name(f"{name}.gz").read_bytes())  # fmt: skip
        found[name] = data.replace(b"rb2-", prefix.encode()) if prefix else data
    return found


EARLIER, LATER = held("regress_baseline"), held("regress_baseline_r2", "rb-")


def read(folder: Path, files: dict[str, bytes]) -> Callable[[str], list[dict[str, Any]]]:
    """Ingest a run of these files; return what asks it."""
    run = folder / "run"
    run.mkdir(parents=True)
    for name, data in files.items():
        (run / name).write_bytes(data)
    ingest([run], store=folder / "store")
    reading = Reading(store=folder / "store", slo=SLO)
    return lambda query: sql(query, reading).dicts()


LOAD = """
    SELECT q.* EXCLUDE (replica), p.queue_ns, p.prefill_ns, p.decode_ns, p.outside_ns
    FROM request_outcomes AS q JOIN request_phases AS p USING (run_id, request_id)
    WHERE q.outcome <> 'other_traffic' ORDER BY q.row_ix
"""
GOODPUT = "SELECT * EXCLUDE (other_traffic_requests) FROM goodput"
LEDGER = "SELECT sum(time_ns) AS ns FROM gpu_ledger WHERE work = 'idle'"
CODES = "SELECT code, severity, occurrences FROM problems"


def unnamed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without the id, which has a number behind it where it names a second request."""
    return [{**row, "request_id": str(row["request_id"]).partition("#")[0]} for row in rows]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[dict[str, Any]]]:
    """The later run alone."""
    return read(tmp_path_factory.mktemp("alone"), LATER)


@pytest.mark.long
def test_an_earlier_server_that_was_sent_the_same_ids(
    tmp_path: Path, alone: Callable[[str], list[dict[str, Any]]]
) -> None:
    both = {
        name: EARLIER[name] + LATER[name] if name in {"server.log", "otlp.jsonl"} else LATER[name]
        for name in FILES
    }
    ask = read(tmp_path, both)
    assert unnamed(ask(LOAD)) == alone(LOAD)
    assert ask(GOODPUT) == alone(GOODPUT)
    assert ask(LEDGER) == alone(LEDGER)
    assert ask("SELECT other_traffic_requests AS n FROM goodput") == [{"n": 60}]
    assert ask(CODES) == [{"code": "ATTR013", "severity": "warning", "occurrences": 60}]


@pytest.mark.long
def test_a_warm_up_that_no_clock_anchor_dates(
    tmp_path: Path, alone: Callable[[str], list[dict[str, Any]]]
) -> None:
    """Some records of the engine once more, a minute before: the client's own are the others."""
    spans = LATER["otlp.jsonl"].splitlines(keepends=True)
    warm = []
    for line in spans:
        if b"gen_ai.request.id" in line and len(warm) < 2:
            told = json.loads(line)
            for scope in told["resourceSpans"][0]["scopeSpans"]:
                for span in scope["spans"]:
                    span["spanId"] = "ff" + span["spanId"][2:]
                    for key in ("startTimeUnixNano", "endTimeUnixNano"):
                        span[key] = str(int(span[key]) - 60 * 10**9)
            warm.append(json.dumps(told).encode() + b"\n")
    count = b"".join(warm).count(b"gen_ai.request.id")
    assert 5 < count < 30
    dated = LATER["run.toml"].partition(b"[[clock_anchors]]")
    steps = b"[[steps]]" + dated[2].partition(b"[[steps]]")[2]
    files = {**LATER, "run.toml": dated[0] + steps, "otlp.jsonl": b"".join(warm + spans)}
    ask = read(tmp_path, files)
    sums = (
        "SELECT outcome, count(*) AS n, sum(output_tokens) AS tokens FROM request_outcomes "
        "GROUP BY ALL ORDER BY ALL"
    )
    (other,) = [row for row in ask(sums) if row["outcome"] == "other_traffic"]
    assert other["n"] == count
    assert [row for row in ask(sums) if row["outcome"] != "other_traffic"] == alone(sums)
    assert ask("SELECT code, occurrences AS n FROM problems") == [{"code": "ATTR013", "n": count}]


@pytest.mark.long
def test_two_loads_of_one_prefix_each_have_their_own(tmp_path: Path) -> None:
    both = {
        "run.toml": LATER["run.toml"],
        "one.json": EARLIER["bench.json"],
        "two.json": LATER["bench.json"],
        "server.log": EARLIER["server.log"] + LATER["server.log"],
        "otlp.jsonl": EARLIER["otlp.jsonl"] + LATER["otlp.jsonl"],
    }
    ask = read(tmp_path, both)
    query = "SELECT session, complete_requests AS n, window_s AS s FROM goodput ORDER BY 1"
    # the client's own duration holds some ten milliseconds before its first send
    expected = [
        {"session": name, "n": 60, "s": pytest.approx(json.loads(data)["duration"], abs=0.1)}
        for name, data in (("one", EARLIER["bench.json"]), ("two", LATER["bench.json"]))
    ]
    assert ask(query) == expected
    # the engine's own times of each request lie within those of its client
    outside = "SELECT count(*) AS n, min(outside_ns) >= 0 AS ok FROM request_phases WHERE is_load"
    assert ask(outside) == [{"n": 120, "ok": True}]
    assert ask(CODES) == [{"code": "ATTR013", "severity": "warning", "occurrences": 60}]


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("names", [("server.log",), ("otlp.jsonl",), ("server.log", "otlp.jsonl")])
def test_without_a_client(tmp_path: Path, names: tuple[str, ...]) -> None:
    """Every `Added request` of the two logs has an engine id of its own: 120."""
    ask = read(tmp_path, {name: EARLIER[name] + LATER[name] for name in names})
    assert EARLIER["server.log"].count(b"Added request cmpl-") == 60
    assert ask("SELECT count(*) AS n FROM request_outcomes") == [{"n": 120}]
    assert ask(CODES) == [{"code": "ATTR013", "severity": "warning", "occurrences": 60}]


CLIENT = """
[columns]
file = "client.jsonl"
vantage = "client"
[columns.names]
request_id = "id"
sent_at = "t0"
ended_at = "t1"
status = "st"
[columns.units]
t0 = "s"
t1 = "s"
"""
NOON = 1_795_953_600
"""2026-11-29 12:00:00 UTC."""
SENDS = (0, 3, 4, 8, 13)


def rows(ids: list[str | None], at: int) -> bytes:
    """Return a client's records of these ids, sent from this second on."""
    made = [
        {"id": name, "t0": at + send, "t1": at + send + 1, "st": "ok"}
        for name, send in zip(ids, SENDS, strict=False)
    ]
    return "".join(json.dumps(row) + "\n" for row in made).encode()


def log(*loads: int) -> bytes:
    """Return the log of an engine two hours east that got five ids at each of these seconds."""
    lines = []
    for load, at in enumerate(loads):
        for number, send in enumerate(SENDS):
            hour, rest = divmod(at + send, 3600)
            when = f"11-29 {14 + hour}:{rest // 60:02}:{rest % 60:02}"
            head, name = f"(APIServer pid=7) INFO {when}", f"cmpl-x{number}-0"
            lines.append(
                f"{head} [request_logger.py:65] Received request {name}: "
                "params: SamplingParams(n=1, max_tokens=3), lora_request: None."
            )
            lines.append(f"{head} [async_llm.py:578] Added request {name}-{load:04x}{number:04x}.")
    return "\n".join(lines).encode() + b"\n"


TIED = """
    SELECT c.row_ix AS row, e.arrived_at_ns // 1000000000 - getvariable('noon') AS s
    FROM requests AS c JOIN requests AS e USING (run_id, request_id)
    WHERE c.vantage = 'client' AND e.vantage = 'engine' ORDER BY 1
"""


def tied(ask: Callable[[str], list[dict[str, Any]]]) -> list[tuple[int, int]]:
    """Return which second after noon each client row's request came to the engine."""
    found = ask(TIED.replace("getvariable('noon')", str(NOON)))
    return [(row["row"], row["s"]) for row in found]


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("at", [60, 900])
def test_a_log_in_a_zone_that_only_the_sends_tell(tmp_path: Path, at: int) -> None:
    """Zones are whole quarters of an hour apart: loads that are too can be either."""
    ids: list[str | None] = [f"cmpl-x{n}-0" for n in range(5)]
    toml, client = CLIENT.encode(), rows(ids, NOON + at)
    ask = read(tmp_path, {"run.toml": toml, "client.jsonl": client, "server.log": log(0, at)})
    sure = [(n, at + send) for n, send in enumerate(SENDS)]
    assert tied(ask) == (sure if at == 60 else [])
    assert ask(CODES + " WHERE code = 'ATTR013'") == [
        {"code": "ATTR013", "severity": "warning", "occurrences": 5}
    ]


def test_a_record_without_an_id_costs_only_its_own(tmp_path: Path) -> None:
    """Three ids of four: those three are tied, and the engine's fourth request is other traffic."""
    ids = ["cmpl-x0-0", None, "cmpl-x2-0", "", "cmpl-x4-0"]
    files = {"run.toml": CLIENT.encode(), "client.jsonl": rows(ids, NOON), "server.log": log(0)}
    ask = read(tmp_path, files)
    assert tied(ask) == [(n, SENDS[n]) for n in (0, 2, 4)]
    counts = "SELECT planned_requests AS n, other_traffic_requests AS other FROM goodput"
    assert ask(counts) == [{"n": 5, "other": 2}]
    codes = "SELECT code, occurrences AS n FROM problems ORDER BY 1"
    assert ask(codes) == [{"code": "ATTR001", "n": 2}, {"code": "RECORDS011", "n": 2}]


@pytest.mark.long(besides=2)
@pytest.mark.parametrize("vantage", ["engine", "server", "router", "client"])
@pytest.mark.parametrize("ids", ["missing", "again"])
def test_ten_records_are_ten_requests(tmp_path: Path, vantage: str, ids: str) -> None:
    """Ten records of a second each, the last of them aborted; ids are missing, or used again."""
    start = "sent_at" if vantage == "client" else "arrived_at"
    toml = CLIENT.replace('vantage = "client"', f'vantage = "{vantage}"').replace("sent_at", start)
    names = [f"r{n}" for n in range(5)] + ([None, None, None, "", ""] if ids == "missing" else
                                           [f"r{n}" for n in range(5)])  # fmt: skip
    made = [
        {
            "id": name,
            "t0": NOON + 40 * n,
            "t1": NOON + 40 * n + 1,
            "st": "ok" if n < 9 else "aborted",
        }
        for n, name in enumerate(names)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in made).encode()
    ask = read(tmp_path, {"run.toml": toml.encode(), "client.jsonl": lines})
    goodput = ask(
        "SELECT planned_requests AS n, complete_requests AS ok, aborted_requests AS cut, "
        "window_s AS s FROM goodput"
    )
    assert goodput == [{"n": 10, "ok": 9, "cut": 1, "s": 361.0}]
    longest = ask("SELECT max(e2e_ns) AS ns FROM request_outcomes")
    assert longest == [{"ns": 10**9}]
    code = "RECORDS011" if ids == "missing" else "ATTR013"
    assert ask(CODES) == [{"code": code, "severity": "warning", "occurrences": 5}]
    if ids == "again":
        (told,) = ask("SELECT text FROM problems")
        by = "the engine's own ids and times" if vantage == "engine" else "; their times"
        assert f"{by} tell them apart" in told["text"]
