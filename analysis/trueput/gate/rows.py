"""Reading a column of a view's row: a value of the wanted kind, or ``None``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TypeAlias

Row: TypeAlias = Mapping[str, object]


def number(row: Row | None, *names: str) -> float | None:
    """Return the first named column that holds a finite number, as a float."""
    for name in names:
        value = None if row is None else row.get(name)
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, (int, float)) or type(value).__name__ == "Decimal":
            found = float(value)  # type: ignore[arg-type]  # Decimal has __float__
            if math.isfinite(found):
                return found
    return None


def whole(row: Row | None, *names: str) -> int | None:
    """Return the first named column that holds an integer, exactly (epoch instants fit)."""
    for name in names:
        value = None if row is None else row.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
    return None


def text(row: Row | None, *names: str) -> str | None:
    """Return the first named column that holds a non-empty string."""
    for name in names:
        value = None if row is None else row.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def flag(row: Row | None, *names: str) -> bool | None:
    """Return the first named column that holds true or false."""
    for name in names:
        value = None if row is None else row.get(name)
        if isinstance(value, bool):
            return value
    return None


def mapping(row: Row | None, name: str) -> dict[str, object]:
    """Return a column that holds a JSON object or a mapping; empty when absent or not an object."""
    value = None if row is None else row.get(name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    return {}
