"""The free queue of KV blocks against the same queue with every block written down."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trueput.attribution.replay.free_queue import FreeQueue

START = 8


def test_a_prefix_found_again_in_the_middle_is_passed_over() -> None:
    queue = FreeQueue(4)  # free: 0 1 2 3
    queue.take(2)  # 2 3
    assert queue.put(3) == 4  # 2 3 4 5 6
    queue.take_out(4, 2)  # 2 3 6
    assert queue.blocks == 3
    queue.take(2)  # 6, and not 4 or 5
    assert (queue.head, queue.blocks) == (6, 1)


def test_a_copy_goes_its_own_way() -> None:
    queue = FreeQueue(4)
    queue.take_out(2, 1)
    twin = queue.clone()
    twin.take(3)  # 0 1 3
    assert (twin.blocks, queue.blocks) == (0, 3)


def test_blocks_that_left_unseen_left_at_the_head() -> None:
    queue = FreeQueue(6)  # 0 1 2 3 4 5
    queue.take_out(1, 1)  # 0 2 3 4 5
    queue.shorten_to(9)  # there are not so many
    assert (queue.head, queue.blocks) == (0, 5)
    queue.take_out(4, 1)  # 0 2 3 5
    queue.take(1)  # 2 3 5
    queue.shorten_to(2)
    assert (queue.head, queue.blocks) == (3, 2)


@given(
    st.lists(
        st.tuples(st.sampled_from(["take", "put", "take_out"]), st.integers(0, 30)), max_size=40
    )
)
def test_it_is_the_queue_that_writes_every_block_down(moves: list[tuple[str, int]]) -> None:
    queue, written, freed = FreeQueue(START), list(range(START)), START
    for kind, number in moves:
        if kind == "take":
            count = number % (len(written) + 1)
            queue.take(count)
            del written[:count]
        elif kind == "put":
            assert queue.put(number) == freed
            written += range(freed, freed + number)
            freed += number
        elif len(written) > 1:
            # from behind the head: what stands there is the next to be taken anyway
            at = 1 + number % (len(written) - 1)
            queue.take_out(written[at], 1)
            del written[at]
        assert queue.blocks == len(written)
        assert queue.head == (written[0] if written else freed)
