"""GPU activity rose on a shared rung and goodput did not: the headline."""

from __future__ import annotations

from collections.abc import Sequence

from trueput.gate.evidence import GOODPUT, Evidence
from trueput.gate.figures import RunFigures, number, text, whole
from trueput.gate.limits_text import against, by_more, did_not
from trueput.gate.rule_api import BLOCKING, Finding, Outcome, Rule, bounds_text, finding
from trueput.gate.rungs import MOST_SHORT, Rung
from trueput.gate.samples import idle_room_ns, unwatched_ns
from trueput.gate.settling import goodput_missing, most, settled_by, settling_text
from trueput.gate.statistics import Effect

_SCOPE = (
    "It compares each rung with itself, as a rate over each run's own window; "
    "rungs that were not recorded are not covered."
)


def check(rule: Rule, evidence: Evidence) -> Sequence[Finding]:
    """Return one finding for each rung of GPU activity."""
    if not evidence.rungs:
        return [
            finding(
                rule, Outcome.NOT_APPLICABLE, "gpu_activity", "", None, basis="unknown",
                conclusion="No GPU activity was recorded on either side.",
                scope="This comparison says nothing about GPU activity.",
            )
        ]  # fmt: skip
    found: list[Finding] = []
    for rung in evidence.rungs:
        told = any(f.outcome is Outcome.FLAGGED for f in found)
        found.append(_judge(rule, evidence, rung, told))
    return found


def _judge(rule: Rule, evidence: Evidence, rung: Rung, told: bool) -> Finding:
    goodput, effect = evidence.goodput, rung.effect
    good_least, good_margin = evidence.limits(GOODPUT, goodput)
    least, margin = evidence.limits(rung.metric, effect)
    settle: int | None = None
    if rung.zero_everywhere:
        outcome, text = Outcome.NOT_APPLICABLE, f"{_name(rung)} reads 0 in every run."
    elif goodput is None:
        outcome, text = Outcome.INCONCLUSIVE, goodput_missing(evidence)
    elif goodput.rose(good_least):
        outcome = Outcome.PASS
        text = f"Goodput rose, {bounds_text(goodput)}; {rung.label} {_moved(effect)}."
    elif effect is None:
        outcome = Outcome.INCONCLUSIVE
        text = f"{_name(rung)} cannot be compared: {rung.missing}."
    elif rung.rose(least) and goodput.did_not_rise(good_margin):
        outcome, text = Outcome.FLAGGED, _headline(evidence, rung, effect, goodput, told)
    elif effect.did_not_rise(margin):
        outcome = Outcome.PASS
        text = f"{did_not(_name(rung), 'rise', evidence, rung.metric, effect, margin=True)}."
    else:
        outcome = Outcome.INCONCLUSIVE
        settle = _settle(evidence, rung, effect, goodput)
        text = (
            f"{_name(rung)} {bounds_text(effect)} and goodput {bounds_text(goodput)} "
            f"do not settle it{_limits(evidence, rung, effect, goodput)}; {settling_text(settle)}."
        )
    found = finding(
        rule, outcome, rung.metric, rung.unit, effect,
        basis=rung.basis, conclusion=text, scope=_SCOPE,
    )  # fmt: skip
    return settled_by(found, settle)


def _name(rung: Rung) -> str:
    return rung.label[:1].upper() + rung.label[1:]


def _moved(effect: Effect | None) -> str:
    return "is not comparable" if effect is None else bounds_text(effect)


def _headline(evidence: Evidence, rung: Rung, effect: Effect, goodput: Effect, told: bool) -> str:
    """The whole story for the first rung that rose, one clause for the others (`told`)."""
    by = by_more("rise", evidence, GOODPUT, goodput, margin=True)
    rise = f"{_name(rung)} rose, {bounds_text(effect)}, and goodput did not{by}, "
    rise += bounds_text(goodput)
    if told:
        return f"{rise}{_recomputed(evidence, rung)}."
    shown = {r.label: r.rose(evidence.limits(r.metric, r.effect)[0]) for r in evidence.rungs}
    rose = [label for label, risen in shown.items() if risen]
    rest = [label for label, risen in shown.items() if not risen]
    others = f"; not shown to rise: {', '.join(rest)}" if rest else ""
    return (
        f"{rise} (rose: {', '.join(rose)}{others}){_recomputed(evidence, rung)}"
        f"{_where_it_went(evidence)}."
    )


