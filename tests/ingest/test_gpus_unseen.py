"""GPUs that the run has and no profile shows are told: their time is unattributed."""

from __future__ import annotations

from pathlib import Path

import pytest
from ingest.traces import Held, kernel, launched, write


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
    if ranks and missing:
        ((length, devices, time),) = held.rows(
            "SELECT window_ns, devices, sum(time_ns) FILTER (work = 'unattributed') "
            "FROM gpu_ledger GROUP BY ALL"
        )
        assert devices == gpu_count
        assert time >= missing * length
