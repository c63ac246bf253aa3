"""The grammar of a service-level objective: `ttft=500ms,tpot=50ms,e2e=10s,min_output_tokens=1`.

Limits are upper limits, inclusive. Units: ns, us, ms, s. A request is good when it is complete and
every limit that is defined for it holds.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from trueput.errors import UsageError
from trueput.units import MAX_NS, NS_PER

METRICS: Final = ("ttft", "tpot", "itl_p99", "e2e")
KEYS: Final = (*METRICS, "min_output_tokens")
_AMOUNT = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?")
_EXAMPLE = "write limits like ttft=500ms,tpot=50ms,e2e=10s,min_output_tokens=1 (ns, us, ms, s)"


@dataclass(frozen=True)
class SloClass:
    """Limits of one class of requests; where it names none, the general one holds.

    A request is of the class when it has the label (if one is given) and its prompt is at least
    `prompt_from` and below `prompt_to` tokens (if they are given).
    """

    limits: Slo
    label: str | None = None
    prompt_from: int | None = None
    prompt_to: int | None = None

    def whom(self) -> str:
        """Return whom it is for: `label chat`, `prompt 1000..`, or both."""
        named = [] if self.label is None else [f"label {self.label}"]
        if (self.prompt_from, self.prompt_to) != (None, None):
            ends = (self.prompt_from, self.prompt_to)
            named.append(f"prompt {'..'.join('' if e is None else str(e) for e in ends)}")
        return " and ".join(named)

    def text(self) -> str:
        """Return whom it is for and its limits."""
        return f"{self.whom()}: {self.limits.text()}"

    def meets(self, other: SloClass) -> bool:
        """Tell whether a request can be of both classes."""
        labels = {self.label, other.label} - {None}
        low = max(self.prompt_from or 0, other.prompt_from or 0)
        ends = [end for end in (self.prompt_to, other.prompt_to) if end is not None]
        return len(labels) < 2 and (not ends or low < min(ends))


@dataclass(frozen=True)
class Slo:
    """Upper limits in nanoseconds (None: no limit) and the smallest acceptable output."""

    ttft: int | None = None
    tpot: int | None = None
    itl_p99: int | None = None
    e2e: int | None = None
    min_output_tokens: int | None = None
    measured_from: str = "sent"
    undefined_passes: bool = True
    classes: tuple[SloClass, ...] = ()

    def text(self) -> str:
        """Return the canonical text in the grammar of `--slo`; empty without a limit.

        Limits of classes follow, each after a `; `: they are no part of that grammar.
        """
        parts = []
        for key in KEYS:
            value = getattr(self, key)
            if value is None:
                continue
            if key in METRICS:
                unit = next((u for u in ("ms", "us") if value % NS_PER[u] == 0), "ns")
                parts.append(f"{key}={value // NS_PER[unit]}{unit}")
            else:
                parts.append(f"{key}={value}")
        return "; ".join(filter(None, [",".join(parts), *(c.text() for c in self.classes)]))


def parse_slo(text: str, where: str = "--slo") -> Slo:
    """Return the objective written in `text`. Raises UsageError that names the bad part."""
    if not text.strip():
        raise UsageError(f"{where}: empty, expected at least one limit", _EXAMPLE)
    found: dict[str, int] = {}
    for part in text.split(","):
        key, sign, limit = (piece.strip() for piece in part.partition("="))
        if not sign:
            raise UsageError(f"{where}: `{part.strip()}` has no `=`", _EXAMPLE)
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, 1, 0.5)
            hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(KEYS)}"
            raise UsageError(f"{where}: unknown limit `{key}`", hint)
        if key in found:
            raise UsageError(f"{where}: `{key}` is given twice", "keep one of the two limits")
        found[key] = _limit(key, limit, where)
    return Slo(
        ttft=found.get("ttft"),
        tpot=found.get("tpot"),
        itl_p99=found.get("itl_p99"),
        e2e=found.get("e2e"),
        min_output_tokens=found.get("min_output_tokens"),
    )


def _limit(key: str, value: str, where: str) -> int:
    if key == "min_output_tokens":
        if not (value.isascii() and value.isdigit() and len(value) < 19):
            raise UsageError(f"{where}: {key}={value}, expected a whole number", _EXAMPLE)
        return int(value)
    return parse_span(value, where, key)


def parse_span(value: str, where: str, key: str = "floor") -> int:
    """Return a span such as `500ms` in nanoseconds. Raises UsageError that names the key."""
    unit = next((unit for unit in ("ns", "us", "ms", "s") if value.endswith(unit)), None)
    if unit is None:
        raise UsageError(
            f"{where}: {key}={value} has no unit that is known: ns, us, ms or s", _EXAMPLE
        )
    amount = value[: -len(unit)].strip()
    span = Decimal(amount) * NS_PER[unit] if _AMOUNT.fullmatch(amount) else Decimal(0)
    if not 0 < span <= MAX_NS:
        raise UsageError(f"{where}: {key}={value}, expected a time above 0", _EXAMPLE)
    if span != int(span):
        raise UsageError(f"{where}: {key}={value} is finer than 1 ns", _EXAMPLE)
    return int(span)
