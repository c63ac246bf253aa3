"""Which runs are one measurement: what is copied under another name is no second repeat.

Runs are one measurement where their files are equal, or where what was measured is: the same
sends and latencies to the nanosecond, however the files are packed and whatever labels they have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from trueput.gate.figures import RunFigures
from trueput.gate.policy import Note
from trueput.gate.requests import Requests
from trueput.gate.rows import Row, number, text

_TIMES = ("sent_ns", "ttft_ns", "e2e_ns")


def digest(requests: Requests, rows: Mapping[str, Sequence[Row]]) -> str | None:
    """Return a digest of what a run measured; ``None`` where it timed nothing.

    It is that of the requests' sends and latencies, whatever their order; without a latency, that
    of the run's window and activity.
    """
    import numpy as np

    columns = [requests.column(name) for name in _TIMES]
    if any(not np.isnan(column).all() for column in columns[1:]):
        table = np.stack([np.nan_to_num(column, nan=-1.0) for column in columns])
        return _hash(table[:, np.lexsort(table)].astype("<i8").tobytes())
    windows = [number(row, "window_ns") for row in rows.get("goodput") or ()]
    amounts = sorted(
        (text(row, "metric") or "", value)
        for row in rows.get("gpu_activity") or ()
        if (value := number(row, "value"))
    )
    if not amounts or None in windows:
        return None
    return _hash(repr((windows, amounts)).encode())


def same(one: RunFigures, other: RunFigures) -> bool:
    """Tell whether two runs are one measurement."""
    return (
        one.run_id == other.run_id
        or _equal(one.content_hash, other.content_hash)
        or _equal(one.measurement, other.measurement)
    )


def distinct(runs: Sequence[RunFigures]) -> tuple[tuple[RunFigures, ...], tuple[Note, ...]]:
    """Return the runs sorted by name, each measurement once, and notes on those left out."""
    kept: list[RunFigures] = []
    notes = []
    for run in sorted(runs, key=lambda run: (run.run_id, run.content_hash or "")):
        first = next((other for other in kept if same(run, other)), None)
        if first is None:
            kept.append(run)
        elif run.run_id != first.run_id:
            notes.append(
                Note(
                    "warning",
                    f"{run.run_id} is the same measurement as {first.run_id}, and counts once "
                    "with it",
                    "runs",
                )
            )
    return tuple(kept), tuple(dict.fromkeys(notes))


def same_runs(base: Sequence[RunFigures], runs: Sequence[RunFigures]) -> bool:
    """Tell whether both sides are the same runs, by name: a comparison of a side with itself."""
    return bool(base) and {run.run_id for run in base} == {run.run_id for run in runs}


def reused(base: Sequence[RunFigures], runs: Sequence[RunFigures]) -> str | None:
    """Say which of the candidate's runs are the baseline's; ``None`` for a side and itself."""
    if same_runs(base, runs):
        return None
    found = [
        f"the candidate's measurement {run.run_id} is the baseline's run {other.run_id}"
        for run in runs
        for other in base
        if same(run, other)
    ]
    return "; ".join(found) or None


def _equal(one: str | None, other: str | None) -> bool:
    return one is not None and one == other


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
