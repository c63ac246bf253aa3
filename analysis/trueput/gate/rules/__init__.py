"""The gate's rules, one module each, found by listing this folder."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from trueput.gate.rule_api import Rule


@cache
def discover() -> tuple[Rule, ...]:
    """Return every rule, in the order in which a report shows them."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    rules: list[Rule] = [importlib.import_module(f"{__name__}.{name}").RULE for name in names]
    return tuple(sorted(rules, key=lambda rule: (rule.order, rule.name)))
