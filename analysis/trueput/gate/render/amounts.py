"""Figures of a finding as every text for people writes them."""

from __future__ import annotations

import math

from trueput.gate.rule_api import Finding, Outcome
from trueput.units import ns_text

MEANS_TEXT = (
    "a figure of several runs is their geometric mean where its ratio has bounds, else the "
    "arithmetic one"
)
"""By which mean figures of repeats are, in every text that shows them."""


def amount(value: float | None, unit: str) -> str:
    """Return a figure without its unit, but for spans: `3.13`, `194 ms`; `unknown` without one."""
    if value is None or math.isnan(value):
        return "unknown"
    return ns_text(round(value)) if unit == "ns" and math.isfinite(value) else f"{value:.4g}"


def unit_after(unit: str) -> str:
    """Return the unit behind an amount, with a space; empty where the amount tells it itself."""
    return "" if unit in {"", "ns", "ratio"} else f" {unit}"


def not_applicable(findings: tuple[Finding, ...]) -> list[str]:
    """Return the rules of which no finding applies, in order."""
    applied = {f.rule for f in findings if f.outcome is not Outcome.NOT_APPLICABLE}
    return [rule for rule in dict.fromkeys(f.rule for f in findings) if rule not in applied]
