"""sources: the formats that trueput reads."""

from __future__ import annotations

from trueput.source_api import Source
from trueput.sources import all_sources


def sources() -> list[Source]:
    """Return every known format, sorted by name."""
    return list(all_sources())
