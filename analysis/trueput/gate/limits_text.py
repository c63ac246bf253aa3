"""The limit of the policy in a conclusion, where without it the sentence would belie its figures.

`Goodput did not fall, 0.99x (0.97 to 1.01)` needs none. Where a fall is shown and only a limit
says that it does not count, the sentence names the limit.
"""

from __future__ import annotations

from trueput.gate.evidence import Evidence
from trueput.gate.policy import Policy
from trueput.gate.policy.metrics import METRICS
from trueput.gate.policy.settings import floor_text
from trueput.gate.rule_api import bounds_text
from trueput.gate.statistics import Effect, Scale


def did_not(
    label: str, verb: str, evidence: Evidence, metric: str, effect: Effect, *, margin: bool = False
) -> str:
    """Return `LABEL did not VERB`, with the limit where it decided, and the figures.

    `verb` is rise or fall; with `margin` the policy's margin was the limit, else `min_effect`.
    """
    by = by_more(verb, evidence, metric, effect, margin=margin)
    return f"{label} did not {verb}{by}{':' if by else ','} {bounds_text(effect)}"


def by_more(
    verb: str, evidence: Evidence, metric: str, effect: Effect, *, margin: bool = False
) -> str:
    """Return ` by more than LIMIT`; empty where the figures say it by themselves.

    They do where no move that way is shown at all and the usual limit rules it out.
    """
    usual = Policy.margin if margin else Policy.min_effect
    plain = (
        effect.low <= effect.none and effect.did_not_rise(usual)
        if verb == "rise"
        else effect.high >= effect.none and effect.did_not_fall(usual)
    )
    return "" if plain else f" by more than {limit_text(evidence, metric, effect, margin=margin)}"


def against(evidence: Evidence, metric: str, effect: Effect, *, margin: bool = False) -> str:
    """Return ` (limit: LIMIT)` for a figure that is open; empty where the limit is the usual."""
    told = limit_text(evidence, metric, effect, margin=margin)
    return f" (limit: {told})" if told.startswith("the policy") else ""


def limit_text(evidence: Evidence, metric: str, effect: Effect, *, margin: bool = False) -> str:
    """Return the limit in force: a share or points, or the metric's absolute floor."""
    policy = evidence.policy
    name, own = policy.own(metric, effect)
    if margin:
        usual, limit, in_force = Policy.margin, policy.margin, policy.slack(metric, effect)
    else:
        limit = policy.min_effect if own.min_effect is None else own.min_effect
        usual, in_force = Policy.min_effect, policy.least(metric, effect)
    if in_force > limit:
        floor = _points(name, own.floor) if effect.scale is Scale.POINTS else None
        return f"the policy's floor of {floor or floor_text(name, own.floor)}"
    shown = _points(name, limit) if effect.scale is Scale.POINTS else f"{100 * limit:g} %"
    return shown if limit == usual else f"the policy's {shown}"


def _points(metric: str, value: float) -> str:
    """Return a difference in points; of a figure that is no share, in its own unit."""
    share = METRICS[metric] in {"ratio", "score"}
    return f"{100 * value:g} points" if share else floor_text(metric, value)
