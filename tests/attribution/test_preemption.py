"""Victims of preemption: a history worked out by hand, and runs of a small scheduler."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from attribution.tiny_scheduler import PAUSE_NS, START_NS, Request, Served, serve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trueput.attribution.preemption import Attribution, attribute
from trueput.attribution.records import EngineLimits, Steps, Totals

UNSCRAPED = Totals(None, None, None, None, 0)
# 4 blocks of 4 tokens: block 0 is the null block
SMALL = EngineLimits(4, 5, 8, 64, prefix_caching=False, spec_tokens=0)


def by_hand() -> Served:
    """Two requests on four blocks of four tokens.

    0: both prefill, 6 and 5 tokens, two blocks each; 1, 2: both decode. 3: the first wants a
    third block, so the second, with 3 tokens out, is preempted. 3, 4, 5: the first decodes alone
    and ends. 6: the second computes its 7 tokens again and one new one, its fourth and last.
    """
    return serve([Request("a", START_NS, 6, 6), Request("b", START_NS, 5, 4)], SMALL)


def run(served: Served, totals: Totals | None = None) -> Attribution:
    """The attribution of what a small scheduler printed."""
    return attribute([served.steps], served.streams, served.limits, totals or served.totals)


def test_the_scheduler_does_what_was_worked_out_by_hand() -> None:
    steps = by_hand().steps
    assert steps.context_requests.tolist() == [2, 0, 0, 0, 0, 0, 0]
    assert steps.context_tokens.tolist() == [11, 0, 0, 0, 0, 0, 0]
    assert steps.generation_requests.tolist() == [0, 2, 2, 1, 1, 1, 1]
    assert steps.generation_tokens.tolist() == [0, 2, 2, 1, 1, 1, 8]


def test_the_victim_its_wait_and_its_tokens_are_found() -> None:
    served = by_hand()
    found = run(served)
    assert [row.request_id for row in found.requests] == ["b"]
    victim = found.requests[0]
    assert victim.preemptions == 1
    assert victim.recomputed_tokens == 7
    waited = int(served.steps.elapsed_ns[3:6].sum()) + 3 * PAUSE_NS
    assert abs(victim.requeue_ns - waited) <= 1
    assert victim.requeue_before_first_token_ns == 0
    assert victim.confidence > 0.9
    assert found.steps[0].recomputed_tokens.tolist() == [0, 0, 0, 0, 0, 0, 7]
    assert victim.recompute_ns == found.steps[0].recompute_ns[6]
    assert found.totals.recomputed_tokens == 7
    assert found.unattributed_preemptions == 0
    assert found.unreproduced_steps == 0


def test_parts_of_every_step_sum_to_its_time() -> None:
    served = by_hand()
    parts = run(served).steps[0].parts
    total = parts.prefill_ns + parts.decode_ns + parts.recompute_ns
    assert (total == served.steps.elapsed_ns).all()


@pytest.mark.parametrize("missing", ["client", "spans", "prompts", "counters"])
def test_the_victim_is_found_with_one_source_missing(missing: str) -> None:
    served = by_hand()
    gone = {
        "client": ["gaps_ns", "first_token_at_ns", "ended_at_ns", "sent_at_ns"],
        "spans": ["arrived_at_ns", "queue_ns", "prefill_ns", "decode_ns", "e2e_ns"],
        "prompts": [],
        "counters": [],
    }[missing]
    changes = dict.fromkeys(gone)
    served.streams = [dataclasses.replace(x, **changes) for x in served.streams]
    if missing == "prompts":
        served.streams = [dataclasses.replace(x, prompt_tokens=None) for x in served.streams[1:]]
        served.streams.insert(0, by_hand().streams[0])
    found = run(served, UNSCRAPED if missing == "counters" else None)
    assert [row.request_id for row in found.requests] == ["b"]
    assert found.requests[0].recomputed_tokens == 7


def test_without_requests_nobody_is_named() -> None:
    served = by_hand()
    served.streams = []
    found = run(served)
    assert found.requests == ()
    assert found.unattributed_preemptions == 1
    assert found.totals.recomputed_tokens == 7
    assert found.notes


def test_without_iterations_nothing_is_known() -> None:
    served = by_hand()
    found = attribute([], served.streams, SMALL, UNSCRAPED)
    assert found.requests == ()
    assert found.totals.recomputed_tokens is None
    assert found.totals.recompute_ns is None
    assert found.totals.basis == "unknown"


def test_no_iteration_lines_of_an_engine_is_no_crash() -> None:
    none = np.zeros(0, dtype=np.int64)
    empty = Steps("000", 0, none, none, none, none, none, none, none, none.astype(np.float64))
    assert attribute([empty], by_hand().streams, SMALL, UNSCRAPED).requests == ()


def test_several_engines_name_nobody() -> None:
    served = by_hand()
    other = dataclasses.replace(served.steps, engine="001")
    found = attribute([served.steps, other], served.streams, SMALL, UNSCRAPED)
    assert found.requests == ()
    assert any("several engines" in note for note in found.notes)


def test_a_restarted_engine_is_replayed_in_both_lives() -> None:
    first = by_hand()
    later = by_hand()
    shift = 100 * 10**9
    again = dataclasses.replace(
        later.steps, incarnation=1, logged_at_ns=later.steps.logged_at_ns + shift
    )
    moved = [
        dataclasses.replace(
            x, request_id=x.request_id + "2", sent_at_ns=(x.sent_at_ns or 0) + shift,
            arrived_at_ns=(x.arrived_at_ns or 0) + shift,
            first_token_at_ns=(x.first_token_at_ns or 0) + shift,
            ended_at_ns=(x.ended_at_ns or 0) + shift,
        )
        for x in later.streams
    ]  # fmt: skip
    found = attribute([first.steps, again], [*first.streams, *moved], SMALL, UNSCRAPED)
    assert [row.request_id for row in found.requests] == ["b", "b2"]


requests = st.lists(
    st.tuples(st.integers(0, 400), st.integers(1, 60), st.integers(1, 40)),
    min_size=1,
    max_size=14,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(requests, st.integers(26, 60), st.integers(16, 64), st.integers(2, 8))
def test_what_a_scheduler_did_is_found_again(
    table: list[tuple[int, int, int]], num_blocks: int, budget: int, seats: int
) -> None:
    """All victims of any run, with the tokens they had to compute again, and nobody else."""
    # arrivals 10 ms apart at least: ties are a matter of chance that no record settles
    made, at = [], START_NS
    for i, (pause, prompt, output) in enumerate(table):
        at += (pause + 10) * 10**6
        made.append(Request(f"r{i:02d}", at, prompt, output))
    served = serve(made, EngineLimits(4, num_blocks, seats, budget, False, 0))
    found = run(served)
    assert found.totals.recomputed_tokens == sum(x.recomputed for x in made)
    truth = {x.name: (x.preemptions, x.recomputed) for x in made if x.preemptions}
    mine = {x.request_id: (x.preemptions, x.recomputed_tokens) for x in found.requests}
    assert mine == truth
    waits = {x.name: x.requeue_ns for x in made if x.preemptions}
    for row in found.requests:
        assert abs(row.requeue_ns - waits[row.request_id]) < 30_000_000
    assert sum(x.recompute_ns for x in found.requests) <= sum(
        int(x.recompute_ns.sum()) for x in found.steps
    )
