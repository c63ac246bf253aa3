"""GPUs that the run has and no profile shows are told, and more devices than it has."""

from __future__ import annotations

from pathlib import Path

import pytest
from ingest.traces import Held, kernel, launched, write


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
