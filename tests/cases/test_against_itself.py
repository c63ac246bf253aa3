"""Every recorded run against itself: nothing differs, nothing is flagged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cases.recorded import RUNS

from trueput.gate.figures import RunFigures
from trueput.gate.policy import Policy
from trueput.gate.rule_api import BLOCKING, Outcome
from trueput.gate.statistics import Noise
from trueput.gate.verdict import Verdict, gate
from trueput.verbs.figures import figures
from trueput.verbs.opening import Reading


@pytest.fixture(scope="module")
def recorded(store: Path) -> dict[str, RunFigures]:
    """The figures of every recorded run, under one objective."""
    return figures(RUNS, Reading(store=store, slo="ttft=5000ms,tpot=25ms"))


@pytest.mark.parametrize("run", RUNS)
def test_one_run_a_side(recorded: dict[str, RunFigures], run: str) -> None:
    (found,) = gate([recorded[run]], [("again", [recorded[run]])]).candidates
    assert found.verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}, found.reason
    assert found.comparability == ()
    for finding in found.findings:
        assert finding.outcome is not Outcome.FLAGGED, finding.conclusion
        if finding.ratio_low is not None and finding.ratio_high is not None:
            assert finding.ratio_low <= 1 <= finding.ratio_high


@pytest.mark.parametrize("run", RUNS)
def test_three_equal_repeats_a_side(recorded: dict[str, RunFigures], run: str) -> None:
    """Copies that no digest gives away, as equal repeats: what is known passes."""
    sides = [
        [
            replace(
                recorded[run],
                run_id=f"{side}{i}",
                content_hash=f"{side}{i}",
                measurement=None,
                measured_files=frozenset(),
            )
            for i in range(3)
        ]
        for side in "ab"
    ]
    (found,) = gate(sides[0], [("again", sides[1])], Policy(noise=Noise(0.01, 0.1))).candidates
    blocking = {f.outcome for f in found.findings if f.severity == BLOCKING}
    assert Outcome.FLAGGED not in blocking
    assert found.verdict in {Verdict.PASS, Verdict.INCONCLUSIVE}, found.reason
