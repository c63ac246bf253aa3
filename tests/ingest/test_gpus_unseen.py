"""GPUs that the run has and no profile shows are told, and more devices than it has."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from ingest.traces import Held, kernel, launched, write
from simulator import SCENARIOS, simulate, write_run


@pytest.mark.long(besides=2)
@pytest.mark.parametrize(
    ("gpu_count", "ranks", "missing"),
    [(None, 1, 0), (1, 1, 0), (2, 1, 1), (8, 2, 6), (2, 2, 0), (1, 2, 0), (2, 0, 0)],
)
def test_a_rank_without_a_file(
    tmp_path: Path, gpu_count: int | None, ranks: int, missing: int
) -> None:
    run = tmp_path / "run"
    for rank in range(ranks):
        events = launched(range(1, 11), range(1, 11))
        events += [{**kernel(20 + rank), "name": f"of rank {rank}"}]
        told = {"rank": rank, "world_size": ranks}
        write(run / f"t_rank{rank}.pt.trace.json", events, distributedInfo=told)
    if not ranks:
        run.mkdir()
        (run / "gpu.csv").write_text("index, power.draw [W]\n0, 5 W\n")
    if gpu_count is not None:
        (run / "run.toml").write_text(f"gpu_count = {gpu_count}\n")
    held = Held(run)
    assert held.told.get("INGEST015", 0) == missing
    assert held.told.get("INGEST016", 0) == max(0, ranks - (gpu_count or ranks))
    if ranks and missing:
        ((length, devices, time),) = held.rows(
            "SELECT window_ns, devices, sum(time_ns) FILTER (work = 'unattributed') "
            "FROM gpu_ledger GROUP BY ALL"
        )
        assert devices == gpu_count
        assert time >= missing * length


def test_a_copy_without_a_few_kernels_is_no_further_gpu(tmp_path: Path) -> None:
    """A trace of 300 kernels, one of two ranks; saved again under another name without two."""
    run = tmp_path / "run"
    kernels = range(1, 301)
    for rank, without in (("0", ()), ("0_again", (7, 90)), ("1", ())):
        events = launched(kernels, (n for n in kernels if n not in without))
        for event in events:
            if rank == "1":
                event["ts"] += 3
        write(run / f"t_rank{rank}.pt.trace.json", events)
    held = Held(run)
    assert held.told["ATTR007"] == 1
    assert held.rows("SELECT count(DISTINCT device) FROM gpu_activity") == [(2,)]


def simulated(run: Path, ranks: int, *, is_told: bool = False, logs: int = 1) -> Held:
    """Half a second on two GPUs: the profiles of some ranks, run.toml with or without a count."""
    write_run(simulate(SCENARIOS["tiny"], seed=1), run, with_telemetry=False, compresslevel=1)
    for rank, trace in enumerate(sorted((run / "torch_profile").iterdir())):
        if rank >= ranks:
            trace.unlink()
    told = (run / "run.toml").read_text()
    assert "gpu_count = 2\n" in told
    if not is_told:
        (run / "run.toml").write_text(told.replace("gpu_count = 2\n", ""))
    if logs == 2:
        lines = gzip.decompress((run / "server.log.gz").read_bytes()).splitlines(keepends=True)
        (run / "other.log").write_bytes(b"".join(lines[:12]).replace(b" 01-01 ", b" 01-02 "))
    return Held(run)


DEVICES = "SELECT DISTINCT devices FROM gpu_ledger"
UNATTRIBUTED = (
    "SELECT window_ns, sum(time_ns) FILTER (work = 'unattributed') FROM gpu_ledger GROUP BY 1"
)
PER_REQUEST = "SELECT devices, gpu_seconds_per_good_request * good_requests / window_s FROM goodput"


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("is_told", [False, True])
def test_the_engine_tells_how_many_gpus_it_works_on(tmp_path: Path, is_told: bool) -> None:
    held = simulated(tmp_path / "run", 1, is_told=is_told)
    assert held.told["INGEST015"] == 1
    assert held.rows(DEVICES) == [(2,)]
    ((devices, gpus),) = held.rows(PER_REQUEST)
    assert (devices, gpus) == (2, pytest.approx(2))
    of_count = "SELECT source FROM evidence WHERE question = 'figures per GPU'"
    source = "run.toml" if is_told else "the parallel sizes of the engine"
    assert held.rows(of_count) == [(source,)]
    # all of the GPU that nobody profiled, and what is unattributed of the other
    whole = simulated(tmp_path / "whole", 2, is_told=is_told)
    assert "INGEST015" not in whole.told
    ((window, lost),), ((same, of_both),) = held.rows(UNATTRIBUTED), whole.rows(UNATTRIBUTED)
    assert window == same
    assert 0 <= lost - window <= of_both


def test_without_a_profile_nobody_says_that_its_devices_are_gpus(tmp_path: Path) -> None:
    held = simulated(tmp_path / "run", 0)
    assert "INGEST015" not in held.told
    assert held.rows("SELECT gpu_seconds_per_good_request FROM goodput") == [(None,)]
    # the ledger is that of the engine, which is one
    assert held.rows(DEVICES) == [(1,)]


def test_of_several_logs_none_is_the_only_engine(tmp_path: Path) -> None:
    held = simulated(tmp_path / "run", 1, logs=2)
    assert "INGEST015" not in held.told
    assert held.rows(DEVICES) == [(1,)]
