"""The replay's search is bounded, whatever fits; and what it leaves out makes no difference."""

from __future__ import annotations

import math

import numpy as np
import pytest
from attribution.tiny_scheduler import START_NS, Request, Served, serve
from hypothesis import given
from hypothesis import strategies as st

from trueput.attribution.preemption import Attribution, attribute
from trueput.attribution.records import EngineLimits
from trueput.attribution.replay import beam
from trueput.attribution.replay.nats import LEAST_DOUBT
from trueput.attribution.replay.stories import Live, Story

AT_ONCE = 2_000


def with_strangers(own: int, strangers: int) -> Served:
    """A run whose engine served `own` requests of the client, and others that no record names."""
    rng = np.random.default_rng(7)
    names = [f"own{k}" for k in range(own)] + [f"stranger{k}" for k in range(strangers)]
    made, at = [], START_NS
    for name in rng.permutation(names):
        at += int(rng.integers(10, 60)) * 10**6
        prompt, output = int(rng.integers(20, 60)), int(rng.integers(10, 40))
        made.append(Request(str(name), at, prompt, output))
    served = serve(made, EngineLimits(4, 90, 16, 64, prefix_caching=False, spec_tokens=0))
    served.streams = [x for x in served.streams if x.request_id.startswith("own")]
    return served


def moves_of(served: Served, monkeypatch: pytest.MonkeyPatch) -> tuple[Attribution, int]:
    """The attribution, and how many copies of requests its search made."""
    copies = 0
    clone = Live.clone

    def counted(self: Live) -> Live:
        nonlocal copies
        copies += 1
        return clone(self)

    monkeypatch.setattr(Live, "clone", counted)
    found = attribute([served.steps], served.streams, served.limits, served.totals)
    return found, copies


def printed(served: Served) -> int:
    """What the engine printed: iterations and the requests in them."""
    steps = served.steps
    return int((steps.context_requests + steps.generation_requests + 1).sum())


@pytest.mark.parametrize("strangers", [10, 100, 400])
def test_strangers_cost_no_more_than_in_proportion_to_the_log(
    strangers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beam, "MOVES_AT_ONCE", AT_ONCE)
    served = with_strangers(100, strangers)
    found, moves = moves_of(served, monkeypatch)
    # beside what is allowed: the best story goes on, with all it holds, and a last step ends late
    assert moves <= AT_ONCE + (beam.MOVES_EACH + 3) * printed(served)
    assert found.unsearched_steps
    assert found.presences == ((),)


def test_what_cannot_be_told_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    served = with_strangers(100, 10)
    victims = {x.name for x in served.requests if x.preemptions}
    whole, moves = moves_of(served, monkeypatch)
    monkeypatch.setattr(beam, "MOVES_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(beam, "MOVES_EACH", 1)
    cut, fewer = moves_of(served, monkeypatch)
    assert (whole.unsearched_steps, cut.unsearched_steps > 0) == (0, True)
    assert fewer < moves / 4
    assert cut.unreproduced_steps >= cut.unsearched_steps
    assert len(cut.requests) < len(whole.requests)
    assert {x.request_id for x in cut.requests} <= victims
    # conservation needs no story
    assert cut.totals.recomputed_tokens == sum(x.recomputed for x in served.requests)


def test_a_run_of_known_requests_needs_no_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beam, "MOVES_AT_ONCE", 0)
    monkeypatch.setattr(beam, "MOVES_EACH", 1)
    served = with_strangers(100, 0)
    found, moves = moves_of(served, monkeypatch)
    assert moves < printed(served)
    assert found.unsearched_steps == 0
    assert {x.request_id for x in found.requests} == {
        x.name for x in served.requests if x.preemptions
    }


offers = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 20)), max_size=60)


@given(offers, st.integers(1, 6), st.integers(0, 20))
def test_the_best_are_kept_and_what_is_dearer_than_the_worst_is_not_among_them(
    offered: list[tuple[int, int]], width: int, within: int
) -> None:
    every: beam.Beam[int] = beam.Beam(width)
    spared: beam.Beam[int] = beam.Beam(width)
    for place, (key, cost) in enumerate(offered):
        every.add(key, cost, (place, 0), place)
        if cost <= spared.worst:
            spared.add(key, cost, (place, 0), place)
    least = {
        key: min((c, place) for place, (k, c) in enumerate(offered) if k == key)
        for key, _ in offered
    }
    cheapest = sorted(least.values())[:width]
    want = [place for cost, place in cheapest if cost <= cheapest[0][0] + within]
    assert every.best(within) == want
    assert spared.best(within) == want


def past(*preempted: tuple[int, int], cost: float, before: Story | None = None) -> Story:
    """A story with these preemptions (step, job) after those of `before`."""
    story = Story((), 8) if before is None else before.clone()
    story.cost = cost
    for step, job in preempted:
        story.note("preempt", step, job, 1)
        story.note("resume", step + 1, job, 1)
    return story


def test_a_dropped_story_casts_doubt_on_what_it_tells_otherwise() -> None:
    shared = past((3, 1), (5, 2), cost=1.0)
    kept, other = (
        past((8, 4), cost=2.0, before=shared),
        past((7, 5), (9, 2), cost=3.0, before=shared),
    )
    kept.outlive(other)
    likely = 1 / (1 + math.e)
    assert kept.doubts == pytest.approx({4: likely, 5: likely, 2: likely})
    assert kept.clone().doubts == kept.doubts
    assert not shared.doubts
    same = past((8, 4), cost=2.5, before=shared)
    before = dict(kept.doubts)
    kept.outlive(same)
    assert kept.doubts == before
    far = past((11, 6), cost=2.0 + LEAST_DOUBT + 0.1, before=shared)
    kept.outlive(far)
    assert kept.doubts == before


@pytest.mark.parametrize("order", [(1.0, 3.0), (3.0, 1.0)])
def test_of_stories_that_go_on_alike_the_dear_one_is_outlived(order: tuple[float, float]) -> None:
    outlived: list[tuple[float, float]] = []
    best: beam.Beam[float] = beam.Beam(4, lambda kept, gone: outlived.append((kept, gone)))
    for place, cost in enumerate(order):
        best.add("same", cost, (place, 0), cost)
    best.add("else", 2.0, (2, 0), 2.0)
    assert outlived == [(1.0, 3.0)]
    assert best.best(10) == [1.0, 2.0]
