"""Fitting each file's clock to UTC: anchors first, then request joins, then printed dates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trueput.clock import ClockAnchor, ClockFit, ClockKind, zone_offset_ns
from trueput.source_api import Clock

Ints = npt.NDArray[np.int64]
_SECOND = 1_000_000_000
_QUARTER_HOUR = 900 * _SECOND
_MIN_PAIRS = 3


@dataclass(frozen=True)
class Pairs:
    """Instants of the same happenings: on a file's own clock, and in UTC at another vantage.

    `mine` happened no later than `utc` by nature (a send before an arrival), or is the same event
    printed with whole seconds (a log line).
    """

    mine: Ints
    utc: Ints


@dataclass(frozen=True)
class ClockFacts:
    """What is known for one file: its clock, joins, and the end of the load in local time."""

    clock: Clock
    pairs: Pairs | None = None
    last_instant_ns: int | None = None
    ended_local_at_ns: int | None = None


def fit(facts: ClockFacts, anchors: Sequence[ClockAnchor], timezone: str | None) -> ClockFit:
    """Return the way from a file's clock to UTC, with method and uncertainty (ns)."""
    clock = facts.clock
    if clock.offset_ns is not None:
        method = clock.method or "stated by the file"
        return ClockFit(clock.offset_ns, clock.uncertainty_ns, method)
    if clock.kind is ClockKind.UTC:
        return ClockFit(0, clock.uncertainty_ns or 0, clock.method or "utc")
    if clock.kind is ClockKind.LOCAL:
        return _fit_local(facts, timezone)
    if clock.kind is ClockKind.MONOTONIC:
        return _fit_monotonic(facts, anchors, timezone)
    if clock.kind is ClockKind.RELATIVE:
        return _from_pairs(facts.pairs) or ClockFit(None, None, "no anchor")
    return ClockFit(None, None, "no instants")


def _fit_local(facts: ClockFacts, timezone: str | None) -> ClockFit:
    pairs = facts.pairs
    if timezone is not None:
        at = facts.last_instant_ns or 0
        return ClockFit(zone_offset_ns(timezone, at), _SECOND, f"time zone {timezone}")
    if pairs is not None and pairs.mine.size >= _MIN_PAIRS:
        difference = np.median(pairs.utc - pairs.mine)
        offset = round(float(difference) / _QUARTER_HOUR) * _QUARTER_HOUR
        if abs(float(difference) - offset) < 60 * _SECOND:
            return ClockFit(offset, _SECOND, "request join")
        return ClockFit(int(difference), _SECOND, "request join, odd offset")
    return ClockFit(0, None, "assumed UTC")


def _fit_monotonic(
    facts: ClockFacts, anchors: Sequence[ClockAnchor], timezone: str | None
) -> ClockFit:
    if anchors:
        offsets = np.array([a.unix_ns - a.monotonic_ns for a in anchors], np.int64)
        middle = int(np.sort(offsets)[offsets.size // 2])
        spread = int(np.max(np.abs(offsets - middle)))
        return ClockFit(middle, spread + 1_000, f"{offsets.size} clock anchors")
    joined = _from_pairs(facts.pairs)
    if joined is not None:
        return joined
    if facts.ended_local_at_ns is not None and facts.last_instant_ns is not None:
        zone = zone_offset_ns(timezone, facts.ended_local_at_ns) if timezone else 0
        offset = facts.ended_local_at_ns + zone - facts.last_instant_ns
        if timezone:
            return ClockFit(offset, 2 * _SECOND, f"printed end date, time zone {timezone}")
        return ClockFit(offset, None, "printed end date, assumed UTC")
    return ClockFit(None, None, "no anchor")


def _from_pairs(pairs: Pairs | None) -> ClockFit | None:
    """A send comes before its arrival: the smallest difference is the tightest upper bound."""
    if pairs is None or pairs.mine.size < _MIN_PAIRS:
        return None
    differences = np.sort(pairs.utc - pairs.mine)
    smallest, middle = int(differences[0]), int(differences[differences.size // 2])
    return ClockFit(smallest, middle - smallest, f"{differences.size} request joins")


def align_all(
    known: Mapping[str, ClockFacts], anchors: Sequence[ClockAnchor], timezone: str | None
) -> dict[str, ClockFit]:
    """Return the fit of every file."""
    return {source: fit(facts, anchors, timezone) for source, facts in known.items()}
