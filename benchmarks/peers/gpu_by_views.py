"""trueput's side of the GPU benchmarks: its views over a store, as a user would ask.

usage: gpu_by_views.py QUESTION STORE OUT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from trueput.verbs.opening import Reading, selection
from trueput.warehouse.session import Warehouse

QUESTIONS = {
    "unions": """
        SELECT device, CAST(value AS BIGINT) FROM gpu_activity
        WHERE metric = 'kernel_union' ORDER BY device
    """,
    "steps": """
        SELECT count(*) FILTER (gpu_step_ix >= 0), sum(operations) FILTER (gpu_step_ix >= 0),
          sum(time_ns) FILTER (gpu_step_ix >= 0),
          sum(hash(gpu_step_ix, operations, time_ns)) FILTER (gpu_step_ix >= 0)
        FROM (
          SELECT gpu_step_ix, count(*) AS operations,
            CAST(sum(end_at_ns - start_at_ns) AS BIGINT) AS time_ns
          FROM int_gpu_op_steps
          GROUP BY gpu_step_ix
        )
    """,
}


def main() -> None:
    """Answer the question and write the answer."""
    question, store, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    reading = Reading(store=store)
    made, manifests = selection(reading.open_store(), None, reading)
    rows = sum(sum(m.rows.values()) for m in manifests.values())
    with Warehouse(made, input_rows=rows) as warehouse:
        answer = warehouse.query(QUESTIONS[question]).rows
    out.write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
