"""Change points in series of nights: what is found, where, and how often nothing is there."""

from __future__ import annotations

import math
import random
import sys

import pytest

from trueput.errors import UsageError
from trueput.gate.change_points import Kind, Shift, shifts


def nights(level: list[float], sd: float, seed: int) -> list[float]:
    """Return figures around `level`, with the given relative noise."""
    draw = random.Random(seed)
    return [value * math.exp(draw.gauss(0, sd)) for value in level]


JUMP = [10.0] * 20 + [9.0] * 12
CREEP = [10.0] * 10 + [10.0 * 0.99**n for n in range(1, 21)] + [10.0 * 0.99**20] * 8


def test_the_night_of_a_jump_is_found_with_its_size() -> None:
    exact = [shifts(nights(JUMP, 0.02, seed)) for seed in range(12)]
    alone = [found[0] for found in exact if [s.kind for s in found] == [Kind.JUMP]]
    assert len(alone) >= 10
    assert sum(s.last == 20 for s in alone) >= len(alone) - 2
    assert all((s.first, s.change) == (s.last - 1, pytest.approx(-0.1, abs=0.03)) for s in alone)


def test_a_creep_is_one_change_with_its_whole_size() -> None:
    """Twenty nights of 1 % each: no night differs from the one before by more than its noise."""
    found = [shifts(nights(CREEP, 0.015, seed)) for seed in range(12)]
    creeps = [f[0] for f in found if [s.kind for s in f] == [Kind.CREEP]]
    assert len(creeps) >= 10
    for shift in creeps:
        assert shift.change == pytest.approx(0.99**20 - 1, abs=0.04)
        assert shift.first == pytest.approx(9, abs=5)
        assert shift.last == pytest.approx(29, abs=5)


def test_two_jumps_one_way_are_not_a_creep() -> None:
    steps = [10.0] * 15 + [9.0] * 15 + [8.1] * 15
    found = [tuple(s.kind for s in shifts(nights(steps, 0.02, seed))) for seed in range(12)]
    assert found.count((Kind.JUMP, Kind.JUMP)) >= 10


def test_one_odd_night_is_no_change_of_level() -> None:
    level = [10.0] * 30
    level[14] = 5.0
    found = [shifts(nights(level, 0.02, seed)) for seed in range(12)]
    assert sum([s.kind for s in f] == [Kind.ODD] for f in found) >= 11
    assert found[0][0].last == 14
    assert found[0][0].change == pytest.approx(-0.5, abs=0.05)


@pytest.mark.long(besides=2)
@pytest.mark.parametrize("count", [10, 30, 60])
def test_nights_of_one_level_seldom_show_a_change(count: int) -> None:
    false = sum(bool(shifts(nights([10.0] * count, 0.05, seed))) for seed in range(100))
    assert false <= 8, f"{false} of 100 series without a change"


def test_the_newest_night_cannot_begin_a_level() -> None:
    """One night lower is odd and no level yet; a second one makes it one."""
    quiet = [10.0, 10.1, 9.9, 10.0, 10.05, 9.95, 10.0, 10.1, 9.9, 10.0]
    assert [(s.kind, s.last) for s in shifts([*quiet, 8.0])] == [(Kind.ODD, 10)]
    assert [(s.kind, s.last) for s in shifts([*quiet, 8.0, 8.1])] == [(Kind.JUMP, 10)]


def test_shares_change_by_points() -> None:
    series = [0.0, 0.001] * 6 + [0.3, 0.301] * 4
    (found,) = shifts(series, shares=True)
    assert (found.kind, found.last) == (Kind.JUMP, 12)
    assert found.change == pytest.approx(0.3, abs=1e-9)


def test_constant_and_short_series_have_none() -> None:
    assert shifts([5.0] * 40) == ()
    assert shifts([1.0, 9.0, 1.0, 9.0, 1.0]) == ()
    assert shifts([]) == ()


def test_scaling_the_unit_changes_nothing() -> None:
    series = nights(JUMP, 0.02, 3)
    plain, scaled = shifts(series), shifts([1000 * value for value in series])
    assert [(s.kind, s.first, s.last) for s in plain] == [(s.kind, s.first, s.last) for s in scaled]
    assert [s.change for s in plain] == pytest.approx([s.change for s in scaled])


def test_a_year_of_nights_is_quick_enough_to_look_at() -> None:
    long = [10.0] * 120 + [10 * (1 - n / 1000) for n in range(120)] + [8.8] * 120
    found = shifts(nights(long, 0.02, 1))
    assert found[0].before > found[-1].after
    assert isinstance(found[0], Shift)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ruptures", None)
    with pytest.raises(UsageError) as caught:
        shifts([1.0] * 10)
    assert "pip install 'trueput[history]'" in str(caught.value.hint)
