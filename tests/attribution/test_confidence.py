"""How sure victims are: shares that a printed sum leaves open, and what checks a replay."""

from __future__ import annotations

import pytest

from trueput.attribution.iterations.recompute import (
    CONSERVATION,
    CONSERVATION_STREAMS,
    REPLAY,
    SHAPE,
    TokenTotals,
)
from trueput.attribution.preemption.claims import Claim
from trueput.attribution.preemption.confidence import NOT_COUNTED, SURE, UNCHECKED, check
from trueput.attribution.records import EngineLimits
from trueput.attribution.replay.block_pool import BlockPool
from trueput.attribution.replay.division import Division
from trueput.attribution.replay.stories import Job, Live, Story

CACHED = EngineLimits(4, 33, 8, 64, prefix_caching=True, spec_tokens=0)


def resumed(index: int, prompt: int, output: int) -> Live:
    """A victim that is scheduled again: all its tokens but the newest had been computed."""
    job = Job(index, prompt, None, None, 0, None, None, None, None, False, False, None)
    live = Live(job, prompt + output)
    live.out, live.high, live.preempted_step = output, prompt + output - 1, 7
    live.flexible = True
    return live


@pytest.mark.parametrize(
    ("printed", "victims"),
    [
        (22, set()),  # nothing was found again
        (2, set()),  # all that can be: three blocks of the first, two of the second
        (10, {0, 1}),  # 1 + 9, 5 + 5 or 9 + 1
        (18, {0, 1}),  # a block of either
    ],
)
def test_a_sum_that_two_victims_share_may_leave_open_what_each_took(
    printed: int, victims: set[int]
) -> None:
    pool = BlockPool(CACHED)
    story = Story((), pool.capacity)
    both = [resumed(0, 11, 2), resumed(1, 7, 2)]
    given: dict[int, int] = {}
    assert Division(pool).divide(story, both, printed, None, given)
    assert sum(given.values()) == printed
    assert story.open_jobs == victims
    assert not story.clone().open_jobs ^ victims


def test_a_sum_that_free_blocks_foretell_leaves_nothing_open() -> None:
    pool = BlockPool(CACHED)
    story, given = Story((), pool.capacity), {}
    both = [resumed(0, 11, 2), resumed(1, 7, 2)]
    for live, freed in zip(both, (3, 2), strict=True):
        live.freed_full = live.freed_blocks = freed
        live.freed_at = story.free_queue.put(freed)
    # as many blocks are free as were, so that all but two of the last freed are overwritten
    story.free_queue.take(pool.capacity + 3)
    assert Division(pool).divide(story, both, 13 + 1, None, given)
    assert [given[id(live)] for live in both] == [13, 1]
    assert not story.open_jobs
    # 9 + 1, 5 + 5 and 1 + 9 are ways to find a block more
    assert Division(pool).divide(story, both, 13 + 1 - 4, None, given)
    assert story.open_jobs == {0, 1}


def test_a_victim_alone_took_what_was_printed() -> None:
    pool = BlockPool(CACHED)
    story, given = Story((), pool.capacity), {}
    one = resumed(0, 11, 2)
    assert Division(pool).divide(story, [one], 9, None, given)
    assert given == {id(one): 9}
    assert not story.open_jobs


@pytest.mark.parametrize(
    ("method", "bounds", "counted", "confidence"),
    [
        (REPLAY, (30, 30, 30), 2, 1.0),
        # the log holds a part of what was counted
        (SHAPE, (None, 10, None), 2, UNCHECKED),
        (REPLAY, (30, 30, 30), None, UNCHECKED),
        # the requests' own lengths leave just as many
        (CONSERVATION_STREAMS, (30, 30, 30), None, NOT_COUNTED),
        (CONSERVATION_STREAMS, (31, 31, 31), None, UNCHECKED),
        (CONSERVATION, (None, 10, 40), 2, 1.0),
    ],
)
def test_something_must_check_how_many_there_were(
    method: str, bounds: tuple[int | None, int, int | None], counted: int | None, confidence: float
) -> None:
    claims = [Claim(tokens={5: 10}), Claim(tokens={6: 12, 7: 8})]
    check(claims, TokenTotals(*bounds, 100, method, "bounded"), counted)
    assert {claim.confidence for claim in claims} == {confidence}


@pytest.mark.parametrize(("low", "high"), [(0, 29), (31, 40)])
def test_nobody_is_sure_where_the_run_denies_the_sum(low: int, high: int) -> None:
    claims = [Claim(tokens={5: 10}), Claim(tokens={6: 12, 7: 8})]
    check(claims, TokenTotals(None, low, high, 100, CONSERVATION, "bounded"), 2)
    assert all(claim.confidence < SURE for claim in claims)
