"""Runs as the gate sees them: rows of the public views, grouped by run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trueput.gate.figures import RunFigures
from trueput.gate.measurements import digest
from trueput.gate.requests import NUMBERS, OUTCOMES, ClassCount, Requests
from trueput.slo import SloClass
from trueput.verbs.client_files import broken_client_files, unbelievable_times
from trueput.verbs.engine_records import uncovered_loads
from trueput.verbs.opening import Reading, open_runs
from trueput.warehouse.connect import literal, literals
from trueput.warehouse.session import Warehouse

_VIEWS = (
    "runs", "load_sessions", "goodput", "gpu_activity", "recompute",
    "gpu_ledger", "batching", "prefix_cache", "routing", "workload", "gpu_state",
)  # fmt: skip
_SERIES = """
SELECT t.run_id, m.metric, t.logged_at_ns - w.from_ns AS offset_ns, sum(m.value) AS value
FROM int_steps AS t
JOIN int_run_windows AS w ON w.run_id = t.run_id,
UNNEST([
  {'metric': 'engine_step', 'value': CAST(t.elapsed_ns AS DOUBLE)},
  {'metric': 'scheduled_tokens', 'value': CAST(t.context_tokens + t.generation_tokens AS DOUBLE)}
]) AS u(m)
WHERE t.logged_at_ns IS NOT NULL AND w.from_ns IS NOT NULL AND m.value IS NOT NULL
GROUP BY t.run_id, m.metric, t.logged_at_ns - w.from_ns
ORDER BY t.run_id, m.metric, offset_ns
"""


_VANTAGES = """
SELECT run_id, CASE WHEN has_client THEN 'client' WHEN has_server THEN 'server' ELSE 'engine' END
  AS vantage
FROM int_run_facts
"""
"""Who measured the requests: the outermost that recorded any."""

_MEASURED = """
SELECT run_id, sha256 FROM sources
WHERE format IS NOT NULL AND sha256 IS NOT NULL AND record_rows > 0
"""
"""Files that gave rows; run.toml, a model's config and a data set give none."""

_REQUESTS = """
WITH starts AS (
  SELECT run_id, min(sent_at_ns) AS start_ns FROM request_outcomes
  WHERE outcome IS DISTINCT FROM 'other_traffic' GROUP BY run_id
)
SELECT
  CAST(list_position({runs}, o.run_id) AS INTEGER) AS run_ix,
  CAST(coalesce(list_position({outcomes}, o.outcome), 0) - 1 AS TINYINT) AS outcome,
  coalesce(o.complete, false) AS survived,
  {numbers}
FROM request_outcomes AS o
LEFT JOIN starts AS s ON s.run_id = o.run_id
WHERE o.outcome IS DISTINCT FROM 'other_traffic'
ORDER BY run_ix, o.sent_at_ns, o.prompt_tokens, o.asked_output_tokens, o.request_id, o.row_ix
"""
_NUMBERS = {
    "sent_ns": "o.sent_at_ns - s.start_ns",
    "end_ns": "coalesce(o.ended_at_ns, o.sent_at_ns + o.e2e_ns) - s.start_ns",
}
_WINDOWS = """
SELECT w.run_id, w.from_ns - s.start_ns AS from_ns, w.until_ns - s.start_ns AS to_ns
FROM int_run_windows AS w
JOIN (
  SELECT run_id, min(sent_at_ns) AS start_ns FROM request_outcomes
  WHERE outcome IS DISTINCT FROM 'other_traffic' GROUP BY run_id
) AS s ON s.run_id = w.run_id
WHERE w.window_rule <> 'all' AND w.from_ns IS NOT NULL AND s.start_ns IS NOT NULL
"""
"""Windows that cut the load, as offsets of their first and last instant from its first send."""

_BEYOND = "SELECT run_id, text FROM int_window_notes WHERE code = 'WINDOW005' ORDER BY ALL"
"""Windows that end after the load."""

_CLASS_COUNTS = """
SELECT run_id, {counts}, count(*) AS planned
FROM int_outcomes
WHERE outcome IS DISTINCT FROM 'other_traffic'
GROUP BY run_id
ORDER BY run_id
"""
_MOST_ROWS = 600_000
"""Ingested rows of the runs that are opened at once: so few that every inner model is computed
once, and memory does not grow with the number of runs."""


def figures(run_ids: Sequence[str], reading: Reading) -> dict[str, RunFigures]:
    """Return the figures of each run, judged under the reading's objective and window.

    Many runs are opened a few at a time: no figure is made of two runs.
    """
    found: dict[str, RunFigures] = {}
    for piece in _pieces(list(dict.fromkeys(run_ids)), reading):
        found |= _of_piece(piece, reading)
    return found


def _pieces(run_ids: list[str], reading: Reading) -> list[list[str]]:
    """Return the runs in groups of a bounded number of ingested rows."""
    store = reading.open_store()
    pieces: list[list[str]] = []
    room = 0
    for run_id in run_ids:
        manifest = store.manifest(run_id)
        rows = 0 if manifest is None else sum(manifest.rows.values())
        if not pieces or rows > room:
            pieces.append([])
            room = _MOST_ROWS
        pieces[-1].append(run_id)
        room -= rows
    return pieces


