"""From runs to a verdict: comparability, evidence, rules, and one word per candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from enum import StrEnum

from trueput.errors import ExitCode, UsageError
from trueput.gate.classes import ASPECT as CLASSES
from trueput.gate.classes import ClassTally, tallies
from trueput.gate.comparability import MIXED, compare_sides
from trueput.gate.evidence import Evidence
from trueput.gate.figures import RunFigures, text
from trueput.gate.loads import Difference
from trueput.gate.measurements import distinct, reused, same_runs
from trueput.gate.outside_window import ASPECT as OUTSIDE_WINDOW
from trueput.gate.outside_window import beyond_notes, few_notes, outside_notes
from trueput.gate.policy import BLOCKING, Note, Policy
from trueput.gate.policy.settings import Setting, demoted, differing, setting_notes
from trueput.gate.rule_api import Finding, Outcome, Rule
from trueput.gate.rules import discover
from trueput.gate.rungs import Rung, rungs
from trueput.gate.settling import most
from trueput.gate.statistics import adjusted


class Verdict(StrEnum):
    """What the gate says; over several candidates the first in this order holds."""

    FLAGGED = "flagged"
    UNUSABLE = "unusable"
    NOT_COMPARABLE = "not_comparable"
    INCONCLUSIVE = "inconclusive"
    PASS = "pass"


_FIXED_EXITS = {
    Verdict.PASS: ExitCode.PASS,
    Verdict.FLAGGED: ExitCode.FLAGGED,
    Verdict.UNUSABLE: ExitCode.UNUSABLE,
}


@dataclass(frozen=True)
class CandidateResult:
    """One candidate's verdict with all that it rests on.

    ``settle_runs`` estimates the runs on each side that would settle an inconclusive verdict.
    ``slo`` is the objective of its own runs; several of them are joined by ``; or``. ``classes``
    counts the requests of each class of the objective on both sides.
    """

    config: str
    runs: tuple[str, ...]
    verdict: Verdict
    reason: str
    findings: tuple[Finding, ...] = ()
    comparability: tuple[Difference, ...] = ()
    settle_runs: int | None = None
    slo: str | None = None
    classes: tuple[ClassTally, ...] = ()


@dataclass(frozen=True)
class GateResult:
    """The verdict over all candidates; ``exit_code`` is the process's.

    ``policy`` are its settings that differ from the defaults. ``notes`` name them, and say which
    exceptions of the policy were applied, which have expired, which runs are one measurement, and
    how many requests lie outside the window.
    """

    verdict: Verdict
    exit_code: int
    slo: str | None
    window_rule: str | None
    baseline_config: str
    baseline_runs: tuple[str, ...]
    candidates: tuple[CandidateResult, ...]
    notes: tuple[Note, ...] = ()
    policy: tuple[Setting, ...] = ()

    @property
    def several_slos(self) -> bool:
        """True where not all runs have one objective; each candidate then tells its own."""
        return self.slo is None and any(
            c.slo is not None or any(d.aspect == "slo" for d in c.comparability)
            for c in self.candidates
        )

    @property
    def objective(self) -> str:
        """The objective for a reader: `several` where the runs have more than one, or `none`."""
        return self.slo or ("several" if self.several_slos else "none")


@dataclass(frozen=True)
class _Case:
    """One candidate on its way to a verdict."""

    config: str
    runs: tuple[RunFigures, ...]
    unusable: str | None
    differences: tuple[Difference, ...] = ()
    rungs: tuple[Rung, ...] = ()

    @property
    def comparable(self) -> bool:
        return self.unusable is None and not any(item.blocks for item in self.differences)


def gate(
    baseline: Sequence[RunFigures],
    candidates: Sequence[tuple[str, Sequence[RunFigures]]],
    policy: Policy | None = None,
    slo_text: str | None = None,
    *,
    baseline_config: str = "baseline",
    window_rule: str | None = None,
    rules: Sequence[Rule] | None = None,
    today: date | None = None,
) -> GateResult:
    """Judge every candidate against the baseline.

    The rows are taken as computed under ``slo_text``, which is only reported here (default: what
    the rows say). Runs of one measurement on one side count once. ``today`` decides which overrides
    of the policy are in force (default: the day in UTC).
    """
    if not candidates:
        raise UsageError("no candidate to judge", hint="`trueput gate BASE CANDIDATE`")
    held = policy or Policy()
    applied = discover() if rules is None else rules
    settings = differing(held, applied)
    notes: tuple[Note, ...] = ()
    if held.overrides:
        held, notes = held.on(today or datetime.now(UTC).date())
    base, left_out = distinct(baseline)
    sides = [(config, *distinct(runs)) for config, runs in candidates]
    notes += tuple(dict.fromkeys([*left_out, *(note for side in sides for note in side[2])]))
    everyone = [*base, *(run for side in sides for run in side[1])]
    notes += tuple(dict.fromkeys(_uncovered(run) for run in everyone if run.uncovered is not None))
    notes += tuple(
        Note("notice", f"{config}: both sides are the same runs", "runs")
        for config, runs, _ in sides
        if same_runs(base, runs)
    )
    notes += outside_notes([(baseline_config, base), *((side[0], side[1]) for side in sides)])
    notes += tuple(dict.fromkeys((*few_notes(everyone), *beyond_notes(everyone))))
    cases = [_case(base, config, runs, held) for config, runs, _ in sides]
    judged = [
        replace(
            _judge(base, case, held, applied),
            slo=slo_text or held.slo_text or _own_slo(case.runs),
            classes=tallies(base, case.runs),
        )
        for case in _adjusted(cases, held)
    ]
    verdict = min((result.verdict for result in judged), key=list(Verdict).index)
    return GateResult(
        verdict=verdict,
        exit_code=_exit_code([result.verdict for result in judged], held),
        slo=slo_text or held.slo_text or _agreed(base, cases, "slo"),
        window_rule=window_rule or _agreed(base, cases, "window_rule"),
        baseline_config=baseline_config,
        baseline_runs=tuple(run.run_id for run in base),
        candidates=tuple(judged),
        notes=(*notes, *setting_notes(settings)),
        policy=settings,
    )


def _uncovered(run: RunFigures) -> Note:
    """Say that what is summed over a run's iterations is not known, and why."""
    text = (
        f"{run.run_id}: the engine's record does not cover its load: {run.uncovered}; its engine "
        "step time, scheduled tokens, recompute and preemptions are unknown"
    )
    return Note("warning", text, "runs")


