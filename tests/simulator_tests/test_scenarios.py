"""The pairs do what they are for, on every seed."""

from __future__ import annotations

import pytest
from simulator.truth import outcome_of, window_of
from simulator_tests.runs import ledger, run_of

SEEDS = (1, 2, 3)


def goodput(name: str, seed: int) -> float:
    """Good requests per second."""
    run = run_of(name, seed)
    start, end = window_of(run)
    return sum(outcome_of(run, one) == "good" for one in run.requests) * 1e9 / (end - start)


def busy(name: str, seed: int) -> float:
    """Busy share of all devices."""
    found = ledger(name, seed)
    return sum(found.busy) / found.devices / (found.window[1] - found.window[0])


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_raised_limit_keeps_the_devices_busy_with_nothing_useful(seed: int) -> None:
    assert busy("regression_candidate", seed) > 1.1 * busy("regression_base", seed)
    assert goodput("regression_candidate", seed) < 0.9 * goodput("regression_base", seed)
    base, candidate = ledger("regression_base", seed), ledger("regression_candidate", seed)

    def wasted(cells: dict[tuple[str, str], int]) -> int:
        return sum(cost for (work, outcome), cost in cells.items()
                   if work == "recompute" or outcome == "late")  # fmt: skip

    added = sum(candidate.busy) - sum(base.busy)
    assert wasted(candidate.cells) - wasted(base.cells) >= added


@pytest.mark.long(besides=1)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_improvement_improves(seed: int) -> None:
    assert goodput("improvement_candidate", seed) > 1.2 * goodput("improvement_base", seed)
    assert busy("improvement_candidate", seed) > 1.02 * busy("improvement_base", seed)


@pytest.mark.parametrize("name", ["tiny", "troubled"])
def test_everything_that_can_go_wrong_does(name: str) -> None:
    run = run_of(name)
    outcomes = {outcome_of(run, one) for one in run.requests}
    assert outcomes >= {"good", "aborted", "rejected"}
    assert any(one.recomputed for one in run.requests)
    assert name != "troubled" or "failed" in outcomes
