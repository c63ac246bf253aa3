"""Runs as the gate sees them: rows of the public views, grouped by run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trueput.gate.figures import RunFigures
from trueput.verbs.opening import Reading, open_runs

_VIEWS = (
    "runs", "load_sessions", "goodput", "request_outcomes", "gpu_activity", "recompute",
    "gpu_ledger", "batching", "prefix_cache", "routing", "workload",
)  # fmt: skip
_SERIES = """
SELECT t.run_id, m.metric, t.logged_at_ns - w.origin_ns AS offset_ns, sum(m.value) AS value
FROM int_steps AS t
JOIN int_run_windows AS w ON w.run_id = t.run_id,
UNNEST([
  {'metric': 'engine_step', 'value': CAST(t.elapsed_ns AS DOUBLE)},
  {'metric': 'scheduled_tokens', 'value': CAST(t.context_tokens + t.generation_tokens AS DOUBLE)}
]) AS u(m)
WHERE t.logged_at_ns IS NOT NULL AND w.origin_ns IS NOT NULL AND m.value IS NOT NULL
GROUP BY t.run_id, m.metric, t.logged_at_ns - w.origin_ns
ORDER BY t.run_id, m.metric, offset_ns
"""


def figures(run_ids: Sequence[str], reading: Reading) -> dict[str, RunFigures]:
    """Return the figures of each run, judged under the reading's objective and window."""
    with open_runs(list(dict.fromkeys(run_ids)), reading) as warehouse:
        rows = warehouse.views(_VIEWS)
        rows["activity_series"] = warehouse.ask(_SERIES).dicts()
    found: dict[str, dict[str, list[dict[str, Any]]]] = {
        run_id: {view: [] for view in rows} for run_id in run_ids
    }
    for view, many in rows.items():
        for row in many:
            found[row["run_id"]][view].append(row)
    return {run_id: RunFigures.from_views(views) for run_id, views in found.items()}
