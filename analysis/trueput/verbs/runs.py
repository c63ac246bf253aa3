"""runs: what the store holds."""

from __future__ import annotations

from typing import Any

from trueput.verbs.opening import Reading, damaged_run, open_runs

_QUERY = """
SELECT r.run_id, r.engine, r.engine_version, r.model, g.session, g.planned_requests,
  g.complete_requests, g.complete_requests_low, g.complete_requests_high, g.slo, g.goodput_rps,
  c.preemptions, c.recomputed_tokens, r.files, r.problem_rows, r.usable
FROM runs AS r
LEFT JOIN goodput AS g ON g.run_id = r.run_id
LEFT JOIN recompute AS c ON c.run_id = r.run_id
ORDER BY r.run_id, g.session
"""


def runs(reading: Reading | None = None) -> list[dict[str, Any]]:
    """Return one row per run (and load session) of the store, sorted by run_id.

    A run whose files are damaged is left out, with a note.
    """
    how = reading or Reading()
    store = how.open_store()
    sound = []
    for run_id, manifest in store.manifests().items():
        if damaged := store.damaged(manifest):
            how.note(damaged_run(store, manifest, damaged).message)
        else:
            sound.append(run_id)
    with open_runs(sound, how) as warehouse:
        return warehouse.ask(_QUERY).dicts()
