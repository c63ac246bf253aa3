"""The clocks of a run: run time 0 is the start of the server's process."""

from __future__ import annotations

import datetime as dt

EPOCH_NS = 1_767_268_800 * 10**9
"""2026-01-01 12:00:00 UTC."""
MONOTONIC_NS = 5_321_004_117_000
"""CLOCK_MONOTONIC of client and engine at run time 0."""
SESSION_NS = 1_250_000_000
"""The profiler session of nsys starts so long before run time 0."""
KINETO_BASE_NS = 1_767_189_312_000_000_000
"""What Kineto subtracts from its times, as real files do: an odd fixed date."""


def unix_ns(at: int) -> int:
    """UTC of a run instant."""
    return EPOCH_NS + at


def wall(at: int) -> dt.datetime:
    """The same, as a date."""
    return dt.datetime.fromtimestamp(unix_ns(at) // 10**9, tz=dt.UTC)


def seconds(length: int) -> float:
    """Seconds of a span, to the nanosecond."""
    return round(length / 1e9, 9)


def decimal_seconds(at: int) -> str:
    """Seconds with six decimals, exactly."""
    return f"{at // 10**9}.{at % 10**9 // 1000:06d}"
