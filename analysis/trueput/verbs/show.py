"""show: one run, all that its files prove."""

from __future__ import annotations

from typing import Any

from trueput.errors import UsageError
from trueput.schema import views
from trueput.verbs.opening import Reading, open_runs, runs_of

Rows = list[dict[str, Any]]

EXTRA = ("runs", "sources", "load_sessions", "problems", "slo_policy")
"""Tables that stand beside the public views in what `show` returns."""

_PAID = """
SELECT p.request_id, p.e2e_ns, p.requeue_ns, p.recompute_ns, v.preemptions, v.recomputed_tokens,
  v.confidence, o.outcome
FROM request_phases AS p
JOIN request_recompute AS v ON v.run_id = p.run_id AND v.request_id = p.request_id
JOIN request_outcomes AS o ON o.run_id = p.run_id AND o.request_id = p.request_id
LEFT JOIN int_windows AS w ON w.run_id = o.run_id AND w.session IS NOT DISTINCT FROM o.session
WHERE v.preemptions > 0 AND p.is_load
  AND is_inside(w.window_rule, o.sent_at_ns, w.from_ns, w.until_ns)
ORDER BY coalesce(p.requeue_ns, 0) + coalesce(p.recompute_ns, 0) DESC, p.request_id
LIMIT 5
"""

_DIVIDED = """
SELECT method, min(trimmed_r2) AS trimmed_r2, min(steps_fitted) AS steps_fitted, count(*) AS steps
FROM raw.gpu_steps GROUP BY method ORDER BY method
"""

_DEVICES = """
SELECT count(*) > 0 AS are_gpus, (SELECT count(*) > 0 FROM int_overlaps) AS overlaps,
  (SELECT count(*) > 0 FROM int_log_cover) AS is_in_part
FROM int_gpu_ledger
"""


def show(run: str, reading: Reading | None = None) -> dict[str, Rows]:
    """Return the rows of every public view (and of a few tables) for one run, by name.

    `run` is a run name or a path, which is ingested when new. The key `paid_most` holds the
    requests of the load, sent in the window, that lost most time to preemption, and `gpu_step_cost`
    how the GPU time of a profile's steps is divided, with R2 and the number of steps of the fit
    (of several fits the least of each). `ledger_devices` says whether the devices of the ledger
    are GPUs, whose time a profile shows, or engine ranks; and whether the iterations of these
    overlap, and whether their log tells of a part of the window.
    """
    how = reading or Reading()
    names = runs_of(run, how)
    if len(names) > 1:
        raise UsageError(
            f"`{run}` holds {len(names)} runs; show takes one",
            "name one of " + ", ".join(f"`{n}`" for n in names[:5]),
        )
    public = [v for v in views() if not v.startswith("check_")]
    with open_runs(names, how) as warehouse:
        found = warehouse.views((*EXTRA, *public))
        found["paid_most"] = warehouse.ask(_PAID).dicts()
        found["gpu_step_cost"] = warehouse.ask(_DIVIDED).dicts()
        found["ledger_devices"] = warehouse.ask(_DEVICES).dicts()
        return found
