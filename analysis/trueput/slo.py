"""The grammar of a service-level objective: `ttft=500ms,tpot=50ms,e2e=10s,min_output_tokens=1`.

Limits are upper limits, inclusive. Units: ns, us, ms, s. A request is good when it is complete and
every limit that is defined for it holds.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Final

from trueput.errors import UsageError
from trueput.units import NS_PER, to_ns

METRICS: Final = ("ttft", "tpot", "itl_p99", "e2e")
_LIMIT = re.compile(r"^(\d+(?:\.\d+)?)\s*(ns|us|ms|s)$")
_EXAMPLE = "write limits like `ttft=500ms,tpot=50ms,e2e=10s,min_output_tokens=1`"


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

    def text(self) -> str:
        """Return the canonical text, in the grammar of `--slo`."""
        parts = [
            f"{name}={_shortest(value)}"
            for name in METRICS
            if (value := getattr(self, name)) is not None
        ]
        if self.min_output_tokens is not None:
            parts.append(f"min_output_tokens={self.min_output_tokens}")
        return ",".join(parts)


def _shortest(ns: int) -> str:
    for unit in ("s", "ms", "us"):
        if unit == "s" and ns >= 10 * NS_PER["s"] and ns % NS_PER["s"] == 0:
            return f"{ns // NS_PER['s']}s"
        if unit != "s" and ns % NS_PER[unit] == 0:
            return f"{ns // NS_PER[unit]}{unit}"
    return f"{ns}ns"


def parse_slo(text: str, where: str = "--slo") -> Slo:
    """Return the objective written in `text`. Raises UsageError that names the bad part."""
    values: dict[str, int] = {}
    for part in text.split(","):
        name, sign, limit = (p.strip() for p in part.partition("="))
        if not sign or not limit:
            raise UsageError(f"{where}: `{part.strip()}` is not of the form name=limit", _EXAMPLE)
        known = (*METRICS, "min_output_tokens")
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean `{near[0]}`?" if near else _EXAMPLE
            raise UsageError(f"{where}: unknown metric `{name}`", hint)
        if name in values:
            raise UsageError(f"{where}: `{name}` stands twice", _EXAMPLE)
        values[name] = _limit(name, limit, where)
    return Slo(
        ttft=values.get("ttft"),
        tpot=values.get("tpot"),
        itl_p99=values.get("itl_p99"),
        e2e=values.get("e2e"),
        min_output_tokens=values.get("min_output_tokens"),
    )


def _limit(name: str, limit: str, where: str) -> int:
    if name == "min_output_tokens":
        if not limit.isdigit():
            raise UsageError(f"{where}: `{name}={limit}` is not a whole number", _EXAMPLE)
        return int(limit)
    match = _LIMIT.match(limit)
    value = to_ns(match[1], match[2]) if match else None
    if value is None:
        raise UsageError(
            f"{where}: `{name}={limit}` is no time; expected a number and one of ns, us, ms, s",
            _EXAMPLE,
        )
    return value