def _exit_code(verdicts: Sequence[Verdict], policy: Policy) -> int:
    """Return the first code that is not 0, in the order of the verdicts."""
    for verdict in sorted(set(verdicts), key=list(Verdict).index):
        fixed = _FIXED_EXITS.get(verdict)
        code = policy.exit_code(verdict.value) if fixed is None else int(fixed)
        if code:
            return code
    return 0


def _case(
    base: tuple[RunFigures, ...], config: str, runs: tuple[RunFigures, ...], policy: Policy
) -> _Case:
    unusable = _unusable("baseline", base) or _unusable("candidate", runs)
    unusable = unusable or _answered_none(base) or reused(base, runs)
    if unusable is not None:
        return _Case(config, runs, unusable)
    differences = compare_sides(base, runs, policy.must_match, policy.under_test)
    return _Case(config, runs, None, differences, rungs(base, runs, policy.noise))


def _unusable(side: str, runs: Sequence[RunFigures]) -> str | None:
    if not runs:
        return f"the {side} has no run"
    broken = [f"{run.run_id} {why}" for run in runs if (why := run.why_unusable()) is not None]
    return f"{side}: {'; '.join(broken)}" if broken else None


def _answered_none(base: Sequence[RunFigures]) -> str | None:
    """Say which runs of the baseline answered nothing: no candidate could be worse than they."""
    silent = [
        f"none of the {run.count('planned')} requests of {run.run_id} "
        f"{'ended' if run.complete == 0 else 'is known to have ended'} as asked"
        for run in base
        if run.answered_none
    ]
    return f"baseline: {'; '.join(silent)}" if silent else None


def _adjusted(cases: Sequence[_Case], policy: Policy) -> list[_Case]:
    """Adjust the `rose` tests of all rungs of all comparable candidates together."""
    tests = [
        (index, place, rung.effect.p_rose(policy.least(rung.metric, rung.effect)))
        for index, case in enumerate(cases)
        if case.comparable
        for place, rung in enumerate(case.rungs)
        if rung.effect is not None
    ]
    corrected = adjusted([p for _, _, p in tests])
    found = {(index, place): p for (index, place, _), p in zip(tests, corrected, strict=True)}
    return [
        replace(
            case,
            rungs=tuple(
                replace(rung, p_adjusted=found.get((index, place)))
                for place, rung in enumerate(case.rungs)
            ),
        )
        for index, case in enumerate(cases)
    ]


