"""The peer of the union benchmark: a careful pandas program over the same Parquet files.

usage: unions_by_pandas.py STORE OUT

For each device of each run: sort by start, running maximum of the ends before, islands where a
start lies beyond it, and the sum of the islands' lengths. Integers all the way: a `shift` without a
fill value would turn nanoseconds since the epoch into floating point and lose hundreds of them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd  # type: ignore[import-not-found,import-untyped,unused-ignore]
import pyarrow.parquet as pq

COLUMNS = ["run_id", "device_key", "kind", "start_at_ns", "end_at_ns"]
WORDS = COLUMNS[:3]


def main() -> None:
    """Read, unite, and write the busy ns of each device."""
    files = sorted((Path(sys.argv[1]) / "gpu_ops").glob("*/*.parquet"))
    answer: dict[str, int] = {}
    # words as categories: pandas then groups and compares by number
    tables = [pq.ParquetFile(f, read_dictionary=WORDS).read(COLUMNS) for f in files]
    frame = pd.concat([t.to_pandas() for t in tables]) if len(tables) > 1 else tables[0].to_pandas()
    kernels = frame[frame["kind"] == "kernel"]
    for (_, device), group in kernels.groupby(["run_id", "device_key"], observed=True):
        ordered = group[["start_at_ns", "end_at_ns"]].sort_values("start_at_ns", kind="stable")
        reached = ordered["end_at_ns"].cummax().shift(fill_value=0)
        island = (ordered["start_at_ns"] > reached).cumsum()
        islands = ordered.groupby(island).agg({"start_at_ns": "min", "end_at_ns": "max"})
        answer[device] = int((islands["end_at_ns"] - islands["start_at_ns"]).sum())
    Path(sys.argv[2]).write_text(json.dumps(answer, sort_keys=True), encoding="utf-8")


if __name__ == "__main__":
    main()
