"""What a policy sets otherwise than the defaults, of all that decides a verdict.

A threshold, a floor or a demoted rule can silence a regression. Every output names them, so that a
pass under such a policy does not read as a pass under the usual one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trueput.gate.policy.metrics import METRICS
from trueput.gate.policy.model import (
    BLOCKING,
    INCONCLUSIVE,
    INFORMING,
    NOT_COMPARABLE,
    Note,
    Policy,
)
from trueput.units import ns_text


class Ranked(Protocol):
    """A rule as far as its severity goes."""

    @property
    def name(self) -> str:
        """The rule's name, as [rules] has it."""

    @property
    def severity(self) -> str:
        """Its default severity."""

    @property
    def escalates(self) -> bool:
        """True where the rule, informing by default, blocks in some cases."""


@dataclass(frozen=True)
class Setting:
    """One key that a policy sets otherwise: as a reader writes it, its value, and the default."""

    key: str
    value: str
    default: str

    def text(self) -> str:
        """Return the setting with its default."""
        return f"{self.key} = {self.value} (default {self.default})"


def differing(policy: Policy, rules: Sequence[Ranked]) -> tuple[Setting, ...]:
    """Return the settings that differ from the defaults; overrides are not among them."""
    usual = Policy()
    pairs = [
        ("min_effect", policy.min_effect, usual.min_effect),
        ("margin", policy.margin, usual.margin),
        ("floor_log_sd", policy.noise.floor_log_sd, usual.noise.floor_log_sd),
        ("run_log_sd", policy.noise.run_log_sd, usual.noise.run_log_sd),
        ("repeats", policy.repeats, usual.repeats),
        *(
            (f"[exit] {name}", policy.exit_code(name), usual.exit_code(name))
            for name in (INCONCLUSIVE, NOT_COMPARABLE)
        ),
    ]
    found = [Setting(key, f"{value:g}", f"{own:g}") for key, value, own in pairs if value != own]
    if policy.slo.measured_from != usual.slo.measured_from:
        found.append(Setting("[slo] from", policy.slo.measured_from, usual.slo.measured_from))
    if not policy.slo.undefined_passes:
        found.append(Setting("[slo] undefined", "fail", "pass"))
    for metric, own in policy.metrics.items():
        place = f"[metrics.{metric}]"
        if own.min_effect is not None and own.min_effect != usual.min_effect:
            found.append(
                Setting(f"{place} min_effect", f"{own.min_effect:g}", f"{usual.min_effect:g}")
            )
        if own.floor:
            found.append(Setting(f"{place} floor", floor_text(metric, own.floor), "0"))
    for name, aspects in (("must_match", policy.must_match), ("under_test", policy.under_test)):
        found += [Setting(f"[{name}] {aspect}", "true", "none") for aspect in sorted(aspects)]
    for rule in rules:
        severity = policy.rules.get(rule.name, rule.severity)
        if severity != rule.severity:
            found.append(Setting(f"[rules] {rule.name}", severity, rule.severity))
        elif rule.escalates and rule.name in policy.rules:
            default = f"{rule.severity}, in some cases {BLOCKING}"
            found.append(Setting(f"[rules] {rule.name}", severity, default))
    return tuple(found)


def demoted(policy: Policy, rules: Sequence[Ranked]) -> tuple[str, ...]:
    """Return the rules that would block, always or in some cases, and by the policy only inform."""
    return tuple(
        rule.name
        for rule in rules
        if policy.rules.get(rule.name) == INFORMING
        and (rule.severity == BLOCKING or rule.escalates)
    )


def setting_notes(settings: Sequence[Setting]) -> tuple[Note, ...]:
    """Return one notice that names the settings; none without any."""
    if not settings:
        return ()
    told = "; ".join(setting.text() for setting in settings)
    return (Note("notice", f"the policy judges otherwise than by default: {told}"),)


def floor_text(metric: str, floor: float) -> str:
    """Return an absolute floor with the unit of its metric."""
    unit = METRICS[metric]
    if unit == "ns":
        return ns_text(round(floor))
    return f"{floor:g}" if unit in {"ratio", "score"} else f"{floor:g} {unit}"
