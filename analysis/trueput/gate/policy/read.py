"""From a TOML file to a policy; any unknown or misused key is an error that names the nearest."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from pathlib import Path

from trueput.errors import UsageError
from trueput.gate.policy.keys import names, tables
from trueput.gate.policy.metrics import METRICS
from trueput.gate.policy.model import (
    BLOCKING,
    INCONCLUSIVE,
    INFORMING,
    NOT_COMPARABLE,
    VERSION,
    Limits,
    Override,
    Policy,
)
from trueput.gate.policy.objective import known, objective
from trueput.gate.statistics import Noise
from trueput.slo import parse_span

_NUMBERS = ("min_effect", "margin", "floor_log_sd", "run_log_sd")
_MOST_REPEATS = 1000
_MOST_EXIT = 99


def load_policy(path: Path, rules: Iterable[str] | None = None) -> Policy:
    """Read a policy file; ``rules`` are the names of the rules that exist."""
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}: the policy cannot be read ({type(error).__name__})",
            hint="give the path of a TOML file; its keys stand in docs/reference/policy.md",
        ) from error
    return parse_policy(source, where=str(path), rules=rules)


def parse_policy(source: str, where: str = "policy", rules: Iterable[str] | None = None) -> Policy:
    """Return the policy that a TOML text describes; any unknown or misused key is an error."""
    try:
        document = tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"{where}: not TOML: {error}", hint="its keys stand in docs/reference/policy.md"
        ) from error
    known(document, (*names(""), *tables()), where)
    if document.get("version", VERSION) != VERSION:
        raise UsageError(
            f"{where}: version {document['version']!r} is not known, expected {VERSION}",
            hint=f"write `version = {VERSION}`, or update trueput",
        )
    numbers = {key: _number(document[key], key, where) for key in _NUMBERS if key in document}
    slo = _table(document, "slo", where)
    default = Noise()
    exits = _table(document, "exit", where)
    known(exits, names("exit"), f"{where}: [exit]")
    policy = Policy(
        slo=objective(slo, where),
        min_effect=numbers.get("min_effect", Policy.min_effect),
        margin=numbers.get("margin", Policy.margin),
        noise=Noise(
            numbers.get("floor_log_sd", default.floor_log_sd),
            numbers.get("run_log_sd", default.run_log_sd),
        ),
        repeats=_whole(document.get("repeats", Policy.repeats), "repeats", 1, _MOST_REPEATS, where),
        exits={
            key: _whole(exits[key], f"[exit] {key}", 0, _MOST_EXIT, where)
            for key in (INCONCLUSIVE, NOT_COMPARABLE)
            if key in exits
        },
        metrics=_metrics(_table(document, "metrics", where), where),
        overrides=_overrides(document.get("overrides", []), rules, where),
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


def _number(value: object, key: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise UsageError(
            f"{where}: {key} = {value!r}, expected a number from 0 up to, not including, 1",
            hint=f"{key} = 0.05 means 5 %",
        )
    return float(value)


def _whole(value: object, key: str, least: int, most: int, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UsageError(
            f"{where}: {key} = {value!r}, expected a whole number from {least} to {most}",
            hint=f"write {key.split()[-1]} = 3",
        )
    return value


def _metrics(table: Mapping[str, object], where: str) -> dict[str, Limits]:
    """Return each metric's own limits; floors of spans are text with a unit."""
    known(table, METRICS, f"{where}: [metrics]")
    found = {}
    for metric, limits in table.items():
        place = f"{where}: [metrics.{metric}]"
        if not isinstance(limits, dict):
            raise UsageError(
                f"{where}: metrics.{metric} = {limits!r}, expected a table",
                hint=f"write [metrics.{metric}] and below it min_effect = 0.03",
            )
        known(limits, names("metrics.METRIC"), place)
        effect = limits.get("min_effect")
        found[metric] = Limits(
            None if effect is None else _number(effect, "min_effect", place),
            _floor(limits.get("floor", 0), metric, place),
        )
    return found


def _floor(value: object, metric: str, where: str) -> float:
    unit = METRICS[metric]
    if unit == "ns":
        if value == 0 or isinstance(value, str):
            return float(parse_span(value, where) if isinstance(value, str) else 0)
        raise UsageError(
            f"{where}: floor = {value!r}, expected text with a unit", hint='write floor = "20ms"'
        )
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not 0 <= value < (1 if unit == "ratio" else 1e18)
    ):
        expected = "a share from 0 to 1" if unit == "ratio" else f"a number in {unit}, 0 or more"
        raise UsageError(f"{where}: floor = {value!r}, expected {expected}", "floor = 0.1")
    return float(value)


def _overrides(listed: object, rules: Iterable[str] | None, where: str) -> tuple[Override, ...]:
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise UsageError(f"{where}: overrides is no list of tables", hint="write [[overrides]]")
    found: list[Override] = []
    for number, table in enumerate(listed, 1):
        place = f"{where}: [[overrides]] number {number}"
        known(table, names("overrides"), place)
        override = _override(table, rules, place)
        if any((o.kind, o.name) == (override.kind, override.name) for o in found):
            raise UsageError(
                f"{place}: {override.kind} {override.name} is overridden twice",
                hint="keep the one that holds",
            )
        found.append(override)
    return tuple(found)


def _override(table: Mapping[str, object], rules: Iterable[str] | None, where: str) -> Override:
    kinds = {"rule": "severity", "aspect": "blocks"}
    given = [kind for kind in kinds if kind in table]
    if len(given) != 1:
        raise UsageError(
            f"{where}: expected either `rule` or `aspect`",
            hint='write rule = "goodput-drop" and severity = "informing"',
        )
    kind = given[0]
    wrong = kinds["aspect" if kind == "rule" else "rule"]
    needed = (kinds[kind], "owner", "reason", "expires")
    missing = [key for key in needed if key not in table]
    if missing or wrong in table:
        what = f"`{missing[0]}` is missing" if missing else f"`{wrong}` does not go with `{kind}`"
        raise UsageError(f"{where}: {what}", hint=f"an override by {kind} has {', '.join(needed)}")
    name, owner, reason = (_said(table, key, where) for key in (kind, "owner", "reason"))
    expires = table["expires"]
    if isinstance(expires, datetime) or not isinstance(expires, date):
        raise UsageError(
            f"{where}: expires = {expires!r}, expected a date", hint="write expires = 2027-01-31"
        )
    if kind == "rule":
        value = _severities({name: table["severity"]}, rules, where)[name]
    else:
        value = BLOCKING if _aspects({name: table["blocks"]}, "overrides", where) else INFORMING
    return Override(kind, name, value, owner, reason, expires)


def _said(table: Mapping[str, object], key: str, where: str) -> str:
    value = table[key]
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{where}: {key} = {value!r}, expected text", hint=f'write {key} = "..."')
    return value.strip()


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
        if key in ("config", "asked") and isinstance(value, dict):
            flat.update({f"{key}.{inner}": item for inner, item in value.items()})
        else:
            flat[key] = value
    settings = [key for key in flat if key.startswith("config.")]
    known(flat, (*ASPECTS, *settings), f"{where}: [{name}]")
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
    known(table, names, f"{where}: [rules]")
    for key, value in table.items():
        if value not in (BLOCKING, INFORMING):
            raise UsageError(
                f"{where}: [rules] {key} = {value!r}, expected blocking or informing",
                hint=f'write {key} = "{BLOCKING}"',
            )
    return {key: str(value) for key, value in table.items()}
