"""What differs, told of sides with several repeats: their mean, or whose figure it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gate.made_up import repeats, run

from trueput.gate.comparability import compare_sides
from trueput.gate.figures import RunFigures
from trueput.gate.loads import Difference
from trueput.gate.verdict import gate


def side(name: str, *lost: int) -> list[RunFigures]:
    """Repeats of 50 requests of which so many failed."""
    return [run(f"{name}{i}", "g" * (50 - n) + "f" * n) for i, n in enumerate(lost)]


def told(base: list[RunFigures], cand: list[RunFigures], aspect: str) -> Difference | None:
    return next((d for d in compare_sides(base, cand) if d.aspect == aspect), None)


def test_a_report_has_one_share_of_lost_requests() -> None:
    """Of 50: 10, 20, 30 are 40 % on the mean, beside 0, 0, 5 that are 3.3 %."""
    (found,) = gate(side("b", 0, 0, 5), [("c", side("c", 10, 20, 30))]).candidates
    (listed,) = (d for d in found.comparability if d.aspect == "lost_requests")
    (judged,) = (f for f in found.findings if f.metric == "lost_requests_ratio")
    assert judged.baseline == pytest.approx(5 / 150)
    assert judged.candidate == pytest.approx(0.4)
    assert (listed.baseline, listed.candidate) == ("3.3%", "40.0%")
    assert listed.difference == "+36.7 points of the planned, on the mean of the repeats"
    assert "+36.7 points" in judged.conclusion


def test_repeats_that_differ_and_agree_on_the_mean_are_told_of_their_side_alone() -> None:
    """20, 20 beside 10, 30: 40 % both, and one of the candidate's loses 20 % more."""
    base, cand = side("b", 20, 20), side("c", 10, 30)
    assert told(base, cand, "lost_requests") is None
    among = told(base, cand, "lost_requests among candidate repeats")
    assert among is not None
    assert (among.candidate, among.difference) == (
        "c0 20.0%, c1 60.0%",
        "+40.0 points of the planned",
    )


def test_a_mean_of_some_repeats_says_of_how_many() -> None:
    cand = [replace(one, goodput=None) if one.run_id == "c1" else one for one in side("c", 10, 5)]
    found = told(side("b", 0), cand, "lost_requests")
    assert found is not None
    assert (found.baseline, found.candidate) == ("0.0%", "20.0% (1 of 2 runs)")


@pytest.mark.parametrize(
    ("column", "aspect", "shown"),
    [
        ("sm_clock_mhz_mean", "gpu_clock", ("1000 MHz", "1200 MHz", "+20.0%")),
        ("power_limit_w_mean", "power_limit", ("1000 W", "1200 W", "+20.0%")),
    ],
)
def test_the_state_of_devices_is_a_mean_over_runs(
    column: str, aspect: str, shown: tuple[str, str, str]
) -> None:
    """1000 beside 1100 and 1300, whose mean is 1200."""
    base, cand = (
        [replace(run(f"{name}{v}"), gpu_state=({column: float(v)},)) for v in values]
        for name, values in (("a", (1000,)), ("b", (1100, 1300)))
    )
    found = told(base, cand, aspect)
    assert found is not None
    assert (found.baseline, found.candidate) == shown[:2]
    assert found.difference == f"{shown[2]}, on the mean of the repeats"


def test_prefix_reuse_is_a_mean_over_runs() -> None:
    base, cand = (
        [replace(run(f"{name}{i}"), workload={"reuse_ratio": v}) for i, v in enumerate(values)]
        for name, values in (("a", (0.1, 0.3)), ("b", (0.5, 0.9)))
    )
    found = told(base, cand, "prefix_reuse")
    assert found is not None
    assert (found.baseline, found.candidate) == ("20.0%", "70.0%")
    assert found.difference == "+50.0 points, on the mean of the repeats"


def test_a_distance_of_two_runs_names_those_whose_fellows_differ() -> None:
    """Prompts of 100 beside 101, 102 and 101 tokens: the furthest is c1, and b0 is as b1."""
    base = [run(f"b{i}", prompt=100) for i in range(2)]
    cand = [run(f"c{i}", prompt=n) for i, n in enumerate((101, 102, 101))]
    found = told(base, cand, "prompt_lengths")
    assert found is not None
    assert found.baseline == "50 requests, mean 100.0 tokens"
    assert found.candidate == "c1: 50 requests, mean 102.0 tokens"
    assert found.difference.startswith("mean +2.0%")
    assert found.difference.endswith(", between the runs furthest apart")


def test_repeats_that_agree_are_not_named() -> None:
    found = told(repeats("b", 3, prompt=100), repeats("c", 3, prompt=102), "prompt_lengths")
    assert found is not None
    assert (found.baseline, found.candidate) == (
        "50 requests, mean 100.0 tokens", "50 requests, mean 102.0 tokens",
    )  # fmt: skip
    assert "furthest" not in found.difference


def test_a_count_that_is_a_mean_of_repeats_says_so() -> None:
    """50 planned beside 50, 51 and 51: two thirds of a request more."""
    cand = [replace(run(f"c{n}", "g" * n), planned_fixed=None) for n in (50, 51)]
    cand.append(replace(run("d", "g" * 51), planned_fixed=None))
    found = told([replace(run("b"), planned_fixed=None)], cand, "planned_requests")
    assert found is not None
    assert (found.baseline, found.candidate) == ("50", "50, 51")
    assert found.difference.startswith("+0.666667 requests on the mean; ")
