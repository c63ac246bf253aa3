"""Figures of a run are of its window: what other lives, other traffic and other times did is not.

The oracles are the instrumented scheduler, the engine's own log and counters read apart from the
program, and that windows which follow each other share the whole out among them.
"""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cases.truth import load_truth

from trueput.verbs.ingest import ingest
from trueput.verbs.opening import Reading, open_runs
from trueput.verbs.show import show
from trueput.verbs.sql import sql

if TYPE_CHECKING:
    from cases.conftest import RowsOf

S = 10**9
_LINE = re.compile(
    r"INFO (\d\d-\d\d \d\d:\d\d:\d\d) .*Iteration\((\d+)\): \d+ context requests, (\d+) context "
    r"tokens, \d+ generation requests, (\d+) generation tokens"
)


def lines_of(path: Path) -> list[str]:
    """The lines of a recorded file, packed or not."""
    packed = path.with_name(path.name + ".gz")
    data = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    return data.decode().splitlines()


def iterations(folder: Path) -> list[tuple[int, int, int]]:
    """Number, printed second (UTC, ns) and tokens of each iteration of a log of 2026."""
    found = []
    for line in lines_of(folder / "server.log"):
        if told := _LINE.search(line):
            at = datetime.strptime(f"2026-{told[1]}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
            found.append((int(told[2]), int(at.timestamp()) * S, int(told[3]) + int(told[4])))
    return found


def of_window(store: Path, run: str, window: str, columns: str, view: str) -> dict[str, Any]:
    """Those columns of a view's one row of a run, in a window."""
    query = f"SELECT {columns} FROM {view} WHERE run_id = '{run}'"
    (row,) = sql(query, Reading(store=store, window=window), runs=[run]).dicts()
    return row


def test_recompute_of_a_window_is_what_the_scheduler_computed_again_in_it(
    store: Path, fixtures: Path
) -> None:
    """Recomputed tokens by the scheduler, summed over the iterations printed in 10..30 s."""
    run = "candidate_overload_truth"
    folder = fixtures / "vllm_cpu" / run
    origin = of_window(store, run, "all", "origin_ns", "int_run_windows")["origin_ns"]
    begin, end = origin + 10 * S, origin + 30 * S
    again: dict[int, int] = {}
    for life in load_truth(folder).lives.values():
        for step, tokens in life.recomputed.items():
            again[step] = again.get(step, 0) + tokens
    inside = {step for step, at, _ in iterations(folder) if begin <= at + S // 2 <= end}
    truth = sum(tokens for step, tokens in again.items() if step in inside)
    assert 0 < truth < sum(again.values())
    found = of_window(store, run, "fixed:10s..30s", "*", "recompute")
    assert found["recomputed_tokens_low"] <= truth <= found["recomputed_tokens_high"]
    assert found["recomputed_tokens"] == pytest.approx(truth, rel=0.01)
    assert found["scheduled_tokens"] == sum(
        tokens for step, _, tokens in iterations(folder) if step in inside
    )


@pytest.mark.parametrize("run", ["regress_candidate", "candidate_overload_truth", "baseline_high"])
def test_windows_that_follow_each_other_share_out_the_whole(store: Path, run: str) -> None:
    """Each iteration is in one of them, also those printed in the second of the first send."""
    columns = "recomputed_tokens, scheduled_tokens, recompute_ns"
    whole = of_window(store, run, "all", columns, "recompute")
    ends = [0, 7, 20, 33, 90]
    parts = [
        of_window(store, run, f"fixed:{a}s..{b}s", columns, "recompute") for a, b in pairwise(ends)
    ]
    for name in columns.split(", "):
        assert sum(p[name] or 0 for p in parts) == whole[name]


@pytest.mark.parametrize("run", ["prefix_cache", "errors_debug"])
def test_a_fixed_window_over_the_whole_load_is_that_of_the_whole(store: Path, run: str) -> None:
    """To the last nanosecond of it, and every view: two names of one window cannot differ."""
    views = ("goodput", "gpu_ledger", "gpu_activity", "recompute", "batching", "run_phases",
             "prefix_cache", "evidence", "problems")  # fmt: skip
    found = []
    window = "all"
    for _ in range(2):
        with open_runs([run], Reading(store=store, window=window, slo="ttft=1s")) as warehouse:
            found.append(warehouse.views(views))
        window = f"fixed:0s..{found[0]['goodput'][0]['window_ns']}ns"
    for row in found[0]["goodput"]:
        row["window_rule"] = "fixed"
    for view in views:
        ordered = [sorted(map(repr, one[view])) for one in found]
        assert ordered[0] == ordered[1], view


def test_never_sent_requests_are_of_the_whole_load_alone(store: Path) -> None:
    """48 planned, 45 sent (README of the run), and of 3 nobody knows when they were to be sent."""
    run, columns = "prefix_cache", "planned_requests, sent_requests, not_sent_requests"
    parts = [
        of_window(store, run, window, columns, "goodput")
        for window in ("fixed:0s..12s", "fixed:12s..60s", "all")
    ]
    assert [p["not_sent_requests"] for p in parts] == [0, 0, 3]
    assert parts[0]["planned_requests"] + parts[1]["planned_requests"] == 45
    assert (parts[2]["planned_requests"], parts[2]["sent_requests"]) == (48, 45)
    told = sql(
        "SELECT code, occurrences FROM problems WHERE code LIKE 'WINDOW%' AND severity = 'warning'",
        Reading(store=store, window="fixed:100s..200s"),
        runs=[run],
    ).dicts()
    # after the load: nothing was observed, neither of requests nor of iterations
    assert sorted((t["code"], t["occurrences"]) for t in told) == [
        ("WINDOW001", 1), ("WINDOW001", 1), ("WINDOW002", 3),
    ]  # fmt: skip
    beyond = of_window(store, run, "fixed:100s..200s", "*", "recompute")
    figures = {name for name, value in beyond.items() if value is not None}
    assert figures == {"run_id", "method", "basis"}
    assert beyond["basis"] == "unknown"


def test_a_window_has_its_own_requests_and_their_time(store: Path, fixtures: Path) -> None:
    """Four requests were sent in the first 5 s, by the client's own file: their wall time alone."""
    run, reading = "regress_candidate", Reading(store=store, window="fixed:0s..5s")
    bench = json.loads("\n".join(lines_of(fixtures / "vllm_cpu" / run / "bench.json")))
    starts = bench["start_times"]
    chosen = [i for i, at in enumerate(starts) if at - min(starts) <= 5]
    found = show(run, reading)
    (row,) = found["goodput"]
    assert row["planned_requests"] == len(chosen) == 4
    wall = sum(bench["ttfts"][i] + sum(bench["itls"][i]) for i in chosen)
    told = sum(r["time_ns"] for r in found["run_phases"] if r["time_ns"] is not None)
    assert told == pytest.approx(wall * S, rel=0.01)
    assert {r["request_id"] for r in found["paid_most"]} == set()
    assert found["recompute"][0]["recomputed_tokens"] == 0


def counter(folder: Path, name: str) -> list[tuple[int, float]]:
    """Scrapes of one counter: instant in ns, value."""
    found, at = [], 0
    for line in lines_of(folder / "metrics.prom"):
        if line.startswith("# SCRAPE "):
            at = round(float(line.split()[2]) * S)
        elif line.startswith(name + "{"):
            found.append((at, float(line.rpartition(" ")[2])))
    return found


def test_what_other_traffic_did_before_the_load_is_the_engine_s_and_not_in_the_ledger(
    store: Path, fixtures: Path, rows_of: RowsOf
) -> None:
    """All 8 preemptions of this log lie outside the client's load, by the scraped counter."""
    run = "errors_debug"
    window = of_window(store, run, "all", "from_ns, to_ns", "int_run_windows")
    scrapes = counter(fixtures / "vllm_cpu" / run, "vllm:num_preemptions_total")
    assert scrapes[-1][1] - scrapes[0][1] == 8
    before = max(s for s in scrapes if s[0] <= window["from_ns"])[1]
    after = min((s for s in scrapes if s[0] >= window["to_ns"]), default=scrapes[-1])[1]
    assert after - before == 0
    (found,) = rows_of("recompute", run)
    assert (found["preemptions"], found["recomputed_tokens"]) == (8, 689)  # README of the run
    ledger = [r["time_ns"] for r in rows_of("gpu_ledger", run) if r["work"] == "recompute"]
    assert sum(ledger) == 0


def after_another_life(fixtures: Path, first: str, run: str, into: Path) -> Path:
    """The files of a run whose log, metrics and spans begin with those of an earlier server."""
    into.mkdir()
    source = fixtures / "vllm_cpu"
    for name in ("server.log", "metrics.prom", "otlp.jsonl"):
        lines = [line for one in (first, run) for line in lines_of(source / one / name)]
        (into / name).write_text("\n".join(lines) + "\n")
    for name in ("bench.json", "run.toml"):
        (into / name).write_text("\n".join(lines_of(source / run / name)) + "\n")
    return into


def test_an_earlier_life_of_the_server_is_not_the_run_s(fixtures: Path, tmp_path: Path) -> None:
    """No request of r2 was preempted, 30 of the life before it were; and the other way round."""
    mixed = [
        ("regress_candidate", "regress_baseline_r2"),
        ("regress_baseline", "regress_candidate"),
    ]
    paths = [after_another_life(fixtures, first, run, tmp_path / run) for first, run in mixed]
    store = tmp_path / "store"
    ingest(paths, store=store)
    query = "SELECT preemptions, recomputed_tokens, scheduled_tokens, preempted_requests FROM "
    rows = {
        run: sql(f"{query}recompute", Reading(store=store), runs=[run]).dicts()[0]
        for _, run in mixed
    }
    assert list(rows["regress_baseline_r2"].values()) == [0, 0, 42_399, 0]
    assert list(rows["regress_candidate"].values()) == [30, 17_288, 59_687, 30]


@pytest.mark.parametrize("window", ["fixed:10s..10.1s", "fixed:10.4s..10.6s", "fixed:10.2s..10.7s"])
def test_of_a_part_of_a_printed_second_nothing_is_said_of_the_engine(
    store: Path, fixtures: Path, window: str
) -> None:
    """The log prints iterations in every second around: neither 0 nor all of them is known."""
    run = "regress_candidate"
    origin = of_window(store, run, "all", "origin_ns", "int_run_windows")["origin_ns"]
    begin = (origin + 10 * S) // S * S
    assert {at for _, at, _ in iterations(fixtures / "vllm_cpu" / run)} >= {begin, begin + S}
    found = show(run, Reading(store=store, window=window))
    assert [row["metric"] for row in found["gpu_activity"] if row["metric"] == "engine_step"] == []
    assert found["gpu_ledger"] == found["gpu_idle"] == []
    (again,) = found["recompute"]
    assert again["recomputed_tokens"] is again["recompute_ns"] is again["scheduled_tokens"] is None
    assert (again["recomputed_tokens_low"], again["recomputed_tokens_high"]) == (0, 17_288)
    assert again["basis"] == "bounded"
    assert "WINDOW006" in {problem["code"] for problem in found["problems"]}