def _of_piece(run_ids: list[str], reading: Reading) -> dict[str, RunFigures]:
    with open_runs(run_ids, reading) as warehouse:
        rows = warehouse.views(_VIEWS)
        rows["activity_series"] = warehouse.ask(_SERIES).dicts()
        requests = _requests(warehouse, run_ids)
        hashes = measured_files(warehouse)
        broken = {**unbelievable_times(warehouse), **broken_client_files(warehouse)}
        uncovered = uncovered_loads(warehouse)
        classes = _class_counts(warehouse, reading)
        windows = {r["run_id"]: (r["from_ns"], r["to_ns"]) for r in warehouse.ask(_WINDOWS).dicts()}
        asked = () if reading.window == "all" else warehouse.ask(_BEYOND).dicts()
        beyond = {r["run_id"]: r["text"] for r in asked}
        vantages = {r["run_id"]: r["vantage"] for r in warehouse.ask(_VANTAGES).dicts()}
    rows["runs"] = [{**row, "vantage": vantages.get(row["run_id"])} for row in rows["runs"]]
    found: dict[str, dict[str, list[dict[str, Any]]]] = {
        run_id: {view: [] for view in rows} for run_id in run_ids
    }
    for view, many in rows.items():
        for row in many:
            found[row["run_id"]][view].append(row)
    return {
        run_id: RunFigures.from_views(
            views,
            requests=requests[run_id],
            window=windows.get(run_id),
            beyond=beyond.get(run_id),
            classes=classes.get(run_id),
            measurement=digest(requests[run_id], views),
            measured_files=hashes.get(run_id, frozenset()),
            unusable=broken.get(run_id),
            uncovered=uncovered.get(run_id),
        )
        for run_id, views in found.items()
    }


def measured_files(warehouse: Warehouse) -> dict[str, frozenset[str]]:
    """Return the hashes of each run's measured files."""
    found: dict[str, set[str]] = {}
    for row in warehouse.ask(_MEASURED).dicts():
        found.setdefault(row["run_id"], set()).add(row["sha256"])
    return {run_id: frozenset(hashes) for run_id, hashes in found.items()}


def _class_counts(warehouse: Warehouse, reading: Reading) -> dict[str, dict[str, ClassCount]]:
    """Return how many planned requests each class of the objective holds, by run and class."""
    slo = reading.objective()
    classes = () if slo is None else slo.classes
    if not classes:
        return {}
    counts = (
        f"count(*) FILTER (WHERE {of}) AS of_{place}, "
        f"count(*) FILTER (WHERE ({of}) IS NULL) AS unknown_{place}"
        for place, of in enumerate(_of_class(held) for held in classes)
    )
    rows = warehouse.ask(_CLASS_COUNTS.format(counts=", ".join(counts))).dicts()
    return {
        row["run_id"]: {
            held.whom(): ClassCount(row[f"of_{i}"], row[f"unknown_{i}"], row["planned"])
            for i, held in enumerate(classes)
        }
        for row in rows
    }


def _of_class(held: SloClass) -> str:
    """Return the condition that a request is of a class; NULL where that is not known."""
    parts = [
        f"{column} {sign} {literal(value)}"
        for column, sign, value in (
            ("label", "=", held.label),
            ("prompt_tokens", ">=", held.prompt_from),
            ("prompt_tokens", "<", held.prompt_to),
        )
        if value is not None
    ]
    return " AND ".join(parts)


def measurements(run_ids: Sequence[str], reading: Reading) -> dict[str, RunFigures]:
    """Return what shows which runs are one measurement, and no other figure."""
    store = reading.open_store()
    ids = list(dict.fromkeys(run_ids))
    with open_runs(ids, reading) as warehouse:
        requests, hashes = _requests(warehouse, ids), measured_files(warehouse)
    manifests = {run_id: store.manifest(run_id) for run_id in ids}
    return {
        run_id: RunFigures(
            run_id,
            requests=requests[run_id],
            content_hash=None if held is None else held.content_sha256,
            measurement=digest(requests[run_id], {}),
            measured_files=hashes.get(run_id, frozenset()),
        )
        for run_id, held in manifests.items()
    }


def _requests(warehouse: Warehouse, run_ids: list[str]) -> dict[str, Requests]:
    """Return the planned requests of each run as columns, in order of sending."""
    import numpy as np

    numbers = (
        f"coalesce(CAST({_NUMBERS.get(name, f'o.{name}')} AS DOUBLE), 'nan'::DOUBLE) AS {name}"
        for name in NUMBERS
    )
    columns = warehouse.columns(
        _REQUESTS.format(
            runs=literals(run_ids), outcomes=literals(OUTCOMES), numbers=", ".join(numbers)
        )
    )
    ends = np.searchsorted(columns["run_ix"], np.arange(len(run_ids) + 1), side="right")
    found = {}
    for place, run_id in enumerate(run_ids):
        cut = slice(int(ends[place]), int(ends[place + 1]))
        found[run_id] = Requests.of_columns(
            columns["outcome"][cut].copy(),
            columns["survived"][cut].copy(),
            {name: columns[name][cut].copy() for name in NUMBERS},
        )
    return found
