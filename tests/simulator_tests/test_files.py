"""The files of a run agree with each other and with the truth, read without the product."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
import tomllib
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from simulator import write_run
from simulator.__main__ import main
from simulator.clocks import SESSION_NS, unix_ns
from simulator.files import PROFILES
from simulator.truth import union
from simulator_tests.runs import VARIED, run_of

ITERATION = re.compile(
    r"Iteration\((\d+)\): (\d+) context requests, (\d+) context tokens, (\d+) generation "
    r"requests, (\d+) generation tokens, iteration elapsed time: ([\d.]+) ms"
)


def text_of(path: Path) -> str:
    """A compressed text."""
    return gzip.decompress(path.read_bytes()).decode()


@pytest.mark.parametrize("name", VARIED)
def test_log_bench_and_spans_agree(name: str, tmp_path: Path) -> None:
    run = run_of(name)
    folder = write_run(run, tmp_path / name, profiles=[])
    truth = json.loads((folder / "truth_run.json").read_text())
    lines = ITERATION.findall(text_of(folder / "server.log.gz"))
    assert [int(line[0]) for line in lines] == list(range(len(run.steps)))
    assert sum(int(line[2]) + int(line[4]) for line in lines) == truth["scheduled_tokens"]
    for line, step in zip(lines, run.steps, strict=True):
        assert abs(float(line[5]) * 1e6 - step.elapsed_ns) <= 5_001

    bench = json.loads(text_of(folder / "bench.json.gz"))
    assert bench["completed"] + bench["failed"] == len(run.requests)
    for one, start, ttft, itls in zip(
        run.requests, bench["start_times"], bench["ttfts"], bench["itls"], strict=True
    ):
        assert len(itls) == max(0, len(one.received_at) - 1)
        if one.received_at:
            assert ttft == pytest.approx((one.received_at[0] - one.sent_at) / 1e9, abs=1e-9)
        assert start > 0

    spans = [
        {x["key"]: next(iter(x["value"].values())) for x in span["attributes"]}
        for line in text_of(folder / "otlp.jsonl.gz").splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    ended = [one for one in run.requests if one.produced and one.aborted_at is None]
    assert len(spans) == len(ended)
    assert sum(int(span["gen_ai.usage.completion_tokens"]) for span in spans) == sum(
        one.produced for one in ended
    )
    truths = json.loads((folder / "truth_requests.json").read_text())
    good = sum(row["outcome"] == "good" for row in truths)
    assert bench["request_goodput"] == pytest.approx(good / bench["duration"])
    assert tomllib.loads((folder / "run.toml").read_text())["simulated"] is True


def _kineto(folder: Path) -> list[dict[str, Any]]:
    found = []
    for path in sorted((folder / "torch_profile").iterdir()):
        trace = json.loads(text_of(path), parse_float=Decimal)
        for event in trace["traceEvents"]:
            if "dur" in event:
                event["start"] = int(event["ts"] * 1000) + trace["baseTimeNanoseconds"]
                event["end"] = event["start"] + int(event["dur"] * 1000)
                event["rank"] = trace["distributedInfo"]["rank"]
                found.append(event)
    return found


def _truth_ops(name: str) -> Counter[tuple[int, int, int]]:
    return Counter(
        (op.device, unix_ns(op.start), unix_ns(op.end))
        for step in run_of(name).steps for op in step.device.ops
    )  # fmt: skip


@pytest.mark.parametrize("name", ["tiny", "overlapped"])
def test_kineto_holds_every_operation_to_the_nanosecond(name: str, tmp_path: Path) -> None:
    folder = write_run(run_of(name), tmp_path / name)
    events = _kineto(folder)
    ops = [e for e in events if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
    assert Counter((e["rank"], e["start"], e["end"]) for e in ops) == _truth_ops(name)
    calls = {(e["rank"], e["args"]["correlation"]): e for e in events if e["cat"] == "cuda_runtime"}
    marks = [e for e in events if e["cat"] == "user_annotation"]
    assert len(marks) == run_of(name).config.devices * len(run_of(name).steps)
    for op in ops:
        assert op["start"] >= calls[op["rank"], op["args"]["correlation"]]["end"] - 8_000
    shared = Counter((e["rank"], e["args"]["correlation"]) for e in ops)
    assert max(shared.values()) == 3 * run_of(name).config.layers
    for rank in {e["rank"] for e in marks}:
        ordered = sorted((e["start"], e["end"]) for e in marks if e["rank"] == rank)
        assert len(union(ordered)) == len(ordered)


@pytest.mark.parametrize("mode", ["eager", "node", "graph"])
def test_nsys_holds_every_operation_or_its_graph(mode: str, tmp_path: Path) -> None:
    folder = write_run(run_of("tiny"), tmp_path / mode, profiles=[f"nsys_{mode}"])
    connection = sqlite3.connect(folder / f"nsys_{mode}.sqlite")
    (zero,) = connection.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
    assert zero == unix_ns(-SESSION_NS)

    def rows(table: str) -> list[tuple[int, int, int]]:
        query = f'SELECT (globalPid >> 24 & 0xFFFFFF) - 4200, start, "end" FROM {table}'
        return [(device, zero + a, zero + b) for device, a, b in connection.execute(query)]

    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    found = Counter(
        row
        for kind in ("KERNEL", "MEMCPY", "MEMSET")
        for row in rows(f"CUPTI_ACTIVITY_KIND_{kind}")
    )
    truth = _truth_ops("tiny")
    if mode != "graph":
        assert found == truth
        assert "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" not in tables
    else:
        hidden = truth - found
        assert hidden
        assert not found - truth
        spans = rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
        assert all(any(d == s[0] and s[1] <= a and b <= s[2] for s in spans) for d, a, b in hidden)
    orphans = connection.execute(
        "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k WHERE NOT EXISTS (SELECT 1 FROM "
        "CUPTI_ACTIVITY_KIND_RUNTIME r WHERE r.correlationId = k.correlationId AND "
        "r.globalTid & ~0xFFFFFF = k.globalPid)"
    ).fetchone()
    assert orphans == (0,)
    nodes = "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE graphNodeId IS NOT NULL"
    assert (connection.execute(nodes).fetchone()[0] > 0) is (mode == "node")
    connection.close()


def test_the_command_writes_small_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(tmp_path), "--profiles", ",".join(PROFILES), "--set", "step_noise=0.05"]
    assert main(words) == 0
    folders = capsys.readouterr().out.split()
    assert len(folders) == len(PROFILES)
    for folder in map(Path, folders):
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        assert size < 150_000, f"{folder.name}: {size} bytes"


@pytest.mark.long
def test_a_kineto_run_is_well_under_a_megabyte(tmp_path: Path) -> None:
    folder = write_run(run_of("regression_candidate"), tmp_path / "run")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert size < 800_000
