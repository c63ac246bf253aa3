"""Whether a run's counters cover its iterations: the same lives of the engine, the same time.

What a counter grew by is what the iterations did only where it is known from before the first
iteration of a life until after its last. Else it is at least that, and recompute is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from trueput.attribution.engine.counters import (
    GENERATION_TOKENS,
    PREEMPTIONS,
    CounterLife,
    counter_lives,
)
from trueput.clock import ClockFit

Parts = Mapping[str, Sequence[Path]]

_SECOND: Final = 1_000_000_000
_QUARTER_HOUR: Final = 900 * _SECOND


@dataclass(frozen=True)
class Counted:
    """How far counters grew by metric, and what of the run they do not cover (None: nothing)."""

    grown: Mapping[str, int]
    uncovered: str | None = None
    preemptions: int | None = None
    """How many there were in all; None where that is not covered."""


@dataclass(frozen=True)
class LoggedLife:
    """Iterations with work of one engine between two starts (ns, UTC, to the log's resolution)."""

    engine: str
    first_ns: int
    """The second in which the first was printed: nothing of the life was counted before it."""
    last_ns: int
    """The end of the second in which the last was printed."""
    from_start: bool
    """Whether the engine's first iteration is among them."""
    processes: int = 1
    """Engine processes that ran at the same time."""


def counted(parts: Parts, fits: Mapping[str, ClockFit]) -> Counted:
    """Return what the counters of a run say of its iterations; without a log, of its load."""

    def offset(source: str) -> int:
        fit = fits.get(source)
        return fit.offset_ns or 0 if fit is not None else 0

    lives = counter_lives(parts, offset)
    if not lives:
        return Counted({})
    found = _logged(parts, offset)
    logged: Sequence[LoggedLife] = [life for _, life in found]
    if not logged:
        return _of_load(lives, _load(parts, offset))
    if all((f := fits.get(s)) is None or f.uncertainty_ns is None for s, _ in found):
        logged = _moved_by_zone(logged, lives)
    return judge(lives, logged)


def judge(lives: Sequence[CounterLife], logged: Sequence[LoggedLife]) -> Counted:
    """Return the growth of the lives that counted `logged`, and the first thing not covered."""
    if {x.engine for x in logged} - {x.engine for x in lives}:
        # log and counters name engines differently
        lives = [replace(x, engine="") for x in lives]
        logged = [replace(x, engine="") for x in logged]
    gaps: list[_Gap] = []
    sums: dict[str, float] = {}
    used: set[int] = set()
    met: set[int] = set()
    before: dict[str, int] = {}
    for one in _at_one_time(logged):
        mine = [i for i, x in enumerate(lives) if x.engine == one.engine and _meets(x, one)]
        after_ns, before[one.engine] = before.get(one.engine), one.last_ns
        name = f"engine {one.engine}" if one.engine else "the engine"
        met.update(mine)
        if len(mine) > one.processes:
            text = f"{len(mine)} processes were scraped, {one.processes} of {name} logged"
            gaps.append(_Gap(text))
            continue
        if len(mine) < one.processes:
            what = "no scrape shows" if not mine else f"{len(mine)} of {one.processes} processes:"
            gaps.append(_Gap(f"{what} a life of {name} that the log holds"))
        for i in mine:
            from_zero = _from_zero(lives[i], one, after_ns)
            gaps += _gaps(lives[i], one, name, from_zero=from_zero)
            if i not in used:
                used.add(i)
                for metric, more in lives[i].growth(from_zero=from_zero).items():
                    sums[metric] = sums.get(metric, 0.0) + more
    for i, life in enumerate(lives):
        grown = life.growth(from_zero=life.restarted or life.began_at_zero)
        if i not in met and (grown.get(GENERATION_TOKENS) or grown.get(PREEMPTIONS)):
            name = f"engine {life.engine}" if life.engine else "an engine"
            gaps.append(_Gap(f"the log lacks a life of {name} that was scraped"))
    return _counted(sums, gaps)


@dataclass(frozen=True)
class _Gap:
    """What is not covered, and whether a preemption may lie in it."""

    text: str
    hides_preemptions: bool = True


def _counted(sums: Mapping[str, float], gaps: Sequence[_Gap]) -> Counted:
    grown = {metric: round(value) for metric, value in sums.items()}
    hidden = any(gap.hides_preemptions for gap in gaps)
    preemptions = None if hidden else grown.get(PREEMPTIONS)
    return Counted(grown, gaps[0].text if gaps else None, preemptions)


def _meets(life: CounterLife, one: LoggedLife) -> bool:
    from_ns = life.first_ns if life.started_ns is None else min(life.started_ns, life.first_ns)
    return from_ns <= one.last_ns and life.last_ns >= one.first_ns


def _from_zero(life: CounterLife, one: LoggedLife, after_ns: int | None) -> bool:
    """Whether the whole count is of the logged life: it began at 0, and the log with it."""
    if life.restarted or life.began_at_zero:
        return True
    start = life.started_ns
    return (
        start is not None
        and one.from_start
        and start <= one.first_ns
        and (after_ns is None or start >= after_ns - _SECOND)
    )


def _gaps(life: CounterLife, one: LoggedLife, name: str, *, from_zero: bool) -> list[_Gap]:
    late, early = life.first_ns - one.first_ns, one.last_ns - life.last_ns
    gaps: list[_Gap] = []
    if late > 0 and not from_zero:
        text = f"the scrapes begin {late / 1e9:.3g} s after the first iteration of {name}"
        gaps.append(_Gap(text, not life.had_preempted_none))
    if early > 0:
        text = f"the scrapes end {early / 1e9:.3g} s before the last iteration of {name}"
        gaps.append(_Gap(text))
    return gaps


def _at_one_time(logged: Sequence[LoggedLife]) -> list[LoggedLife]:
    """Unite lives of one engine's name that ran at the same time: several processes."""
    united: list[LoggedLife] = []
    for one in sorted(logged, key=lambda x: (x.engine, x.first_ns)):
        last = united[-1] if united else None
        # a life ends within the second that another begins in
        if last is None or last.engine != one.engine or one.first_ns + _SECOND >= last.last_ns:
            united.append(one)
            continue
        united[-1] = LoggedLife(
            one.engine, last.first_ns, max(last.last_ns, one.last_ns),
            last.from_start and one.from_start, last.processes + 1,
        )  # fmt: skip
    return united


def _of_load(lives: Sequence[CounterLife], load: tuple[int, int] | None) -> Counted:
    """Without a log: of the load, or of the time that was scraped where no client tells of one."""
    sums: dict[str, float] = {}
    gaps: list[_Gap] = []
    for life in lives:
        from_zero = life.restarted or life.began_at_zero
        if life.first_ns == life.last_ns and not from_zero:
            text = "a single scrape does not say by how much its counters grew"
            gaps.append(_Gap(text, not life.had_preempted_none))
            sums.setdefault(PREEMPTIONS, 0.0)
            continue
        for metric, more in life.growth(from_zero=from_zero).items():
            sums[metric] = sums.get(metric, 0.0) + more
    begun = [x for x in lives if not (x.restarted or x.began_at_zero)]
    first = min(x.first_ns for x in lives)
    if load is not None and begun and first > load[0]:
        text = f"the scrapes begin {(first - load[0]) / 1e9:.3g} s after the load"
        gaps.append(_Gap(text, not all(x.had_preempted_none for x in begun)))
    last = max(x.last_ns for x in lives)
    if load is not None and last < load[1]:
        gaps.append(_Gap(f"the scrapes end {(load[1] - last) / 1e9:.3g} s before the load"))
    return _counted(sums, gaps)


def _moved_by_zone(
    logged: Sequence[LoggedLife], lives: Sequence[CounterLife]
) -> Sequence[LoggedLife]:
    """Where no zone is known and no scrape meets the log, move it by whole quarters of an hour."""
    if any(_meets(life, one) for life in lives for one in logged):
        return logged
    apart = max(x.last_ns for x in lives) - max(x.last_ns for x in logged)
    move = round(apart / _QUARTER_HOUR) * _QUARTER_HOUR
    return [replace(x, first_ns=x.first_ns + move, last_ns=x.last_ns + move) for x in logged]


def _logged(parts: Parts, offset: Callable[[str], int]) -> list[tuple[str, LoggedLife]]:
    """Return the lives that logs tell of, each with its file."""
    import polars as pl

    files = list(parts.get("engine_steps", ()))
    if not files:
        return []
    at, work = pl.col("logged_at_ns"), pl.col("context_tokens") + pl.col("generation_tokens")
    rows = (
        pl.scan_parquet(files)
        .filter(~pl.col("dummy") & (work.fill_null(1) > 0))
        .group_by("source_id", "engine", "incarnation")
        .agg(at.min().alias("first"), at.max().alias("last"), pl.col("step_ix").min())
        .collect(engine="streaming")
    )
    found = []
    for source, engine, _, first, last, step_ix in rows.iter_rows():
        if first is None:
            continue
        move = offset(source)
        starts = step_ix is not None and step_ix <= 1
        life = LoggedLife(engine, first + move, last + move + _SECOND, starts)
        found.append((source, life))
    return found


def _load(parts: Parts, offset: Callable[[str], int]) -> tuple[int, int] | None:
    """Return from when until when clients had requests open; None without a client."""
    import polars as pl

    files = list(parts.get("requests", ()))
    if not files:
        return None
    rows = (
        pl.scan_parquet(files)
        .filter(pl.col("vantage") == "client")
        .group_by("source_id")
        .agg(pl.col("sent_at_ns").min(), pl.col("ended_at_ns").max())
        .collect(engine="streaming")
    )
    spans = [(a + offset(s), b + offset(s)) for s, a, b in rows.iter_rows() if None not in (a, b)]
    return (min(a for a, _ in spans), max(b for _, b in spans)) if spans else None
