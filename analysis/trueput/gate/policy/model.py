"""What a policy means: limits, severities, exit codes, and overrides that expire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from trueput.gate.statistics import Effect, Noise, Scale
from trueput.slo import Slo

VERSION = 1
BLOCKING, INFORMING = "blocking", "informing"
INCONCLUSIVE, NOT_COMPARABLE = "inconclusive", "not_comparable"
_EXIT = 3


@dataclass(frozen=True)
class Limits:
    """A metric's own limits: least relative change, least absolute change in the metric's unit."""

    min_effect: float | None = None
    floor: float = 0.0


@dataclass(frozen=True)
class Override:
    """An exception that someone answers for: of a rule's severity, or of whether an aspect blocks.

    It holds through the day `expires` (UTC).
    """

    kind: str
    name: str
    value: str
    owner: str
    reason: str
    expires: date

    def text(self) -> str:
        """Return what it changes and who answers for it."""
        return f"{self.kind} {self.name} is {self.value} ({self.owner}: {self.reason})"


@dataclass(frozen=True)
class Note:
    """Something that a reader of the verdict must know: of the policy, or of the runs.

    `level` is notice or warning.
    """

    level: str
    text: str
    about: str = "policy"


@dataclass(frozen=True)
class Policy:
    """What the gate holds a candidate to; shares and log sds as plain numbers (0.05 is 5 %)."""

    slo: Slo = field(default_factory=Slo)
    min_effect: float = 0.05
    margin: float = 0.05
    noise: Noise = field(default_factory=Noise)
    repeats: int = 1
    must_match: frozenset[str] = frozenset()
    under_test: frozenset[str] = frozenset()
    rules: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Limits] = field(default_factory=dict)
    exits: Mapping[str, int] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()

    @property
    def slo_text(self) -> str | None:
        """The objective in the grammar of ``--slo``; ``None`` when the policy names none."""
        return self.slo.text() or None

    def least(self, metric: str, effect: Effect) -> float:
        """Return the least change of a metric that counts, on the scale of its effect.

        It is the metric's ``min_effect`` (else the policy's), and never less than its absolute
        floor, taken relative to the baseline where the effect is a ratio.
        """
        own = self.own(metric, effect)[1]
        usual = self.min_effect if own.min_effect is None else own.min_effect
        return max(usual, _relative(own.floor, effect))

    def slack(self, metric: str, effect: Effect) -> float:
        """Return how far a metric may rise and still count as not risen: margin, or its floor."""
        return max(self.margin, _relative(self.own(metric, effect)[1].floor, effect))

    def own(self, metric: str, effect: Effect) -> tuple[str, Limits]:
        """Return the metric that was judged and its own limits.

        Goodput judged by attainment in points has attainment's.
        """
        if effect.scale is Scale.POINTS and metric == "goodput_rps":
            metric = "slo_attainment_ratio"
        return metric, self.metrics.get(metric, Limits())

    def exit_code(self, verdict: str) -> int:
        """Return what an inconclusive or a not comparable verdict exits with."""
        return self.exits.get(verdict, _EXIT)

    def on(self, today: date) -> tuple[Policy, tuple[Note, ...]]:
        """Return the policy with the overrides in force on a day, and a note on every override.

        One that has expired is not applied: the stricter verdict is back, and a warning says why.
        """
        rules, must, under = dict(self.rules), set(self.must_match), set(self.under_test)
        notes = []
        for override in self.overrides:
            if override.expires < today:
                text = (
                    f"override expired on {override.expires}, and is not applied: "
                    f"{override.text()}; renew it or remove it"
                )
                notes.append(Note("warning", text))
                continue
            notes.append(
                Note("notice", f"override in force until {override.expires}: {override.text()}")
            )
            if override.kind == "rule":
                rules[override.name] = override.value
            else:
                held, free = (must, under) if override.value == BLOCKING else (under, must)
                held.add(override.name)
                free.discard(override.name)
        applied = replace(
            self, rules=rules, must_match=frozenset(must), under_test=frozenset(under)
        )
        return applied, tuple(notes)


def _relative(floor: float, effect: Effect) -> float:
    if effect.scale is Scale.POINTS or not floor:
        return floor
    return floor / effect.baseline
