"""A series of made nights: small results of one configuration, dated one day after the other."""

from __future__ import annotations

from pathlib import Path

from gate.bench_runs import bench, write

SERIES = '[labels]\nseries = "nightly"\n[slo]\nttft = "1s"\n'


def night(root: Path, number: int, late: int = 0, run_toml: str = SERIES, count: int = 20) -> Path:
    """Write night `number` (from 1), of `count` requests of which `late` miss the objective."""
    own = number / 1000 + late / 5000  # no two measurements take the same times
    slow = [2.0 + 10 * own] * late + [0.3 + own] * (count - late)
    made = bench(slow, date=f"202611{number:02}-030000")
    return write(root / f"night{number:02}", made, run_toml)
