"""What a picture of a sweep shows: plain figures, no library."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """One configuration; changes are relative (0.1 is 10 % more), None where not known."""

    number: int
    name: str
    verdict: str
    activity: float | None
    goodput: float | None
    recomputed: float | None = None
    activity_low: float | None = None
    activity_high: float | None = None
    goodput_low: float | None = None
    goodput_high: float | None = None
