"""Ids that name several requests -> a name for each request, and what must be written for it.

A client that begins again, such as a warm-up or a second load with the same prefix, uses its ids
again. Of the requests of one id the first keeps it, the k-th in order of time gets `#k` behind it.
Nothing is read twice where no id is printed twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from trueput.attribution.reused.lives import lives
from trueput.attribution.reused.log_lives import CHILD
from trueput.attribution.reused.logged import log_fits, log_row, logged_requests
from trueput.attribution.reused.recorded import record_rows, recorded
from trueput.attribution.reused.rows import Fits, ReusedRow
from trueput.attribution.reused.told import Told
from trueput.source_api import Problem, Severity

Parts = Mapping[str, Sequence[Path]]


def tell_apart(
    parts: Parts, ids: Sequence[str], tied: pl.DataFrame | None, fit: Callable[[Counts], Fits]
) -> Told | None:
    """Return what tells the requests of these ids apart; None where each names one.

    `tied`: what request_links will say. `fit` is asked once for the clocks, with how many requests
    records and logs of the engine tell of under each id.
    """
    rows: dict[str, list[ReusedRow]] = {name: [] for name in ids}
    logged = logged_requests(parts.get("request_events", ()), ids)
    frame = recorded(parts.get("requests", ()), ids, tied)
    fits = dict(fit(_counts(frame, logged)))
    fits |= log_fits(frame, logged, fits)
    for name, found in logged.items():
        rows[name] += [log_row(life, lines, fits) for life, lines in found]
    for name, mine in record_rows(frame, list(parts.get("requests", ())), fits).items():
        rows[name] += mine
    return _named(rows)


@dataclass(frozen=True)
class Counts:
    """How often each reused id stands in records of the engine, and in its log."""

    recorded: Mapping[str, int]
    logged: Mapping[str, int]


def _counts(frame: pl.DataFrame, logged: Mapping[str, Sequence[Any]]) -> Counts:
    spans = frame.filter(pl.col("vantage") == "engine").group_by("outer").len()
    return Counts(dict(spans.iter_rows()), {name: len(found) for name, found in logged.items()})


def _named(rows: Mapping[str, Sequence[ReusedRow]]) -> Told | None:
    told = Told()
    reused: list[tuple[str, int]] = []
    copies = 0
    for name, every in rows.items():
        answers = max((row.record.sequences for row in every), default=1)
        mine = _without_copies(every, told, answers)
        copies += len(every) - len(mine)
        groups = lives([row.record for row in mine])
        for number, group in enumerate(groups, 1):
            for place in group:
                _write(told, mine[place], name, number)
        if len(groups) > 1:
            reused.append((name, len(groups)))
    if not reused and not copies:
        return None
    if reused:
        first, times = reused[0]
        text = (
            f"{len(reused)} ids name {sum(n for _, n in reused)} requests (`{first}` {times}); "
            f"{_apart_by(rows, dict(reused))}, and the k-th has `#k` behind its id"
        )
        told.problems.append(Problem("ATTR013", Severity.WARNING, text, count=len(reused)))
    if copies:
        text = f"{copies} records of requests stand in the files twice; each is counted once"
        told.problems.append(Problem("ATTR014", Severity.WARNING, text, count=copies))
    return told


def _apart_by(rows: Mapping[str, Sequence[ReusedRow]], reused: Mapping[str, int]) -> str:
    """Say what told the requests of reused ids apart, of what there is."""
    records = [row.record for name in reused for row in rows[name]]
    has_times = any(record.start is not None for record in records)
    if any(record.vantage in {"engine", "log"} for record in records):
        return "the engine's own ids and times tell them apart"
    if has_times:
        return "their times tell them apart"
    return "each record counts as one, in the order of the file"


def _without_copies(rows: Sequence[ReusedRow], told: Told, answers: int) -> list[ReusedRow]:
    """Return the records without those that repeat another to the nanosecond.

    Of so many answers (n) that a log numbers, each has a record under the one id.
    """
    seen: Counter[tuple[Any, ...]] = Counter()
    kept = []
    for row in rows:
        r = row.record
        what = (r.vantage, r.name, r.start, r.end, row.tokens, r.prompt_tokens)
        # a client's two sends within a second may read alike
        if (
            r.vantage in {"client", "log"}
            or r.start is None
            or r.end is None
            or seen[what] < (answers if r.vantage == "engine" and not CHILD.match(r.name) else 1)
        ):
            seen[what] += 1
            kept.append(row)
        else:
            assert row.part is not None
            told.copies.setdefault(("requests", row.part), []).append(row.place)
            if r.vantage != "engine":
                told.gone.add((row.source, row.at))
    return kept


def _write(told: Told, row: ReusedRow, name: str, number: int) -> None:
    behind = f"#{number}" if number > 1 else ""
    for part, at, printed in row.lines:
        if behind:
            told.ids.setdefault(("request_events", part), {})[at] = printed + behind
    if row.record.vantage == "log":
        return
    assert row.part is not None
    if row.record.vantage != "engine":
        told.tied[(row.source, row.at)] = name + behind
    elif behind:
        told.ids.setdefault(("requests", row.part), {})[row.at] = row.record.name + behind
