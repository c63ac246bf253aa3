"""Recomputed tokens of a run: what the lines show, what is conserved, and what only bounds it."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trueput.attribution.iterations.recompute import (
    ReplayTokens,
    excess_tokens,
    recompute_totals,
    recomputed_by_step,
)
from trueput.attribution.preemption.recompute_time import within_totals
from trueput.attribution.records import (
    Ints,
    RecomputeTotals,
    RequestRecompute,
    Steps,
    Stream,
    Totals,
)

UNSCRAPED = Totals(None, None, None, None, 0)


def lines(*rows: tuple[int, int, int, int]) -> Steps:
    """Steps from (context requests, context tokens, generation requests, generation tokens)."""
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    n = len(table)
    return Steps(
        engine="000",
        incarnation=0,
        step_ix=np.arange(n, dtype=np.int64),
        logged_at_ns=np.full(n, 10**18, dtype=np.int64),
        elapsed_ns=np.full(n, 10**7, dtype=np.int64),
        context_requests=table[:, 0],
        context_tokens=table[:, 1],
        generation_requests=table[:, 2],
        generation_tokens=table[:, 3],
        kv_used_ratio=np.full(n, np.nan),
    )


def zeros(steps: Steps) -> Ints:
    """Nothing assigned to victims."""
    return np.zeros(len(steps.step_ix), dtype=np.int64)


# prefill of 10, a decode step, a resume that computes 11 tokens again and makes one new
RESUMED = lines((1, 10, 0, 0), (0, 0, 1, 1), (0, 0, 1, 12), (0, 0, 1, 1))
COUNTED = Totals(prompt_tokens_computed=10, generation_tokens=4, first_tokens=1, preemptions=1,
                 aborted=0)  # fmt: skip


def test_excess_is_recompute_and_drafts_are_not() -> None:
    assert excess_tokens(RESUMED, 0).tolist() == [0, 0, 11, 0]
    drafting = lines((0, 0, 4, 12), (0, 0, 4, 13))
    assert excess_tokens(drafting, 2).tolist() == [0, 1]


def test_conservation_is_exact_without_aborts() -> None:
    found = recompute_totals([RESUMED], [], COUNTED, 0, None)
    assert (found.tokens, found.low, found.high) == (11, 11, 11)
    assert (found.scheduled, found.method, found.basis) == (24, "conservation", "inferred")


def test_aborts_leave_a_range_between_what_shows_and_what_is_conserved() -> None:
    # the aborted request's prompt of 10 was computed and reported to nobody
    more = lines((1, 10, 0, 0), (1, 10, 1, 1), (0, 0, 1, 12), (0, 0, 1, 1))
    aborted = dataclasses.replace(COUNTED, aborted=1)
    found = recompute_totals([more], [], aborted, 0, None)
    assert (found.tokens, found.low, found.high, found.basis) == (None, 11, 21, "bounded")


def test_a_faithful_replay_narrows_that_range() -> None:
    more = lines((1, 10, 0, 0), (1, 10, 1, 1), (0, 0, 1, 12), (0, 0, 1, 1))
    aborted = dataclasses.replace(COUNTED, aborted=1)
    found = recompute_totals([more], [], aborted, 0, ReplayTokens(11, 11, 13))
    assert (found.tokens, found.low, found.high, found.method) == (11, 11, 13, "replay")
    # but not beyond what conservation allows
    beyond = recompute_totals([more], [], aborted, 0, ReplayTokens(30, 30, 30))
    assert (beyond.tokens, beyond.low, beyond.high) == (None, 11, 21)


def test_no_counted_preemption_is_no_recompute_even_with_aborts() -> None:
    calm = Totals(10, 4, 1, 0, aborted=3)
    found = recompute_totals([lines((1, 20, 0, 0))], [], calm, 0, None)
    assert (found.tokens, found.low, found.high, found.basis) == (0, 0, 0, "reported")


def test_lost_lines_leave_no_upper_limit() -> None:
    torn = dataclasses.replace(RESUMED, step_ix=np.array([0, 1, 2, 5]))
    found = recompute_totals([torn], [], COUNTED, 0, None)
    assert (found.tokens, found.low, found.high, found.method) == (None, 11, None, "shape")


def test_a_log_that_begins_late_conserves_nothing() -> None:
    late = dataclasses.replace(RESUMED, step_ix=np.arange(7, 11))
    found = recompute_totals([late], [], COUNTED, 0, None)
    assert (found.tokens, found.low, found.high, found.method) == (None, 11, None, "shape")


def test_a_replay_that_contradicts_conservation_leaves_a_range() -> None:
    found = recompute_totals([RESUMED], [], COUNTED, 0, ReplayTokens(14, 14, 14))
    assert (found.tokens, found.low, found.high, found.basis) == (None, 11, 14, "bounded")


def test_requests_stand_in_for_counters() -> None:
    stream = Stream("a", 10, 0, 4, 4, None, None, None, None, None, None, None, None, None,
                    aborted=False)  # fmt: skip
    found = recompute_totals([RESUMED], [stream], UNSCRAPED, 0, None)
    assert (found.tokens, found.method) == (11, "conservation_requests")


def test_without_anything_it_is_unknown() -> None:
    found = recompute_totals([], [], UNSCRAPED, 0, None)
    assert (found.tokens, found.high, found.basis) == (None, None, "unknown")


rows = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 900), st.integers(0, 40), st.integers(0, 900)),
    max_size=30,
)


@given(rows, st.integers(0, 3))
def test_a_step_never_recomputes_more_than_it_scheduled(
    table: list[tuple[int, int, int, int]], spec: int
) -> None:
    steps = lines(*table)
    made = recomputed_by_step(steps, spec, zeros(steps) + 700)
    assert (made >= 0).all()
    assert (made <= steps.context_tokens + steps.generation_tokens).all()


@given(rows)
def test_without_excess_and_victims_nothing_is_recompute(
    table: list[tuple[int, int, int, int]],
) -> None:
    steps = lines(*((cr, ct, gr, min(gt, gr)) for cr, ct, gr, gt in table))
    assert recomputed_by_step(steps, 0, zeros(steps)).sum() == 0


def test_what_aborted_requests_may_have_been_given_is_no_recompute() -> None:
    """b computes 6 of its 10 prompt tokens, is preempted, and computes all of them. a, with a
    prompt of 10, is given 3 tokens and leaves with 2. Of 29 tokens 6 + 1 are in no counter.
    """
    steps = lines((2, 16, 0, 0), (1, 10, 1, 1), (0, 0, 2, 2))
    counted = Totals(prompt_tokens_computed=20, generation_tokens=4, first_tokens=2, preemptions=1,
                     aborted=1)  # fmt: skip
    left = Stream("a", 10, 0, 2, 3, *[None] * 9, aborted=True)
    found = recompute_totals([steps], [left], counted, 0, None)
    assert (found.tokens, found.low, found.high) == (None, 6, 7)
    assert (found.method, found.basis) == ("conservation", "bounded")
    # without its first token its prompt is in no counter, either
    unseen = dataclasses.replace(left, output_tokens=0)
    assert recompute_totals([steps], [unseen], counted, 0, None).low == 0
    unasked = dataclasses.replace(left, asked_output_tokens=None)
    assert recompute_totals([steps], [unasked], counted, 0, None).low == 0
    assert recompute_totals([steps], [], counted, 0, None).low == 0


def victim(name: str, ns: int, early: int) -> RequestRecompute:
    """A victim whose recompute took `ns`, `early` of them before its first token."""
    return RequestRecompute(name, 1, 0, ns, 1, 0, early, 0.85, "replay", "bounded", 0.85)


@given(
    st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**12)), max_size=6),
    st.integers(0, 10**12),
)
def test_victims_come_to_no_more_than_their_run(times: list[tuple[int, int]], most: int) -> None:
    victims = tuple(victim(str(i), ns, min(ns, early)) for i, (ns, early) in enumerate(times))
    totals = RecomputeTotals(9, 9, 9, 99, most, 0, None, "conservation", "inferred")
    cut, told = within_totals(victims, totals), sum(ns for ns, _ in times)
    assert sum(x.recompute_ns for x in cut) == min(told, most)
    for one, was in zip(cut, victims, strict=True):
        assert 0 <= one.recompute_before_first_token_ns <= one.recompute_ns
        # alike: each within a nanosecond of its share
        if told > most:
            assert abs(one.recompute_ns * told - was.recompute_ns * most) <= told
        else:
            assert one == was