def _judge(
    base: tuple[RunFigures, ...], case: _Case, policy: Policy, rules: Sequence[Rule]
) -> CandidateResult:
    names = tuple(run.run_id for run in case.runs)
    if case.unusable is not None:
        return CandidateResult(case.config, names, Verdict.UNUSABLE, case.unusable)
    evidence = Evidence(base, case.runs, policy, case.rungs)
    findings: list[Finding] = []
    for rule in rules:
        own = replace(rule, severity=policy.rules.get(rule.name, rule.severity))
        worst_first = sorted(
            own.check(own, evidence), key=lambda item: list(Outcome).index(item.outcome)
        )
        findings.extend(worst_first)
    lenient = demoted(policy, rules)
    verdict, reason = _verdict(case, findings, _too_few(base, case, policy), lenient)
    waiting = [item.settle_runs for item in _blocking(findings, Outcome.INCONCLUSIVE)]
    settle = most(waiting) if verdict is Verdict.INCONCLUSIVE else None
    return CandidateResult(
        case.config, names, verdict, reason, tuple(findings), case.differences, settle
    )


def _blocking(findings: Sequence[Finding], outcome: Outcome) -> list[Finding]:
    return [f for f in findings if f.severity == BLOCKING and f.outcome is outcome]


def _too_few(base: Sequence[RunFigures], case: _Case, policy: Policy) -> str | None:
    """Say which side has fewer runs than the policy asks for; ``None`` where none has."""
    counts = {"baseline": len(base), "candidate": len(case.runs)}
    short = [f"the {side} has {count}" for side, count in counts.items() if count < policy.repeats]
    if not short:
        return None
    return f"the policy asks for {policy.repeats} runs on each side, {' and '.join(short)}"


def _verdict(
    case: _Case, findings: Sequence[Finding], too_few: str | None, lenient: Sequence[str]
) -> tuple[Verdict, str]:
    if not case.comparable:
        return Verdict.NOT_COMPARABLE, _unlike(case.differences)
    if too_few is not None:
        return Verdict.INCONCLUSIVE, too_few
    if found := _blocking(findings, Outcome.FLAGGED):
        return Verdict.FLAGGED, _names(found)
    if silent := [run.run_id for run in case.runs if run.answered_none]:
        some = any(run.complete is None for run in case.runs if run.answered_none)
        ended = "is known to have ended" if some else "ended"
        return Verdict.INCONCLUSIVE, f"no request {ended} as asked in {', '.join(silent)}"
    if found := _blocking(findings, Outcome.INCONCLUSIVE):
        return Verdict.INCONCLUSIVE, _names(found)
    if held_back := [item for item in case.differences if item.holds_back]:
        return Verdict.INCONCLUSIVE, _held_back(held_back)
    if not _blocking(findings, Outcome.PASS):
        return Verdict.INCONCLUSIVE, "no blocking rule had anything to judge"
    return Verdict.PASS, f"every blocking rule passed{_only_inform(lenient)}"


def _names(findings: Sequence[Finding]) -> str:
    return ", ".join(dict.fromkeys(item.rule for item in findings))


def _held_back(differences: Sequence[Difference]) -> str:
    """Say why nothing passes: perhaps another load, a class of nobody, losses out of the window."""
    own = {
        CLASSES: "classes of the objective: {}",
        OUTSIDE_WINDOW: "more requests were lost outside the window",
    }
    told = [own[d.aspect].format(d.difference) for d in differences if d.aspect in own]
    others = [item.aspect for item in differences if item.aspect not in own]
    if others:
        told.insert(0, f"not known to be the same load: {', '.join(others)}")
    return "; ".join(told)


def _unlike(differences: Sequence[Difference]) -> str:
    """Name what makes the sides not comparable; repeats that differ among themselves first."""
    blocking = [item for item in differences if item.blocks]
    among: dict[str, list[str]] = {}
    for item in blocking:
        mixed = item.difference.startswith(MIXED)
        among.setdefault(item.difference if mixed else "", []).append(item.aspect)
    between = among.pop("", [])
    told = [f"{words}: {', '.join(aspects)}" for words, aspects in among.items()]
    if between:
        told.append(f"the sides differ in {', '.join(between)}")
    return "; ".join(told)


def _only_inform(rules: Sequence[str]) -> str:
    """Name the rules that would block and by the policy do not; empty without any."""
    if not rules:
        return ""
    count = "1 rule only informs" if len(rules) == 1 else f"{len(rules)} rules only inform"
    return f" ({count} by policy: {', '.join(rules)})"


def _own_slo(runs: Sequence[RunFigures]) -> str | None:
    """Return the objectives of runs, each once; ``None`` where none has one."""
    found = {text(run.goodput, "slo") for run in runs}
    return "; or ".join(sorted(value for value in found if value is not None)) or None


def _agreed(base: Sequence[RunFigures], cases: Sequence[_Case], column: str) -> str | None:
    """Return a goodput column's value where all runs agree on it."""
    runs = [*base, *(run for case in cases for run in case.runs)]
    values = {text(run.goodput, column) for run in runs}
    return values.pop() if len(values) == 1 else None
