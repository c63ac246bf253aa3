"""What a sum over the finished requests says of shares that are open."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from trueput.attribution.preemption.presence import DECODE, PREFILL, Presence
from trueput.attribution.preemption.told_prefill import MOST_OPEN, Told, choices, settle


def share(job: int, step: int, tokens: int, other: int) -> Presence:
    """One request's tokens of one iteration, or what they are just as likely."""
    return Presence(job, PREFILL, step, step, tokens, other, 1, 99)


# An iteration of 95 tokens: one of the prompts of 59 and 60 found 24 in the cache. Request 0 was
# aborted, 1 finished; 2 prefilled alone.
ONE_FOUND = [share(0, 4, 59, 35), share(1, 4, 36, 60), share(2, 9, 40, 40)]


def taken(tokens: int) -> list[tuple[int | None, int | None]]:
    """The two figures of each row, by what 1 and 2 are told to have computed."""
    told = Told(frozenset({1, 2}), tokens)
    return [(x.tokens, x.other) for x in settle(ONE_FOUND, told)]


def test_the_sum_of_the_finished_decides() -> None:
    assert taken(40 + 60) == [(35, 35), (60, 60), (40, 40)]
    assert taken(40 + 36) == [(59, 59), (36, 36), (40, 40)]


def test_a_sum_that_no_choice_gives_decides_nothing() -> None:
    assert taken(40 + 44) == [(59, 35), (36, 60), (40, 40)]


def test_shares_among_finished_requests_are_not_told() -> None:
    told = Told(frozenset({0, 1, 2}), 59 + 36 + 40)
    assert settle(ONE_FOUND, told) == ONE_FOUND


def test_two_iterations_that_shift_alike_are_open_where_one_of_them_did() -> None:
    """Told is one shift of 24: it may be of either iteration."""
    rows = [*ONE_FOUND[:2], share(3, 6, 50, 26), share(4, 6, 10, 34)]
    assert settle(rows, Told(frozenset({1, 4}), 36 + 10 + 24)) == rows
    both = settle(rows, Told(frozenset({1, 4}), 36 + 10 + 48))
    assert [x.tokens for x in both] == [35, 60, 26, 34]


def test_a_prompt_of_two_iterations_ties_them() -> None:
    """Request 1 is in both: what it has less in one, its neighbours have more, or all the other."""
    rows = [*ONE_FOUND[:2], share(1, 5, 20, 4), share(5, 5, 8, 24)]
    found = settle(rows, Told(frozenset({1}), 36 + 20 + 8))
    assert [(x.tokens, x.other) for x in found] == [(35, 35), (60, 60), (4, 4), (24, 24)]


def test_other_work_stays() -> None:
    decode = Presence(1, DECODE, 5, 9)
    again = replace(share(1, 12, 8, 8), work="recompute")
    rows = [*ONE_FOUND, decode, again]
    assert settle(rows, Told(frozenset({1, 2}), 100))[3:] == [decode, again]


@given(st.lists(st.integers(-4, 4), max_size=7), st.integers(-12, 12))
def test_choices_are_those_of_all_combinations(shifts: list[int], wanted: int) -> None:
    fits = [
        taken
        for taken in product((False, True), repeat=len(shifts))
        if sum(x for x, is_taken in zip(shifts, taken, strict=True) if is_taken) == wanted
    ]
    expected = [
        seen.pop() if len(seen) == 1 and shift else None
        for shift, seen in zip(
            shifts, ({taken[k] for taken in fits} for k in range(len(shifts))), strict=True
        )
    ]
    assert choices(shifts, wanted) == expected


def test_so_many_open_places_are_left_open() -> None:
    assert choices([8] * (MOST_OPEN + 1), 8 * (MOST_OPEN + 1)) == [None] * (MOST_OPEN + 1)
