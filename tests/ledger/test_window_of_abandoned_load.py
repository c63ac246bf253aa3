"""The window of a load whose last requests were given up: its client tells no end of them.

It tells how long the whole load took; that, and its last token, hold the end between them.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from simulator import SCENARIOS, Config, simulate, write_run

import trueput

HASTY = SCENARIOS["troubled"].replace(
    requests=14, request_rate=40.0, max_num_seqs=2, timeout_s=1.3, refused_ratio=0.0,
    abort_ratio=0.0,
)  # fmt: skip
RUNS = {
    "last_given_up": (HASTY, 6001),
    # others were answered and given up little before: their last signs are nearly the end
    "many_given_up": (
        SCENARIOS["tiny"].replace(requests=30, devices=4, abort_ratio=0.2, timeout_s=0.4), 5004,
    ),
}  # fmt: skip
CLOSE = 0.01
# a victim is given up before it is resumed, and what others computed again is not told for certain
OPEN_RECOMPUTE = SCENARIOS["troubled"].replace(
    requests=50, request_rate=40.0, timeout_s=1.2, stall_ratio=0.05, stall_ns=200_000_000,
    abort_ratio=0.3, early_stop_ratio=0.0, max_num_batched_tokens=32, devices=1, workload_seed=12,
)  # fmt: skip


def made(folder: Path, config: Config, seed: int, *profiles: str) -> Path:
    """Write the run; return its folder."""
    run = simulate(config.replace(workload_seed=seed), seed)
    write_run(run, folder, profiles=profiles, with_telemetry=False, compresslevel=1)
    return folder


@pytest.mark.parametrize("name", RUNS)
def test_the_end_lies_between_the_last_token_and_the_client_s_duration(
    tmp_path: Path, name: str
) -> None:
    folder = made(tmp_path / name, *RUNS[name])
    reading = trueput.Reading(store=tmp_path / "store")
    trueput.ingest([folder], store=reading.store)
    (row,) = trueput.sql("FROM goodput", reading).dicts()
    window_ns = json.loads((folder / "truth_ledger.json").read_text())["window_ns"]
    ended = json.loads((folder / "truth_requests.json").read_text())
    good = sum(one["outcome"] == "good" for one in ended)
    assert row["good_requests"] == good > 0
    assert row["window_ns"] == pytest.approx(window_ns, rel=CLOSE)
    assert row["goodput_rps_low"] <= good / (window_ns / 1e9) <= row["goodput_rps_high"]
    assert row["basis"] == "bounded"


def test_idle_is_as_open_as_the_end_of_the_load(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", *RUNS["last_given_up"], "kineto")
    reading = trueput.Reading(store=tmp_path / "store")
    trueput.ingest([folder], store=reading.store)
    truth = json.loads((folder / "truth_ledger.json").read_text())
    true = {cell["work"]: cell["time_ns"] for cell in truth["cells"] if cell["outcome"] == "none"}
    rows = trueput.sql("FROM gpu_ledger", reading).dicts()
    found = {row["work"]: row for row in rows if row["outcome"] == "none"}
    assert found["idle"]["basis"] == "bounded"
    for work in ("idle", "unattributed"):
        row = found[work]
        assert row["time_ns_low"] <= true[work] <= row["time_ns_high"], work
    devices = rows[0]["devices"]
    assert sum(row["time_ns"] for row in rows) == rows[0]["window_ns"] * devices
    (split,) = trueput.sql("FROM gpu_idle", reading).dicts()
    assert split["work_waiting_ns_low"] <= split["work_waiting_ns_high"]


def test_without_a_duration_the_load_ends_with_its_last_sign(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", *RUNS["last_given_up"])
    bench = json.loads(gzip.decompress((folder / "bench.json.gz").read_bytes()))
    sent, gaps = bench["start_times"], bench["itls"]
    last = max(
        at + ttft + sum(more) for at, ttft, more in zip(sent, bench["ttfts"], gaps, strict=True)
    )
    del bench["duration"]
    (folder / "bench.json.gz").write_bytes(gzip.compress(json.dumps(bench).encode()))
    for other in ("server.log.gz", "otlp.jsonl.gz"):
        (folder / other).unlink()
    reading = trueput.Reading(store=tmp_path / "store")
    trueput.ingest([folder], store=reading.store)
    (row,) = trueput.sql("FROM goodput", reading).dicts()
    assert row["window_ns"] / 1e9 == pytest.approx(last - min(sent), abs=1e-6)


def test_recompute_of_a_run_that_may_have_none_is_not_certain_in_its_steps(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_run(simulate(OPEN_RECOMPUTE, 778), folder, profiles=["kineto"], with_telemetry=False)
    reading = trueput.Reading(store=tmp_path / "store")
    trueput.ingest([folder], store=reading.store)
    requests = json.loads((folder / "truth_requests.json").read_text())
    (total,) = trueput.sql("FROM recompute", reading).dicts()
    again = sum(row["recomputed_tokens"] for row in requests)
    assert total["recomputed_tokens_low"] <= again <= total["recomputed_tokens_high"]
    spent = sum(row["recompute_ns"] for row in requests)
    assert total["recompute_ns_low"] <= spent <= total["recompute_ns_high"]
    steps = trueput.sql("SELECT sum(recomputed_tokens) AS n FROM gpu_steps", reading).dicts()[0]
    assert (steps["n"] or 0) <= again
    cells = json.loads((folder / "truth_ledger.json").read_text())["cells"]
    true = sum(cell["time_ns"] for cell in cells if cell["work"] == "recompute")
    rows = trueput.sql("FROM gpu_ledger WHERE work = 'recompute'", reading).dicts()
    assert sum(row["time_ns_low"] for row in rows) <= true
    assert true <= sum(row["time_ns_high"] for row in rows)
