"""gate: verdicts on candidates against a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trueput.errors import UsageError
from trueput.gate.policy import Note, Policy, load_policy
from trueput.gate.verdict import GateResult
from trueput.gate.verdict import gate as judge
from trueput.verbs.base_side import base_side
from trueput.verbs.figures import figures
from trueput.verbs.opening import Reading, configuration


def under_policy(reading: Reading, policy: Policy) -> Reading:
    """Return the reading with the policy's objective where the command gave none."""
    given = reading.objective()
    judging = (policy.slo.measured_from, policy.slo.undefined_passes)
    if given is None and policy.slo_text is None:
        return replace(reading, judging=judging)
    limits = given if given is not None else policy.slo
    slo = replace(limits, measured_from=judging[0], undefined_passes=judging[1])
    return replace(reading, slo=slo, slo_origin="command" if given is not None else "policy")


def asked_text(reading: Reading) -> str | None:
    """Return the objective that the command gave, as text."""
    given = reading.objective()
    return None if given is None else given.text() or None


def put_aside(reading: Reading, policy: Policy) -> tuple[Note, ...]:
    """Tell that the command's objective stands in place of the policy's, with its classes."""
    given, own = reading.objective(), policy.slo_text
    if given is None or own is None or given.text() == own:
        return ()
    text = f"the command's objective is used; the policy's is not: {own}"
    return (Note("notice", text),)


def gate(
    base: str,
    candidates: Sequence[str],
    policy: Path | None = None,
    reading: Reading | None = None,
) -> GateResult:
    """Judge each candidate configuration against the baseline.

    An argument is one configuration: a run name or path, repeats joined with commas, or a folder
    of run folders. `base` may also be `@NAME` or `@last:K`. The process's exit code is
    `result.exit_code`.
    """
    if not candidates:
        raise UsageError("no candidate given", "`trueput gate BASE CANDIDATE...`")
    held = load_policy(policy) if policy is not None else Policy()
    how = under_policy(reading or Reading(), held)
    how.objective()
    judged = [configuration(a, how) for a in candidates]
    sides = [base_side(base, judged, how), *judged]
    known = figures([r for side in sides for r in side.runs], how)
    result = judge(
        [known[r] for r in sides[0].runs],
        [(side.name, [known[r] for r in side.runs]) for side in sides[1:]],
        held,
        asked_text(reading or Reading()),
        baseline_config=sides[0].name,
        window_rule=how.window,
    )
    return replace(result, notes=(*put_aside(reading or Reading(), held), *result.notes))