def _limits(evidence: Evidence, rung: Rung, effect: Effect, goodput: Effect) -> str:
    """Name the policy's limits of an open finding; empty where they are the usual ones."""
    own = against(evidence, rung.metric, effect)
    return own or against(evidence, GOODPUT, goodput, margin=True)


def _settle(evidence: Evidence, rung: Rung, effect: Effect, goodput: Effect) -> int | None:
    """Estimate the runs that settle whichever of the two figures is open."""
    needed = []
    least, margin = evidence.limits(rung.metric, effect)
    _, good_margin = evidence.limits(GOODPUT, goodput)
    grew = effect.estimate > effect.none + margin
    if not rung.rose(least):
        needed.append(effect.repeats_to_settle(effect.none + (least if grew else margin)))
    if not goodput.did_not_rise(good_margin) and grew:
        needed.append(goodput.repeats_to_settle(goodput.none + good_margin))
    return most(needed)


def _recomputed(evidence: Evidence, rung: Rung) -> str:
    """Say how much of the growth in scheduled tokens was computed again; empty for other rungs."""
    if rung.metric != "scheduled_tokens":
        return ""
    sides = [
        [(number(run.recompute, "scheduled_tokens"), number(run.recompute, "recomputed_tokens"))
         for run in side]
        for side in (evidence.baseline, evidence.candidate)
    ]  # fmt: skip
    if any(value is None for side in sides for pair in side for value in pair):
        return ""
    means = [
        [sum(pair[part] or 0.0 for pair in side) / len(side) for part in (0, 1)] for side in sides
    ]
    grown, again = means[1][0] - means[0][0], means[1][1] - means[0][1]
    if grown <= 0:
        return ""
    return (
        f"; recompute is {max(0.0, again) / grown:.0%} of the increase of {grown:,.0f} tokens a run"
    )


_KEPT = ("prefill", "decode")
_BROKEN = ("late", "failed", "aborted", "unfinished", "rejected")


def _where_it_went(evidence: Evidence) -> str:
    """Say which work took the change in device time, in points; empty without two ledgers."""
    before, after = _cells(evidence.baseline), _cells(evidence.candidate)
    if before is None or after is None:
        return ""
    parts = {"recompute": 0.0, "late or failed": 0.0, "good": 0.0, "other": 0.0}
    for work, outcome in {*before, *after}:
        if work == "idle":
            continue
        by = 100 * (after.get((work, outcome), 0.0) - before.get((work, outcome), 0.0))
        if work == "recompute":
            parts["recompute"] += by
        elif work in _KEPT and outcome in (*_BROKEN, "good"):
            parts["good" if outcome == "good" else "late or failed"] += by
        else:
            parts["other"] += by
    return (
        f"; of device time in the window, in points: recompute {parts['recompute']:+.1f}, "
        f"prefill and decode for late or failed requests {parts['late or failed']:+.1f}, "
        f"for good ones {parts['good']:+.1f}, all other work {parts['other']:+.1f}"
    )


def _hides_work(run: RunFigures) -> bool:
    """Tell whether more than a hundredth of a run's device time may be idle or work."""
    idle = [row for row in run.gpu_ledger if text(row, "work") == "idle"]
    if not idle:
        return False
    span = (whole(idle[0], "window_ns") or run.window_ns or 0) * (whole(idle[0], "devices") or 1)
    if unwatched_ns(run) > MOST_SHORT * span:
        return True
    if not any(text(row, "basis") == "bounded" for row in idle):
        return False
    room = idle_room_ns(run)
    return room is None or room > MOST_SHORT * span


def _cells(runs: Sequence[RunFigures]) -> dict[tuple[str, str], float] | None:
    """Return each cell's mean share of device time in the window; ``None`` if a run has none.

    Nor is one of a run whose profile hid or lost more than a few operations: its gaps are no work.
    """
    total: dict[tuple[str, str], float] = {}
    for run in runs:
        if not run.gpu_ledger or _hides_work(run):
            return None
        for row in run.gpu_ledger:
            span, devices = whole(row, "window_ns") or run.window_ns, whole(row, "devices") or 1
            time = number(row, "time_ns")
            cell = (text(row, "work") or "unattributed", text(row, "outcome") or "unknown")
            if time is not None and span:
                total[cell] = total.get(cell, 0.0) + time / (span * devices) / len(runs)
    return total


RULE = Rule(
    name="activity-without-goodput",
    severity=BLOCKING,
    order=10,
    summary="GPU activity rose on a shared rung and goodput did not",
    check=check,
)
