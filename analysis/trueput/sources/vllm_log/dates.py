"""Dates without a year -> days since the epoch, with the turn of the year inside a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from trueput.source_api import ReadOptions

DAY_NS: Final = 86_400_000_000_000
SECOND_NS: Final = 1_000_000_000
EPOCH: Final = date(1970, 1, 1)
HALF_YEAR_DAYS: Final = 183


def _latest(options: ReadOptions, path: Path) -> date:
    """Return a day that the file's first line cannot be later than."""
    anchors = options.run_toml.get("clock_anchors", ())
    known = anchors if isinstance(anchors, list) else []
    seconds = [a["unix"] for a in known if isinstance(a, Mapping) and _is_number(a.get("unix"))]
    if seconds:
        newest = float(max(seconds))
    elif options.mtime_ns is not None:
        newest = options.mtime_ns / SECOND_NS
    else:
        newest = path.stat().st_mtime
    try:
        return datetime.fromtimestamp(newest, UTC).date() + timedelta(days=1)
    except (OverflowError, OSError, ValueError):
        return date(2100, 1, 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _told_year(options: ReadOptions) -> int | None:
    year = options.year if options.year is not None else options.run_toml.get("year")
    return year if isinstance(year, int) and 1970 <= year <= 2200 else None


@dataclass
class Dates:
    """Gives each `MM-DD`, in file order, the year that puts it closest to the date before it.

    The first one gets the year that was told, else the newest that is not after the file's own
    time plus one day.
    """

    year: int | None
    latest: date
    last: date | None = None
    backwards: int = 0
    invalid: int = 0
    _cache: dict[tuple[str, date | None], date | None] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, options: ReadOptions) -> Dates:
        """Return the state for one file."""
        return cls(_told_year(options), _latest(options, path))

    def day(self, text: str) -> int | None:
        """Return the days since the epoch of the next `MM-DD`; None where there is no such day."""
        key = (text, self.last)
        if key not in self._cache:
            if len(self._cache) > 10_000:
                self._cache.clear()
            self._cache[key] = self._resolve(text)
        found = self._cache[key]
        if found is None:
            self.invalid += 1
            return None
        if self.last is not None and found < self.last:
            self.backwards += 1
        self.last = found
        return (found - EPOCH).days

    def _resolve(self, text: str) -> date | None:
        month, day = int(text[:2]), int(text[3:])
        if self.last is not None:
            middle = self.last.year
            near = [d for y in (middle - 1, middle, middle + 1) if (d := _date(y, month, day))]
            last = self.last
            return min(near, key=lambda d: abs((d - last).days), default=None)
        if self.year is not None:
            return _date(self.year, month, day)
        years = range(self.latest.year, self.latest.year - 9, -1)
        past = [d for y in years if (d := _date(y, month, day)) and d <= self.latest]
        return past[0] if past else None


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
