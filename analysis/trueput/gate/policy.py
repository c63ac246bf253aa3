"""The gate's policy: a small TOML file, every key of which is used and every other is an error."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from trueput.errors import UsageError
from trueput.gate.statistics import Noise

VERSION = 1
BLOCKING, INFORMING = "blocking", "informing"
LIMITS = ("ttft", "tpot", "itl_p99", "e2e")
SLO_KEYS = (*LIMITS, "min_output_tokens")
_UNITS_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_AMOUNT = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?")
_LONGEST_NS = 2**63
_EXAMPLE = "write limits as ttft=500ms,tpot=50ms,e2e=10s,min_output_tokens=1 (units ns, us, ms, s)"
_NUMBERS = ("min_effect", "margin", "floor_log_sd", "run_log_sd")
_KEYS = ("version", *_NUMBERS, "slo", "must_match", "under_test", "rules")
_SLO_CHOICES = {"from": ("sent", "scheduled"), "undefined": ("pass", "fail")}


@dataclass(frozen=True)
class Policy:
    """What the gate holds a candidate to; shares and log sds as plain numbers (0.05 is 5 %)."""

    slo: Mapping[str, int] = field(default_factory=dict)
    slo_from: str = "sent"
    slo_undefined: str = "pass"
    min_effect: float = 0.05
    margin: float = 0.05
    noise: Noise = field(default_factory=Noise)
    must_match: frozenset[str] = frozenset()
    under_test: frozenset[str] = frozenset()
    rules: Mapping[str, str] = field(default_factory=dict)

    @property
    def slo_text(self) -> str | None:
        """The objective in the grammar of ``--slo``; ``None`` when the policy names none."""
        return format_slo(self.slo) if self.slo else None


def parse_slo(source: str, where: str = "SLO") -> dict[str, int]:
    """Return the limits of ``ttft=500ms,tpot=50ms,...``: ns for times, a count for tokens."""
    found: dict[str, int] = {}
    if not source.strip():
        raise UsageError(f"{where}: empty, expected at least one limit", hint=_EXAMPLE)
    for part in source.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise UsageError(f"{where}: `{part.strip()}` has no `=`", hint=_EXAMPLE)
        if key not in SLO_KEYS:
            raise UsageError(f"{where}: unknown limit `{key}`", hint=_nearest(key, SLO_KEYS))
        if key in found:
            raise UsageError(f"{where}: `{key}` is given twice", hint="keep one of the two limits")
        found[key] = _limit(key, value, where)
    return found


def format_slo(limits: Mapping[str, int]) -> str:
    """Return limits in the grammar of ``--slo``, in one fixed order and the largest exact unit."""
    parts = []
    for key in SLO_KEYS:
        if key not in limits:
            continue
        value = limits[key]
        if key in LIMITS:
            unit = next((u for u in ("ms", "us") if value % _UNITS_NS[u] == 0), "ns")
            parts.append(f"{key}={value // _UNITS_NS[unit]}{unit}")
        else:
            parts.append(f"{key}={value}")
    return ",".join(parts)


def load_policy(path: Path, rules: Iterable[str] | None = None) -> Policy:
    """Read a policy file; ``rules`` are the names of the rules that exist."""
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}: the policy cannot be read ({type(error).__name__})",
            hint="`trueput policy init` writes a commented policy",
        ) from error
    return parse_policy(source, where=str(path), rules=rules)


def parse_policy(source: str, where: str = "policy", rules: Iterable[str] | None = None) -> Policy:
    """Return the policy that a TOML text describes; any unknown or misused key is an error."""
    try:
        document = tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: not TOML: {error}", hint="see `trueput policy init`") from error
    _known(document, _KEYS, where)
    if document.get("version", VERSION) != VERSION:
        raise UsageError(
            f"{where}: version {document['version']!r} is not known, expected {VERSION}",
            hint=f"write `version = {VERSION}`, or update trueput",
        )
    numbers = {key: _number(document[key], key, where) for key in _NUMBERS if key in document}
    slo = _table(document, "slo", where)
    default = Noise()
    policy = Policy(
        slo=_slo_limits(slo, where),
        slo_from=_choice(slo, "from", where),
        slo_undefined=_choice(slo, "undefined", where),
        min_effect=numbers.get("min_effect", Policy.min_effect),
        margin=numbers.get("margin", Policy.margin),
        noise=Noise(
            numbers.get("floor_log_sd", default.floor_log_sd),
            numbers.get("run_log_sd", default.run_log_sd),
        ),
        must_match=_aspects(_table(document, "must_match", where), "must_match", where),
        under_test=_aspects(_table(document, "under_test", where), "under_test", where),
        rules=_severities(_table(document, "rules", where), rules, where),
    )
    for aspect in sorted(policy.must_match & policy.under_test):
        raise UsageError(
            f"{where}: `{aspect}` stands in both [must_match] and [under_test]",
            hint="an aspect is held equal or it is under test; keep one",
        )
    return policy


def _limit(key: str, value: str, where: str) -> int:
    if key == "min_output_tokens":
        if not (value.isascii() and value.isdigit() and len(value) < 19):
            raise UsageError(f"{where}: {key}={value!r}, expected a whole number", hint=_EXAMPLE)
        return int(value)
    unit = next((unit for unit in ("ns", "us", "ms", "s") if value.endswith(unit)), None)
    if unit is None:
        raise UsageError(f"{where}: {key}={value!r} has no unit", hint=_EXAMPLE)
    amount = value[: -len(unit)].strip()
    span = Decimal(amount) * _UNITS_NS[unit] if _AMOUNT.fullmatch(amount) else Decimal(0)
    if not 0 < span < _LONGEST_NS:
        raise UsageError(f"{where}: {key}={value!r}, expected a time above 0", hint=_EXAMPLE)
    if span != int(span):
        raise UsageError(f"{where}: {key}={value!r} is finer than 1 ns", hint=_EXAMPLE)
    return int(span)


def _slo_limits(slo: Mapping[str, object], where: str) -> dict[str, int]:
    _known(slo, (*SLO_KEYS, *_SLO_CHOICES), f"{where}: [slo]")
    found: dict[str, int] = {}
    for key in SLO_KEYS:
        value = slo.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise UsageError(f"{where}: [slo] {key} = {value!r}, expected text", hint=_EXAMPLE)
        found[key] = _limit(key, str(value).strip(), f"{where}: [slo]")
    return found


def _choice(slo: Mapping[str, object], key: str, where: str) -> str:
    choices = _SLO_CHOICES[key]
    value = slo.get(key, choices[0])
    if not isinstance(value, str) or value not in choices:
        raise UsageError(
            f"{where}: [slo] {key} = {value!r}, expected one of {', '.join(choices)}",
            hint=f'write {key} = "{choices[0]}" (the default) or "{choices[1]}"',
        )
    return value


def _number(value: object, key: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise UsageError(
            f"{where}: {key} = {value!r}, expected a number from 0 up to, not including, 1",
            hint=f"{key} = 0.05 means 5 %",
        )
    return float(value)


def _table(document: Mapping[str, object], key: str, where: str) -> dict[str, object]:
    value = document.get(key, {})
    if not isinstance(value, dict):
        raise UsageError(f"{where}: {key} = {value!r}, expected a table", hint=f"write [{key}]")
    return value


def _aspects(table: Mapping[str, object], name: str, where: str) -> frozenset[str]:
    """Return the aspects set to true; an engine setting is ``config.<its name>``."""
    from trueput.gate.comparability import ASPECTS

    flat: dict[str, object] = {}
    for key, value in table.items():
        if key == "config" and isinstance(value, dict):
            flat.update({f"config.{inner}": item for inner, item in value.items()})
        else:
            flat[key] = value
    settings = [key for key in flat if key.startswith("config.")]
    _known(flat, (*ASPECTS, *settings), f"{where}: [{name}]")
    for key, value in flat.items():
        if not isinstance(value, bool):
            raise UsageError(
                f"{where}: [{name}] {key} = {value!r}, expected true or false",
                hint=f"write {key} = true",
            )
    return frozenset(key for key, value in flat.items() if value)


def _severities(
    table: Mapping[str, object], rules: Iterable[str] | None, where: str
) -> dict[str, str]:
    from trueput.gate.rules import discover

    names = [rule.name for rule in discover()] if rules is None else list(rules)
    _known(table, names, f"{where}: [rules]")
    for key, value in table.items():
        if value not in (BLOCKING, INFORMING):
            raise UsageError(
                f"{where}: [rules] {key} = {value!r}, expected blocking or informing",
                hint=f'write {key} = "{BLOCKING}"',
            )
    return {key: str(value) for key, value in table.items()}


def _known(table: Mapping[str, object], keys: Iterable[str], where: str) -> None:
    allowed = list(keys)
    for key in table:
        if key not in allowed:
            raise UsageError(f"{where}: unknown key `{key}`", hint=_nearest(key, allowed))


def _nearest(key: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    return f"did you mean `{near[0]}`?" if near else f"known are {', '.join(names)}"
