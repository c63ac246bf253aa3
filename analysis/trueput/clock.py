"""Clock kinds, and the offset that carries a source's instants to UTC.

A source states the kind of clock its instants are on and never converts by itself. Attribution
fits the offset (`utc = instant + offset_ns`); the table `sources` records offset, method and
uncertainty. Instants on two clocks are never subtracted without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from zoneinfo import ZoneInfo


class ClockKind(StrEnum):
    """What the instants of a source are counted from."""

    UTC = "utc"
    """Nanoseconds since the epoch."""
    LOCAL = "local"
    """Wall time without a zone (and perhaps without a year), read as if it were UTC."""
    MONOTONIC = "monotonic"
    """A counter with an arbitrary zero that is shared by the machine (CLOCK_MONOTONIC)."""
    RELATIVE = "relative"
    """Counted from the start of the file or the run."""
    NONE = "none"
    """The source has no instants."""


@dataclass(frozen=True)
class ClockFit:
    """Offset from a source's clock to UTC, in nanoseconds, how it was found and how sure it is."""

    offset_ns: int | None
    uncertainty_ns: int | None
    method: str


@dataclass(frozen=True)
class ClockAnchor:
    """One moment read on two clocks: UTC and monotonic nanoseconds."""

    unix_ns: int
    monotonic_ns: int


def zone_offset_ns(zone: str | tzinfo, instant_ns: int) -> int:
    """Return what must be added to local wall time `instant_ns` (read as UTC) to get UTC.

    `zone` is an IANA name, `UTC`, or an offset such as `+02:00`. Raises ValueError for others.
    """
    tz = parse_zone(zone) if isinstance(zone, str) else zone
    local = datetime(1970, 1, 1, tzinfo=tz) + timedelta(microseconds=instant_ns // 1000)
    shift = local.utcoffset() or timedelta(0)
    return -int(shift.total_seconds()) * 1_000_000_000


def parse_zone(text: str) -> tzinfo:
    """Return the zone named by `text`: an IANA name, `UTC`, or `+HH:MM`. Raises ValueError."""
    if text.upper() in {"UTC", "Z", "GMT"}:
        return UTC
    if text[:1] in "+-" and len(text) >= 3:
        parsed = datetime.strptime(text, "%z")
        if parsed.tzinfo is not None:
            return parsed.tzinfo
    try:
        return ZoneInfo(text)
    except (KeyError, OSError, ValueError) as error:
        raise ValueError(f"unknown time zone `{text}`") from error
