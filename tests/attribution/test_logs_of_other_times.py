"""Logs that begin late, or are of another time: whom their iterations cannot have served."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trueput.attribution.preemption.processes import requests_by_process
from trueput.attribution.preemption.victims import came_before
from trueput.attribution.records import Steps, Stream

S = 10**9


def log(first_ix: int, *seconds: float) -> Steps:
    """Iterations numbered from `first_ix`, printed at these seconds."""
    n = len(seconds)
    nothing = np.zeros(n, np.int64)
    return Steps(
        engine="0",
        incarnation=0,
        step_ix=np.arange(first_ix, first_ix + n, dtype=np.int64),
        logged_at_ns=np.array([round(x * S) for x in seconds], np.int64),
        elapsed_ns=np.full(n, S // 10),
        context_requests=nothing,
        context_tokens=nothing,
        generation_requests=nothing,
        generation_tokens=nothing,
        kv_used_ratio=np.full(n, np.nan),
    )


UNKNOWN = Stream(
    "x", None, None, None, None, None, None, None, None, None, None, None, None, None, aborted=False
)


def spanned(arrived: float, ended: float) -> Stream:
    """A request as the engine's own span tells of it."""
    arrived_ns = round(arrived * S)
    return replace(UNKNOWN, arrived_at_ns=arrived_ns, e2e_ns=round(ended * S) - arrived_ns)


def received(sent: float, ended: float) -> Stream:
    """A request of which only a client tells, whose clock may be off by a second."""
    return replace(UNKNOWN, sent_at_ns=round(sent * S), ended_at_ns=round(ended * S))


@pytest.mark.parametrize(
    ("streams", "kept"),
    [
        # a line is printed 0.3 s late at most: what ended at 99.6 had no iteration after that
        ([spanned(90, 99.6), spanned(90, 99.8), spanned(99, 103)], [1, 2]),
        ([received(90, 98.6), received(90, 98.8), spanned(99, 103)], [1, 2]),
        # when an engine let go of an aborted one is known to the second, if at all
        ([replace(received(90, 91), aborted=True), spanned(99, 103)], [0, 1]),
        ([replace(received(90, 91), aborted=True, aborted_at_ns=98 * S), spanned(99, 103)], [1]),
        ([replace(received(90, 91), aborted=True, aborted_at_ns=99 * S), spanned(99, 103)], [0, 1]),
        ([UNKNOWN, spanned(90, 99)], [0]),
    ],
)
def test_who_ended_before_a_log_is_not_of_it(streams: list[Stream], kept: list[int]) -> None:
    (own,) = requests_by_process([log(500, 100, 101, 104)], streams)
    assert [position for position, _ in own] == kept


@pytest.mark.parametrize(
    ("first", "last", "kept"),
    [
        (150, 200, 0),  # the load was 100 s before, and no zone is
        (950, 1000, 2),  # moved by a quarter of an hour it is at 50..100 s
        (3705, 3800, 2),  # by an hour: at 105..200 s
        (3780, 3800, 0),
    ],
)
def test_a_log_after_all_requests_is_of_them_where_a_zone_explains_it(
    first: float, last: float, kept: int
) -> None:
    (own,) = requests_by_process([log(0, first, last)], [spanned(50, 60), spanned(55, 110)])
    assert len(own) == kept


def test_who_came_before_a_log_that_begins_late_is_no_victim_of_it() -> None:
    whole, late = log(0, 100, 101), log(500, 100, 101)
    # the first line was printed before second 101
    for at, before in ((90, True), (100.9, True), (101, False)):
        assert came_before(late, spanned(at, 110)) == before
        assert came_before(late, received(at, 110)) == before
        assert not came_before(whole, spanned(at, 110))
    assert came_before(late, UNKNOWN)
