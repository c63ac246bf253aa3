"""Which runs are one measurement: what is copied under another name is no second repeat.

Runs are one measurement where their files are equal, where they share the bytes of one measured
file, or where what was measured is equal: the same sends and latencies to the nanosecond, however
the files are packed and whatever labels they have. No two repeats serve most requests in the same
time to a part in a thousand: runs that do are one measurement too, edited or rounded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from trueput.gate.figures import RunFigures
from trueput.gate.policy import Note
from trueput.gate.requests import Requests
from trueput.gate.rows import Row, number, text

if TYPE_CHECKING:
    from trueput.gate.requests import Mask, Numbers

_TIMES = ("sent_ns", "ttft_ns", "e2e_ns")
#: Times of a request that two measurements do not share but for this relative difference.
_SPANS = ("ttft_ns", "e2e_ns")
_ALIKE = 1e-3
#: Share of the timed requests from which on runs are alike: with both times known, and with one.
_ALIKE_SHARES = {2: 0.5, 1: 0.9}
_FEWEST_ALIKE = 5
#: Correlation of TTFT and end-to-end time from which on one of them tells nothing more.
_TOGETHER = 0.98
_SHARED_FILE = "they share a measured file"
_SHARED_TIMES = "their requests take the same times to a part in a thousand"


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
    return _why(one, other) is not None


def _why(one: RunFigures, other: RunFigures) -> str | None:
    """Say what shows that two runs are one measurement: empty where they are equal throughout."""
    if (
        one.run_id == other.run_id
        or _equal(one.content_hash, other.content_hash)
        or _equal(one.measurement, other.measurement)
    ):
        return ""
    if not one.measured_files.isdisjoint(other.measured_files):
        return _SHARED_FILE
    if one.measurement is None or other.measurement is None:
        return None
    return _SHARED_TIMES if _alike(one.requests, other.requests) else None


def _alike(one: Requests, other: Requests) -> bool:
    """Tell whether most requests take the same times, in order of sending or sorted by time.

    Between the two orders of sending, one stretch of requests may be missing from either side.
    """
    import numpy as np

    short, long = sorted((one, other), key=len)
    names = [n for n in _SPANS if all(len(side.known(n)) for side in (one, other))]
    if not names or 2 * len(short) < len(long):
        return False
    sides = [np.stack([side.column(name) for name in names]) for side in (short, long)]
    pairs = len(names) == len(_SPANS) and not any(_together(side) for side in sides)
    as_sent, needed = _agreeing(*sides), _ALIKE_SHARES[2 if pairs else 1]
    if as_sent >= needed:
        return True
    # one time alone is alike in two sorted samples of a size, and so are two that go together
    return pairs and _agreeing(*(_sorted(side) for side in sides)) >= needed


def _together(spans: Numbers) -> bool:
    """Tell whether two times of requests say the same: answers of one token, or of one length."""
    import numpy as np

    known = spans[:, ~np.isnan(spans).any(axis=0)]
    if known.shape[1] < _FEWEST_ALIKE or (known.std(axis=1) == 0).any():
        return True
    return bool(np.asarray(np.corrcoef(known))[0, 1] > _TOGETHER)


def _sorted(spans: Numbers) -> Numbers:
    import numpy as np

    found: Numbers = spans[:, np.lexsort(spans)]
    return found


def _agreeing(short: Numbers, long: Numbers) -> float:
    """Return the share of timed requests that take the same times; 0 for a handful of them.

    Columns are requests. The longer side may have one stretch more, at the best place for it.
    """
    import numpy as np

    ahead, timed = _match(short, long[:, : short.shape[1]])
    behind, timed_behind = _match(short, long[:, long.shape[1] - short.shape[1] :])
    before = np.concatenate([[0], np.cumsum(ahead)])
    after = np.concatenate([[0], np.cumsum(behind)])
    best = int((before + after[-1] - after).max())
    count = max(int(np.count_nonzero(timed)), int(np.count_nonzero(timed_behind)))
    return best / count if count >= _FEWEST_ALIKE else 0.0


def _match(one: Numbers, other: Numbers) -> tuple[Mask, Mask]:
    """Return which requests agree in every time that either side knows, and which have any."""
    import numpy as np

    unknown, unknown_too = np.isnan(one), np.isnan(other)
    close = np.abs(one - other) <= _ALIKE * np.maximum(one, other)
    timed: Mask = ~np.all(unknown & unknown_too, axis=0)
    agree: Mask = np.all(close | (unknown & unknown_too), axis=0) & timed
    return agree, timed


def distinct(runs: Sequence[RunFigures]) -> tuple[tuple[RunFigures, ...], tuple[Note, ...]]:
    """Return the runs sorted by name, each measurement once, and notes on those left out."""
    kept: list[RunFigures] = []
    notes = []
    for run in sorted(runs, key=lambda run: (run.run_id, run.content_hash or "")):
        found = ((other, why) for other in kept if (why := _why(run, other)) is not None)
        first, why = next(found, (None, ""))
        if first is None:
            kept.append(run)
        elif run.run_id != first.run_id:
            notes.append(
                Note(
                    "warning",
                    f"{run.run_id} is the same measurement as {first.run_id}, and counts once "
                    f"with it{_because(why)}",
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
        f"{_because(why)}"
        for run in runs
        for other in base
        if (why := _why(run, other)) is not None
    ]
    return "; ".join(found) or None


def _because(why: str) -> str:
    return f": {why}" if why else ""


def _equal(one: str | None, other: str | None) -> bool:
    return one is not None and one == other


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
