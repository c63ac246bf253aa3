"""The formats that trueput reads: one module each, found by listing this folder."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from trueput.source_api import Source


@cache
def all_sources() -> tuple[Source, ...]:
    """Return every built-in source, sorted by name. Each module has a constant `SOURCE`."""
    found = []
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith("_"):
            continue
        found.append(importlib.import_module(f"{__name__}.{module.name}").SOURCE)
    return tuple(sorted(found, key=lambda s: s.name))
