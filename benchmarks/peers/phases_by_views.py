"""trueput's side of the attribution benchmark: its public views over a store.

usage: phases_by_views.py STORE OUT [MEMORY_LIMIT]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from trueput.verbs.opening import Reading, selection
from trueput.warehouse.session import Warehouse

PHASES = "SELECT run_id, phase, time_ns FROM run_phases ORDER BY run_id, phase"
LATENCIES = """
SELECT run_id, count(*) AS requests,
  quantile_cont(ttft_ns, [0.5, 0.9, 0.99]) AS ttft_ns,
  quantile_cont(tpot_ns, [0.5, 0.9, 0.99]) AS tpot_ns,
  quantile_cont(e2e_ns, [0.5, 0.9, 0.99]) AS e2e_ns
FROM request_outcomes
WHERE complete
GROUP BY run_id
ORDER BY run_id
"""


def main() -> None:
    """Answer both questions and write the answers."""
    reading = Reading(store=Path(sys.argv[1]))
    limit = sys.argv[3] if len(sys.argv) > 3 else None
    made, manifests = selection(reading.open_store(), None, reading)
    rows = sum(sum(m.rows.values()) for m in manifests.values())
    with Warehouse(made, input_rows=rows, memory_limit=limit) as warehouse:
        found = warehouse.ask_all({"phases": PHASES, "latencies": LATENCIES})
    answer = {name: [list(row) for row in said.rows] for name, said in found.items()}
    Path(sys.argv[2]).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
