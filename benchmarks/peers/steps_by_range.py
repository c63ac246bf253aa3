"""The peer of the step benchmark: the same join in DuckDB, steps found by a range condition.

usage: steps_by_range.py STORE OUT

Kernels find their launch by correlation id, launches their step by `start >= and start <=`, which
DuckDB answers with its join for inequalities. The store is of one file, process and thread, and the
peer knows it: it compares no names.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb

QUERY = """
SELECT count(*), sum(operations), sum(time_ns), sum(hash(gpu_step_ix, operations, time_ns))
FROM (
  SELECT s.gpu_step_ix, count(*) AS operations,
    CAST(sum(o.end_at_ns - o.start_at_ns) AS BIGINT) AS time_ns
  FROM read_parquet('{0}/gpu_ops/*/*.parquet') AS o
  JOIN read_parquet('{0}/gpu_launches/*/*.parquet') AS l ON l.correlation_id = o.correlation_id
  JOIN read_parquet('{0}/gpu_steps/*/*.parquet') AS s
    ON l.start_at_ns >= s.start_at_ns AND l.start_at_ns <= s.end_at_ns
  GROUP BY s.gpu_step_ix
)
"""


def main() -> None:
    """Ask, and write the steps."""
    rows = duckdb.connect().execute(QUERY.format(sys.argv[1])).fetchall()
    Path(sys.argv[2]).write_text(json.dumps(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
