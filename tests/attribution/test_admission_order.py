"""In which order requests were taken in, by their arrival and the engine's queue times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trueput.attribution.records import Stream
from trueput.attribution.replay.admission_order import FRONT_END_NS, admission_order
from trueput.attribution.replay.stories import jobs_of

MS = 1_000_000
STEP_NS = 100 * MS


def order(*arrivals_and_queues: tuple[int | None, int | None]) -> list[int]:
    """The order of requests of these arrivals and queue times, in ms; steps of up to 100 ms."""
    streams = [
        Stream(
            f"r{k}", 10, None, 5, 5, None if at is None else at * MS, None, None, None,
            None if at is None else at * MS, None if queue is None else queue * MS,
            None, None, None, aborted=False,
        )
        for k, (at, queue) in enumerate(arrivals_and_queues)
    ]  # fmt: skip
    return admission_order(jobs_of(streams), STEP_NS)


def test_without_queue_times_it_is_that_of_arrival() -> None:
    assert order((30, None), (10, None), (20, None)) == [1, 2, 0]


def test_whoever_waited_far_longer_was_overtaken_in_the_front_end() -> None:
    """Three arrive together; the first waits for 600 ms, the others not at all."""
    assert order((0, 600), (1, 0), (2, 0)) == [1, 2, 0]


def test_a_difference_within_an_iteration_says_nothing() -> None:
    """The first was queued at once, at 10; the other at 100, as the iteration ended. Both were
    scheduled at 100: by arrival and queue the second seems earlier by 84 ms."""
    assert order((10, 90), (16, 0)) == [0, 1]


def test_whoever_gave_up_untimed_keeps_its_place_among_those_that_waited() -> None:
    """The second was aborted: nobody timed its queue, and it waited as long as the first."""
    assert order((0, 900), (5, None), (10, 900), (15, 900)) == [0, 1, 2, 3]
    # beside one that was overtaken it is with the others
    assert order((0, 900), (1, None), (2, 0), (3, 0)) == [1, 2, 3, 0]


def test_a_request_of_unknown_arrival_has_no_place() -> None:
    assert order((20, None), (None, None), (10, None)) == [2, 0]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 400),  # ns * MS after the one before: its arrival
            st.integers(0, (STEP_NS + FRONT_END_NS) // MS),  # until it is queued
            st.integers(0, 400),  # after the one before: when it is scheduled, at the earliest
            st.booleans(),  # whether its queue was timed
        ),
        max_size=12,
    )
)
def test_first_come_first_served_keeps_the_order_of_arrival(
    gaps: list[tuple[int, int, int, bool]],
) -> None:
    at = scheduled = queued = 0
    rows: list[tuple[int | None, int | None]] = []
    for after, waited, later, is_timed in gaps:
        at += after
        # whoever comes later is queued no earlier, and scheduled no earlier
        queued = max(queued, at + waited)
        queued = min(queued, at + (STEP_NS + FRONT_END_NS) // MS)
        scheduled = max(scheduled + later, queued)
        rows.append((at, scheduled - queued if is_timed else None))
    assert order(*rows) == list(range(len(rows)))
