"""One record of a reused id, wherever it stands, and the way of its instants to UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trueput.attribution.reused.lives import Record
from trueput.clock import ClockFit

Fits = Mapping[str, ClockFit]
"""By file."""

UNSURE_NS: Final = 2_000_000_000
"""How far instants may be off on a clock of which no uncertainty is known."""


@dataclass(frozen=True)
class ReusedRow:
    """A record, and where its id must be written."""

    record: Record
    source: str
    at: int
    """Its row_ix, or, of an engine's record, its place in the part."""
    part: Path | None
    """None for lines of a log, which may be of several."""
    place: int = 0
    """Of a record in its part."""
    tokens: int | None = None
    lines: tuple[tuple[Path, int, str], ...] = ()
    """Of lines of a log: part, place and printed id of each."""


def clock_of(fits: Fits, source: str) -> tuple[int, int]:
    """Return the way of a file's instants to UTC, and how far that may be off, both in ns."""
    fit = fits.get(source)
    if fit is None or fit.offset_ns is None:
        return 0, UNSURE_NS
    return fit.offset_ns, UNSURE_NS if fit.uncertainty_ns is None else fit.uncertainty_ns
