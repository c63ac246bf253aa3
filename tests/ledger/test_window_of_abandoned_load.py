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


def made(folder: Path, config: Config, seed: int) -> Path:
    """Write the run; return its folder."""
    run = simulate(config.replace(workload_seed=seed), seed)
    write_run(run, folder, profiles=[], with_telemetry=False, compresslevel=1)
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
