"""The gate's policy: a small TOML file, every key of which is used and every other is an error."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from trueput.errors import UsageError
from trueput.gate.statistics import Limits, Noise
from trueput.slo import KEYS, Slo, parse_slo

VERSION = 1
BLOCKING, INFORMING = "blocking", "informing"
_EXAMPLE = 'write limits as text: ttft = "500ms"'
_NUMBERS = ("min_effect", "margin", "floor_log_sd", "run_log_sd")
_KEYS = ("version", *_NUMBERS, "slo", "must_match", "under_test", "rules")
_SLO_CHOICES = {"from": ("sent", "scheduled"), "undefined": ("pass", "fail")}


@dataclass(frozen=True)
class Policy:
    """What the gate holds a candidate to; shares and log sds as plain numbers (0.05 is 5 %)."""

    slo: Slo = field(default_factory=Slo)
    min_effect: float = 0.05
    margin: float = 0.05
    noise: Noise = field(default_factory=Noise)
    must_match: frozenset[str] = frozenset()
    under_test: frozenset[str] = frozenset()
    rules: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Limits] = field(default_factory=dict)

    def limits(self, metric: str) -> Limits:
        """Return what counts for a metric: its own limits, else those of the whole policy."""
        return self.metrics.get(metric) or Limits(self.min_effect, self.margin)

    @property
    def slo_text(self) -> str | None:
        """The objective in the grammar of ``--slo``; ``None`` when the policy names none."""
        return self.slo.text() or None


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
        slo=_objective(slo, where),
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


def _objective(slo: Mapping[str, object], where: str) -> Slo:
    """Return the limits of [slo], with where they start and what an undefined metric does."""
    _known(slo, (*KEYS, *_SLO_CHOICES), f"{where}: [slo]")
    parts = []
    for key in KEYS:
        value = slo.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise UsageError(f"{where}: [slo] {key} = {value!r}, expected text", hint=_EXAMPLE)
        parts.append(f"{key}={value}")
    limits = parse_slo(",".join(parts), f"{where}: [slo]") if parts else Slo()
    return replace(
        limits,
        measured_from=_choice(slo, "from", where),
        undefined_passes=_choice(slo, "undefined", where) == "pass",
    )


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
