"""A quality score that was given for the runs fell: what was saved, the answers paid for."""

from __future__ import annotations

from collections.abc import Sequence

from trueput.gate.evidence import Evidence
from trueput.gate.figures import RunFigures
from trueput.gate.limits_text import did_not
from trueput.gate.rule_api import BLOCKING, Finding, Outcome, Rule, bounds_text, finding
from trueput.gate.settling import settled_by, settling_text
from trueput.gate.statistics import Effect, Sample

_SCOPE = (
    "Scores are taken as given in run.toml, higher being better; they hold for that evaluation "
    "only."
)


def check(rule: Rule, evidence: Evidence) -> Sequence[Finding]:
    """Return one finding for each quality score that any run gives."""
    runs = (*evidence.baseline, *evidence.candidate)
    names = sorted({name for run in runs for name in run.quality})
    if not names:
        text = "No quality score was given on either side."
        return [
            finding(
                rule, Outcome.NOT_APPLICABLE, "quality", "", None, basis="unknown",
                conclusion=text, scope="This comparison says nothing about quality.",
            )
        ]  # fmt: skip
    return [_judge(rule, evidence, name) for name in names]


def _judge(rule: Rule, evidence: Evidence, name: str) -> Finding:
    metric = f"quality.{name}"
    effect = _effect(evidence, name)
    least, _ = evidence.limits("quality", effect)
    settle: int | None = None
    if effect is None:
        outcome, text = Outcome.INCONCLUSIVE, _why_not(evidence, name)
    elif effect.fell(least):
        outcome, text = Outcome.FLAGGED, f"Quality score {name} fell, {bounds_text(effect)}."
    elif effect.did_not_fall(least):
        outcome = Outcome.PASS
        text = f"{did_not(f'Quality score {name}', 'fall', evidence, 'quality', effect)}."
    else:
        outcome = Outcome.INCONCLUSIVE
        settle = effect.repeats_to_settle(effect.none - least)
        text = (
            f"Quality score {name} {bounds_text(effect)} does not settle it; "
            f"{settling_text(settle)}."
        )
    found = finding(
        rule, outcome, metric, "", effect,
        basis="reported" if effect else "unknown", conclusion=text, scope=_SCOPE,
    )  # fmt: skip
    return settled_by(found, settle)


def _effect(evidence: Evidence, name: str) -> Effect | None:
    """Compare by ratio; shares with a zero by points; ``None`` where neither can be formed."""

    def read(run: RunFigures) -> Sample | None:
        return Sample.exact(run.quality[name]) if name in run.quality else None

    effect = evidence.ratio(read)
    if effect is not None:
        return effect
    scores = _scores(evidence, name)
    shares = all(score is not None and 0 <= score <= 1 for score in scores)
    return evidence.share(read) if shares else None


def _scores(evidence: Evidence, name: str) -> list[float | None]:
    return [run.quality.get(name) for run in (*evidence.baseline, *evidence.candidate)]


def _why_not(evidence: Evidence, name: str) -> str:
    runs = (*evidence.baseline, *evidence.candidate)
    lacking = sorted(run.run_id for run in runs if name not in run.quality)
    if lacking:
        return f"Quality score {name} is not given for every run (missing: {', '.join(lacking)})."
    return f"Quality score {name} is 0 or less in a run, and no share: it has no ratio."


RULE = Rule(
    name="quality-drop",
    severity=BLOCKING,
    order=40,
    summary="a quality score given in run.toml fell",
    check=check,
)
