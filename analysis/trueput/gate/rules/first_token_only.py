"""The first token came sooner, the whole answer did not.

Tokens that are held back are found here too: a latency for which the objective has no limit (the
time per token, the longest gap, the end-to-end time) got worse while goodput has nothing to say of
it. That blocks. A gap that grew while whole answers came sooner stands as a figure, and passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trueput.gate import samples
from trueput.gate.evidence import GOODPUT, Evidence
from trueput.gate.figures import RunFigures
from trueput.gate.limits_text import by_more, did_not
from trueput.gate.rule_api import (
    BLOCKING,
    INFORMING,
    Finding,
    Outcome,
    Rule,
    bounds_text,
    finding,
)
from trueput.gate.settling import most, settled_by, settling_text
from trueput.gate.statistics import ALPHA, Effect, Sample, adjusted
from trueput.gate.token_times import E2E, GAP, LABELS, TPOT, left_open, limit, objective
from trueput.units import ns_text

_METRIC = "ttft_ns_p50"
_E2E = "e2e_ns_p50"
_SCOPE = "It compares medians over the requests that ended as asked."
_OPEN_SCOPE = (
    "It compares means over the requests that ended as asked; what the objective limits is judged "
    "by goodput, not here."
)


def check(rule: Rule, evidence: Evidence) -> Sequence[Finding]:
    """Return one finding for TTFT against end-to-end, and one for each open latency that rose."""
    return [_first_token(rule, evidence), *_left_open(rule, evidence)]


def _first_token(rule: Rule, evidence: Evidence) -> Finding:
    ttft, e2e = evidence.ttft, evidence.e2e
    least, _ = evidence.limits(_METRIC, ttft)
    e2e_least, e2e_margin = evidence.limits(_E2E, e2e)
    settle: int | None = None
    if ttft is None or e2e is None:
        runs = (*evidence.baseline, *evidence.candidate)
        observed = any(len(run.sent_inside.known("ttft_ns")) for run in runs)
        outcome = Outcome.INCONCLUSIVE if observed else Outcome.NOT_APPLICABLE
        text = "Latencies of surviving requests are not known in every run."
    elif ttft.fell(least) and e2e.did_not_fall(e2e_margin):
        outcome = Outcome.FLAGGED
        by = by_more("fall", evidence, _E2E, e2e, margin=True)
        text = f"TTFT improved, {bounds_text(ttft)}, end-to-end did not{by}, {bounds_text(e2e)}."
    elif e2e.fell(e2e_least):
        outcome = Outcome.PASS
        text = f"TTFT {bounds_text(ttft)} does not stand alone: end-to-end {bounds_text(e2e)}."
    elif ttft.did_not_fall(least):
        outcome = Outcome.PASS
        text = f"{did_not('TTFT', 'fall', evidence, _METRIC, ttft)}; end-to-end {bounds_text(e2e)}."
    else:
        outcome = Outcome.INCONCLUSIVE
        settle = _settle(evidence, ttft, e2e)
        text = (
            f"TTFT {bounds_text(ttft)} and end-to-end {bounds_text(e2e)} do not settle it; "
            f"{settling_text(settle)}."
        )
    found = finding(
        rule, outcome, _METRIC, "ns", ttft,
        basis="measured" if ttft else "unknown", conclusion=text, scope=_SCOPE,
    )  # fmt: skip
    return settled_by(found, settle)


def _settle(evidence: Evidence, ttft: Effect, e2e: Effect) -> int | None:
    """Estimate the runs that settle whichever of the two figures is open."""
    least, _ = evidence.limits(_METRIC, ttft)
    e2e_least, e2e_margin = evidence.limits(_E2E, e2e)
    if ttft.estimate >= ttft.none - least:
        return ttft.repeats_to_settle(ttft.none - least)
    if e2e.estimate < e2e.none - e2e_least:
        return e2e.repeats_to_settle(e2e.none - e2e_least)
    needed = []
    if not ttft.fell(least):
        needed.append(ttft.repeats_to_settle(ttft.none - least))
    if not e2e.did_not_fall(e2e_margin):
        needed.append(e2e.repeats_to_settle(e2e.none - e2e_margin))
    return most(needed)


def _left_open(rule: Rule, evidence: Evidence) -> list[Finding]:
    """Return a finding for each latency that the objective leaves open and that looks worse."""
    slo = objective(evidence)
    if slo is None:
        return []
    tpot = limit(slo, "tpot")
    # TTFT and TPOT say what E2E says, and do not mistake a longer answer for a slower one.
    told = [m for m in left_open(slo) if m != E2E or evidence.mean(TPOT) is None]
    rose = _rose(evidence, told)
    found = []
    for metric in told:
        if metric == GAP and tpot is not None:
            found.append(_beyond_tpot(rule, evidence, tpot))
        else:
            found.append(_open(rule, evidence, (metric, metric in rose), slo.text()))
    return [item for item in found if item is not None]


def _rose(evidence: Evidence, metrics: Sequence[str]) -> set[str]:
    """Return the latencies that are shown to have risen, the tests adjusted together."""
    known = {metric: effect for metric in metrics if (effect := evidence.mean(metric)) is not None}
    chances = adjusted(
        [effect.p_rose(evidence.limits(metric, effect)[0]) for metric, effect in known.items()]
    )
    return {metric for metric, chance in zip(known, chances, strict=True) if chance < ALPHA}


def _open(rule: Rule, evidence: Evidence, judged: tuple[str, bool], limits: str) -> Finding | None:
    """Judge a latency without any limit, and whether it rose; ``None`` where it looks no worse."""
    metric, rose = judged
    effect = evidence.mean(metric)
    least, _ = evidence.limits(metric, effect)
    severity, settle = BLOCKING, None
    label = LABELS[metric]
    if effect is None:
        if not evidence.one_sided(lambda run: _known(run, metric)):
            return None
        outcome = Outcome.INCONCLUSIVE
        text = f"{label} is not known in every run, and the objective ({limits}) has no limit on it"
    elif rose:
        outcome = Outcome.FLAGGED
        text = f"{label} rose, {bounds_text(effect)}, where the objective ({limits}) has no limit"
        if metric == GAP and _faster(evidence):
            outcome, severity = Outcome.PASS, INFORMING
            text += "; TPOT and end-to-end fell: tokens come in larger chunks, and sooner"
    elif effect.estimate > effect.none + least and not (metric == GAP and _faster(evidence)):
        outcome = Outcome.INCONCLUSIVE
        settle = effect.repeats_to_settle(effect.none + least)
        text = f"{label} may have risen, {bounds_text(effect)}, where the objective ({limits}) has "
        text += f"no limit; {settling_text(settle)}"
    else:
        return None
    return _found(rule, evidence, metric, effect, (outcome, severity, text, settle))


def _beyond_tpot(rule: Rule, evidence: Evidence, tpot: int) -> Finding | None:
    """Judge gaps under a limit on TPOT: a mean hides stalls, so gaps beyond the limit count.

    They do where goodput does not tell: a rise under such an objective is a trade it allows, and a
    fall is what goodput-drop blocks.
    """
    effect, goodput = evidence.mean(GAP), evidence.goodput
    least, _ = evidence.limits(GAP, effect)
    good_least, good_margin = evidence.limits(GOODPUT, goodput)
    if effect is None and evidence.one_sided(lambda run: _known(run, GAP)):
        text = (
            f"{LABELS[GAP]} is not known in every run, and the limit on TPOT ({ns_text(tpot)}) "
            "does not hold it"
        )
        return _found(rule, evidence, GAP, None, (Outcome.INCONCLUSIVE, BLOCKING, text, None))
    if effect is None or not effect.rose(least) or effect.candidate <= tpot:
        return None
    text = (
        f"The longest gap between chunks rose, {bounds_text(effect)}, to "
        f"{ns_text(round(effect.candidate))} on the mean, above the limit on TPOT ({ns_text(tpot)})"
    )
    outcome, severity, settle = Outcome.FLAGGED, BLOCKING, None
    if goodput is None:
        outcome = Outcome.INCONCLUSIVE
    elif goodput.rose(good_least) or goodput.fell(good_least) or _faster(evidence):
        severity = INFORMING
        text += f"; goodput {bounds_text(goodput)}"
        if not goodput.fell(good_least) and (e2e := _shown_to_fall(evidence, E2E)) is not None:
            outcome = Outcome.PASS
            text += f", and it does not stand alone: end-to-end {bounds_text(e2e)}"
    elif goodput.did_not_rise(good_margin):
        text += f", and goodput did not tell, {bounds_text(goodput)}"
    else:
        outcome = Outcome.INCONCLUSIVE
        settle = goodput.repeats_to_settle(goodput.none + good_margin)
        text += f"; goodput {bounds_text(goodput)} does not settle it; {settling_text(settle)}"
    return _found(rule, evidence, GAP, effect, (outcome, severity, text, settle))


def _found(
    rule: Rule,
    evidence: Evidence,
    metric: str,
    effect: Effect | None,
    judged: tuple[Outcome, str, str, int | None],
) -> Finding:
    outcome, severity, text, settle = judged
    if rule.name not in evidence.policy.rules:
        rule = replace(rule, severity=severity)
    found = finding(
        rule, outcome, metric, "ns", effect,
        basis="measured" if effect else "unknown", conclusion=f"{text}.", scope=_OPEN_SCOPE,
    )  # fmt: skip
    return settled_by(found, settle)


def _faster(evidence: Evidence) -> bool:
    """Tell whether tokens and answers are shown to come sooner: what no holding back can do."""
    return all(_shown_to_fall(evidence, metric) is not None for metric in (TPOT, E2E))


def _shown_to_fall(evidence: Evidence, metric: str) -> Effect | None:
    """Return a latency that is shown to be shorter on the mean; ``None`` where it is not."""
    effect = evidence.mean(metric)
    if effect is None or not effect.fell(evidence.limits(metric, effect)[0]):
        return None
    return effect


def _known(run: RunFigures, metric: str) -> Sample | None:
    """Return the mean of a latency over the requests that ended as asked; ``None`` if unknown."""
    return samples.mean(run, metric.removesuffix("_mean"), single=False)


RULE = Rule(
    name="first-token-only",
    severity=INFORMING,
    order=60,
    summary="TTFT improved, end-to-end did not; blocks where a latency without a limit got worse",
    check=check,
    escalates=True,
)
