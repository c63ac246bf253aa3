"""sweep: many configurations against one baseline, and where each lies between busy and better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trueput.errors import UsageError
from trueput.gate.policy import Note, Policy, load_policy
from trueput.gate.policy.metrics import RUNGS
from trueput.gate.rule_api import Finding
from trueput.gate.verdict import CandidateResult, GateResult, Verdict
from trueput.gate.verdict import gate as judge
from trueput.ingest.folders import SWEPT
from trueput.verbs.base_side import base_side
from trueput.verbs.figures import figures
from trueput.verbs.gate import asked_text, put_aside, under_policy
from trueput.verbs.opening import Configuration, Reading, configuration

_ACTIVITY, _GOODPUT, _RECOMPUTED = "activity-without-goodput", "goodput-drop", "recompute-growth"
#: The quadrant that a sweep looks for, and the word where nothing is to be said of a row.
WORSE, UNSETTLED = "busier, not better", "no settled change"


@dataclass(frozen=True)
class Ratio:
    """Candidate / baseline with one-sided 95 % bounds; bounds None where points were compared."""

    value: float
    low: float | None
    high: float | None

    @property
    def change(self) -> float:
        """The relative change: 0.1 is 10 % more."""
        return self.value - 1


@dataclass(frozen=True)
class SweepRow:
    """One configuration: what changed against the baseline, and the gate's verdict on it.

    `quadrant` follows the estimates; what is shown beyond chance is the verdict's to say. Where
    both changes are within the policy's margin, or the gate passed what would be busier and not
    better, it is `no settled change`. None: one is unknown, or the sides are not comparable.
    """

    config: str
    runs: tuple[str, ...]
    verdict: str
    reason: str
    activity: Ratio | None
    goodput: Ratio | None
    recomputed_baseline: float | None
    recomputed: float | None
    quadrant: str | None


@dataclass(frozen=True)
class Sweep:
    """All configurations of a sweep; `rung` is what activity means in every row.

    `notes` say what the policy sets otherwise, and which configurations have no row.
    """

    baseline: str
    baseline_runs: tuple[str, ...]
    slo: str | None
    rung: str | None
    rows: tuple[SweepRow, ...]
    result: GateResult
    notes: tuple[Note, ...] = ()


def sweep(
    base: str,
    candidates: Sequence[str],
    policy: Path | None = None,
    reading: Reading | None = None,
    rung: str | None = None,
) -> Sweep:
    """Compare every configuration with the baseline.

    An argument is one configuration, as for `gate`; the output folder of `vllm bench sweep` stands
    for each combination in it, without the baseline's. `rung` says what activity means.
    """
    if not candidates:
        raise UsageError("no configuration given", "`trueput sweep BASE CONFIG...`")
    if rung is not None and rung not in RUNGS:
        raise UsageError(f"--rung: `{rung}` is no rung", f"choose one of {', '.join(RUNGS)}")
    held = load_policy(policy) if policy is not None else Policy()
    how = under_policy(reading or Reading(), held)
    how.objective()
    known = [side for argument in candidates for side in _configurations(argument, how)]
    base_of = base_side(base, known if base.startswith("@last") else [], how)
    sides = [side for side in known if set(side.runs).isdisjoint(base_of.runs)]
    if not sides:
        raise UsageError(f"`{base}` is the only configuration given", "name others beside it")
    rows = figures([run for side in (base_of, *sides) for run in side.runs], how)
    result = judge(
        [rows[run] for run in base_of.runs],
        [(side.name, [rows[run] for run in side.runs]) for side in sides],
        held,
        asked_text(reading or Reading()),
        baseline_config=base_of.name,
        window_rule=how.window,
    )
    rung = rung or _rung(result)
    return Sweep(
        base_of.name,
        result.baseline_runs,
        result.slo,
        rung,
        tuple(_row(candidate, rung, held.margin) for candidate in result.candidates),
        result,
        (
            *put_aside(reading or Reading(), held),
            *(_left_out(side) for side in known if side not in sides),
            *result.notes,
        ),
    )


def _left_out(side: Configuration) -> Note:
    return Note("notice", f"{side.name} has runs of the baseline, and no row", "runs")


def _configurations(argument: str, reading: Reading) -> list[Configuration]:
    """Return one configuration, or each combination below a folder of `vllm bench sweep`."""
    path = Path(argument)
    if not path.is_dir() or any(SWEPT.fullmatch(p.name) for p in path.iterdir()):
        return [_named(argument, reading)]
    inside = sorted({p.parent for p in path.rglob("run=*") if SWEPT.fullmatch(p.name)})
    return [_named(str(folder), reading) for folder in inside] or [_named(argument, reading)]


def _named(argument: str, reading: Reading) -> Configuration:
    """Return a configuration under the name of its folder also where it has a single repeat."""
    found = configuration(argument, reading)
    path = Path(argument)
    swept = path.is_dir() and any(SWEPT.fullmatch(p.name) for p in path.iterdir())
    return Configuration(path.resolve().name, found.runs) if swept else found


def _rung(result: GateResult) -> str | None:
    """Return the rung that most configurations can be compared on; of those the best one."""
    counts = dict.fromkeys(RUNGS, 0)
    for candidate in result.candidates:
        for finding in candidate.findings:
            if finding.rule == _ACTIVITY and _ratio(finding) and finding.metric in counts:
                counts[finding.metric] += 1
    most = max(counts.values())
    return next((rung for rung in RUNGS if counts[rung] == most), None) if most else None


def _row(candidate: CandidateResult, rung: str | None, margin: float) -> SweepRow:
    activity = goodput = None
    before = after = None
    for finding in candidate.findings:
        if finding.rule == _ACTIVITY and finding.metric == rung:
            activity = _ratio(finding)
        elif finding.rule == _GOODPUT and goodput is None:
            goodput = _ratio(finding)
        elif finding.rule == _RECOMPUTED:
            before, after = finding.baseline, finding.candidate
    return SweepRow(
        candidate.config, candidate.runs, candidate.verdict.value, candidate.reason, activity,
        goodput, before, after, _quadrant(candidate.verdict, activity, goodput, margin),
    )  # fmt: skip


def _ratio(finding: Finding) -> Ratio | None:
    value = finding.ratio
    if value is None or not math.isfinite(value):
        return None
    return Ratio(value, finding.ratio_low, finding.ratio_high)


def _quadrant(
    verdict: Verdict, activity: Ratio | None, goodput: Ratio | None, margin: float
) -> str | None:
    if activity is None or goodput is None or verdict is Verdict.NOT_COMPARABLE:
        return None
    if max(abs(activity.change), abs(goodput.change)) <= margin:
        return UNSETTLED
    busier, better = activity.value > 1, goodput.value > 1
    if busier and not better:
        return UNSETTLED if verdict is Verdict.PASS else WORSE
    return f"{'busier' if busier else 'not busier'}, {'better' if better else 'not better'}"
