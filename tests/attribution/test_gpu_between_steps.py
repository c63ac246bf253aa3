"""Iterations without an annotation: those whose launches are there are not lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from trueput.attribution.gpu.losses.between_steps import Gone, Steps, gone_between

STEP_NS: Final = 1_000
LAUNCHES: Final = {True: 5, False: 2}
"""Of an iteration that prefills, and of one that does not."""
ANNOTATED, BARE, LOST = range(3)
"""What a profile has of an iteration: all, launches without an annotation, nothing."""

Iterations = Sequence[tuple[int, int]]
"""Of each: its prompt tokens, and what the profile has of it."""


def ns(at: Sequence[int]) -> pa.Array:
    return pa.array(at, pa.int64())


def placed_first(iterations: Iterations) -> list[int]:
    """For each annotated iteration its place, the first of equal ones: who can tell them apart?"""
    found: list[int] = []
    for n, (tokens, kept) in enumerate(iterations):
        if kept != ANNOTATED:
            continue
        place = n
        while place and iterations[place - 1][0] == tokens and place - 1 not in found:
            place -= 1
        found.append(place)
    return found


def judged(folder: Path, iterations: Iterations, *, with_launches: bool = True) -> Gone | None:
    kept = [n for n, (_, has) in enumerate(iterations) if has == ANNOTATED]
    calls = [
        n * STEP_NS + 10 + call
        for n, (tokens, has) in enumerate(iterations)
        if has != LOST
        for call in range(LAUNCHES[tokens > 0])
    ]
    launches = folder / "launches.parquet"
    process = pa.array(["p"] * len(calls), pa.string())
    pq.write_table(pa.table({"process_key": process, "start_at_ns": ns(calls),
                             "api": pa.array(["cudaLaunchKernel"] * len(calls), pa.string())}),
                   launches, row_group_size=7)  # fmt: skip
    operations = folder / "operations.parquet"
    pq.write_table(pa.table({"process_key": process, "start_at_ns": ns([t + 50 for t in calls]),
                             "kind": pa.array(["kernel"] * len(calls), pa.string()),
                             "quality": pa.array([None] * len(calls), pa.string())}),
                   operations, row_group_size=7)  # fmt: skip
    start = np.array(kept, np.int64) * STEP_NS
    steps = Steps("p", start, start + 40, np.array(placed_first(iterations), np.int64))
    log = pa.table({
        "context_requests": ns([int(t > 0) for t, _ in iterations]),
        "context_tokens": ns([t for t, _ in iterations]),
        "generation_requests": ns([1] * len(iterations)),
        "generation_tokens": ns([1] * len(iterations)),
    })  # fmt: skip
    return gone_between(operations, launches if with_launches else None, steps, log)


def framed(inside: Iterations) -> Iterations:
    """Between annotated iterations of their own; one shows what decoding launches."""
    before, after = [(900, ANNOTATED), (0, ANNOTATED), (901, ANNOTATED)], [(902, ANNOTATED)]
    return [*before, *inside, *after]


KINDS = st.sampled_from([0, 0, 0, 7])


@settings(max_examples=examples(60), deadline=None)
@given(inside=st.lists(st.tuples(KINDS, st.sampled_from([ANNOTATED, BARE])), max_size=30))
def test_where_every_launch_is_there_none_is_lost(
    tmp_path_factory: pytest.TempPathFactory, inside: Iterations
) -> None:
    gone = judged(tmp_path_factory.mktemp("some"), framed(inside))
    assert gone is not None
    assert gone.lost == 0


@settings(max_examples=examples(60), deadline=None)
@given(inside=st.lists(
    st.tuples(KINDS, st.sampled_from([ANNOTATED, BARE, LOST])), max_size=30
).filter(lambda some: any(has == LOST for _, has in some)))  # fmt: skip
def test_where_launches_are_missing_some_are_lost(
    tmp_path_factory: pytest.TempPathFactory, inside: Iterations
) -> None:
    """However many annotations are missing beside them."""
    gone = judged(tmp_path_factory.mktemp("some"), framed(inside))
    assert gone is not None
    assert 1 <= gone.lost <= sum(has != ANNOTATED for _, has in inside)
    assert gone.iterations == len(inside) + 4


@pytest.mark.parametrize("with_launches", [True, False])
def test_it_ran_in_the_longest_pause(tmp_path: Path, with_launches: bool) -> None:
    """One of ten equal iterations is lost, and by composition it might be any of them."""
    decoding = [(0, LOST if n == 4 else ANNOTATED) for n in range(10)]
    gone = judged(tmp_path, framed(decoding), with_launches=with_launches)
    assert gone is not None
    assert (gone.lost, gone.iterations) == (1, 14)
    # before: three of the frame and four; each begins a step after the one before and ends 40 later
    assert gone.low_ns.tolist() == [6 * STEP_NS + 40]
    assert gone.high_ns.tolist() == [8 * STEP_NS]
