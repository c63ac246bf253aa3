"""gate: verdicts on candidates against a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trueput.errors import UsageError
from trueput.gate.policy import Policy, load_policy
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
    return judge(
        [known[r] for r in sides[0].runs],
        [(side.name, [known[r] for r in side.runs]) for side in sides[1:]],
        held,
        baseline_config=sides[0].name,
        window_rule=how.window,
    )
