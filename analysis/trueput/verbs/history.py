"""history: the nights of a series in the store, and where its level changed."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trueput.errors import InputError, UsageError
from trueput.gate.change_points import Shift, shifts
from trueput.gate.policy.metrics import RUNGS
from trueput.verbs import baseline_file
from trueput.verbs.config_key import RunKey, run_keys
from trueput.verbs.opening import Reading, open_runs

_SINCE_NS = 946_684_800 * 10**9
"""Instants before the year 2000 are on a clock that has no way to UTC."""
_NIGHTS = """
SELECT r.run_id, r.engine_version, g.goodput_rps, g.slo_attainment_ratio, g.slo,
  c.recomputed_ratio, w.from_ns, l.ended_ns
FROM runs AS r
LEFT JOIN (
  SELECT run_id, min(slo) AS slo, sum(goodput_rps) AS goodput_rps,
    avg(slo_attainment_ratio) AS slo_attainment_ratio
  FROM goodput GROUP BY run_id HAVING count(*) = 1
) AS g ON g.run_id = r.run_id
LEFT JOIN recompute AS c ON c.run_id = r.run_id
LEFT JOIN int_run_windows AS w ON w.run_id = r.run_id
LEFT JOIN (
  SELECT run_id, max(ended_local_at_ns) AS ended_ns FROM load_sessions GROUP BY run_id
) AS l ON l.run_id = r.run_id
"""
_ACTIVITY = """
SELECT run_id, metric, avg(rate) AS rate FROM gpu_activity WHERE rate IS NOT NULL
GROUP BY run_id, metric
"""


@dataclass(frozen=True)
class Night:
    """One run of a series; `at_ns` is when its load began (or ended, local), None if unknown."""

    run_id: str
    at_ns: int | None
    engine_version: str | None
    goodput_rps: float | None
    slo_attainment_ratio: float | None
    activity: float | None
    recomputed_ratio: float | None
    accepted: bool


@dataclass(frozen=True)
class Change:
    """One change of one metric, between two runs; `change` as in `change_points.Shift`."""

    metric: str
    kind: str
    first_run: str
    last_run: str
    before: float
    after: float
    change: float
    points: bool


@dataclass(frozen=True)
class Series:
    """The nights of one configuration, oldest first, with the changes in them.

    `changes` is None where the library that finds them is not installed.
    """

    key: str
    meaning: str
    slo: str | None
    rung: str | None
    nights: tuple[Night, ...]
    changes: tuple[Change, ...] | None


def history(which: str | None = None, reading: Reading | None = None) -> tuple[Series, ...]:
    """Return the series of the store; with `which` (a key, or a run of it) that one only.

    A run belongs to the series of its configuration key; runs that cannot be read are left out.
    """
    how = reading or Reading()
    keys = {run: key for run, key in run_keys(None, how).items() if key.usable}
    chosen = _chosen(which, keys)
    ids = [run for run, key in keys.items() if key.key in chosen]
    if not ids:
        return ()
    with open_runs(ids, how) as warehouse:
        rows = warehouse.ask(_NIGHTS).dicts()
        rates = warehouse.ask(_ACTIVITY).dicts()
    activity: dict[str, dict[str, float]] = {}
    for rate in rates:
        activity.setdefault(rate["run_id"], {})[rate["metric"]] = rate["rate"]
    try:
        shifts([])
        searches = True
    except UsageError as error:
        hint = f": {error.hint}" if error.hint else ""
        how.note(f"{error.message}{hint}")
        searches = False
    accepted = {m.run for m in baseline_file.read(how.open_store()).accepted}
    found = []
    for key in sorted(chosen):
        mine = sorted((r for r in rows if keys[r["run_id"]].key == key), key=_order)
        found.append(
            _series(keys[mine[0]["run_id"]], mine, activity, accepted, how, searches=searches)
        )
    return tuple(found)


def _chosen(which: str | None, keys: dict[str, RunKey]) -> set[str]:
    known = {key.key for key in keys.values()}
    if which is None:
        return known
    if which in known:
        return {which}
    if which in keys:
        return {keys[which].key}
    near = difflib.get_close_matches(which, [*known, *keys], 1)
    hint = f"did you mean `{near[0]}`?" if near else "`trueput history` shows every series"
    raise InputError(f"`{which}` is neither a series nor a readable run of the store", hint)


def _order(row: dict[str, Any]) -> tuple[bool, int, str]:
    at = _at(row)
    return at is None, at or 0, row["run_id"]


def _at(row: dict[str, Any]) -> int | None:
    return next((t for t in (row["from_ns"], row["ended_ns"]) if t and t > _SINCE_NS), None)


def _series(
    key: RunKey,
    rows: Sequence[dict[str, Any]],
    activity: dict[str, dict[str, float]],
    accepted: set[str],
    reading: Reading,
    *,
    searches: bool,
) -> Series:
    shared = [activity.get(row["run_id"], {}) for row in rows]
    rung = next((r for r in RUNGS if all(r in one for one in shared)), None)
    nights = tuple(
        Night(
            row["run_id"], _at(row), row["engine_version"], row["goodput_rps"],
            row["slo_attainment_ratio"], None if rung is None else one[rung],
            row["recomputed_ratio"], row["run_id"] in accepted,
        )
        for row, one in zip(rows, shared, strict=True)
    )  # fmt: skip
    slos = {row["slo"] for row in rows}
    slo = slos.pop() if len(slos) == 1 else None
    if slos:
        reading.note(f"{key.key}: the runs have several objectives; give one with --slo")
    changes = _changes(nights, rung) if searches else None
    return Series(key.key, key.meaning, slo, rung, nights, changes)


def _changes(nights: Sequence[Night], rung: str | None) -> tuple[Change, ...]:
    found: list[Change] = []
    for metric, column, shares in (
        ("goodput_rps", "goodput_rps", False),
        ("slo_attainment_ratio", "slo_attainment_ratio", True),
        (rung or "", "activity", False),
        ("recomputed_ratio", "recomputed_ratio", True),
    ):
        known = [(night, getattr(night, column)) for night in nights]
        usable = [
            (n, float(v)) for n, v in known
            if v is not None and math.isfinite(v) and (shares or v > 0)
        ]  # fmt: skip
        if not metric or not usable:
            continue
        changes = shifts([v for _, v in usable], shares=shares)
        runs = [night.run_id for night, _ in usable]
        found += [_named(metric, runs, shift, shares) for shift in changes]
    return tuple(found)


def _named(metric: str, runs: Sequence[str], shift: Shift, shares: bool) -> Change:
    return Change(
        metric, shift.kind.value, runs[shift.first], runs[shift.last], shift.before, shift.after,
        shift.change, shares,
    )  # fmt: skip
