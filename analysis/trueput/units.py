"""Exact conversion of printed numbers to integer nanoseconds, and of nanoseconds to text.

All instants and spans in trueput are int64 nanoseconds. A decimal text is converted without a
float where precision matters (epoch seconds with nine digits do not fit a float64).
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import Final

NS_PER: Final[dict[str, int]] = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
}
"""Nanoseconds in one unit of time."""

BYTES_PER: Final[dict[str, int]] = {
    "": 1,
    "b": 1,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}
"""Bytes in one unit of size, by its name in lower case; without a unit, bytes."""

MAX_NS: Final = 2**63 - 1
MAX_TOKENS: Final = 2**40
"""No request, and no step of an engine, has more; a larger count is of something else."""
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([KMGTkmgt]?i?[Bb])?", re.ASCII)


def to_ns(value: str | float | Decimal, unit: str) -> int | None:
    """Return `value` in `unit` as nanoseconds, or None where it is no finite int64.

    A text or Decimal is converted exactly; a float through its shortest decimal form (`repr`),
    which is exact for numbers that came from a JSON text of at most 17 digits.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None
    try:
        number = value if isinstance(value, Decimal) else Decimal(str(value))
        if not number.is_finite() or number.adjusted() > 30:
            return None
        result = int((number * NS_PER[unit]).to_integral_value())
    except (InvalidOperation, ValueError):
        return None
    return result if -MAX_NS <= result <= MAX_NS else None


def ns_text(value: int | None) -> str:
    """Return a span for people: three significant digits and a unit, `-` for unknown."""
    if value is None:
        return "-"
    size = abs(value)
    for unit in ("s", "ms", "us"):
        if size >= NS_PER[unit]:
            number = value / NS_PER[unit]
            digits = 2 if abs(number) < 10 else 1 if abs(number) < 100 else 0
            return f"{number:,.{digits}f} {unit}"
    return f"{value} ns"


def to_bytes(text: str) -> int | None:
    """Return a size such as `80GiB`, `1.5 MiB`, `80GB` or `1024` in bytes, exactly.

    None where the text is no size, or no whole number of bytes.
    """
    match = _SIZE.fullmatch(text.strip())
    unit = (match[2] or "").lower() if match else "?"
    if match is None or unit not in BYTES_PER:
        return None
    size = Decimal(match[1]) * BYTES_PER[unit]
    return int(size) if size == size.to_integral_value() else None


def bytes_text(value: int | None) -> str:
    """Return a size for people: four significant digits and a binary unit, `-` for unknown."""
    if value is None:
        return "-"
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        size = BYTES_PER[unit.lower()]
        if abs(value) >= size:
            return (
                f"{value / size:,.4g} {unit}"
                if abs(value) < 1000 * size
                else (f"{value / size:,.0f} {unit}")
            )
    return f"{value} B"
