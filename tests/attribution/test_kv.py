"""What sequences have in the KV cache, from who computed what in which iteration: by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from trueput.attribution.iterations.kv import KV_WORKS, kv_by_work, with_kv

NONE = [None, None, None]
Life = tuple[str | None, int]
ONLY: Life = ("0", 0)


def log(requests: Sequence[int], first: int = 0, life: Life = ONLY) -> pa.Table:
    """Iterations that printed so many requests, as context or generation."""
    size = len(requests)
    return pa.table(
        {
            "engine": pa.array([life[0]] * size, pa.string()),
            "incarnation": pa.array([life[1]] * size, pa.int64()),
            "step_ix": pa.array(range(first, first + size), pa.int64()),
            "context_requests": pa.array([min(n, 1) for n in requests], pa.int64()),
            "generation_requests": pa.array([n - min(n, 1) for n in requests], pa.int64()),
        }
    )


def row(
    request: str, work: str, first: int, last: int, tokens: int | None = None, life: Life = ONLY
) -> Mapping[str, Any]:
    """A row of request_steps."""
    return {"engine": life[0], "incarnation": life[1], "request_id": request, "work": work,
            "first_step_ix": first, "last_step_ix": last, "tokens": tokens}  # fmt: skip


def read(iterations: pa.Table, rows: Sequence[Mapping[str, Any]], **prompts: int | None) -> Any:
    """The tokens that prefill, decode and recompute read, None where not known."""
    found = kv_by_work(iterations, rows, prompts)
    return [[None if np.isnan(x) else x for x in each] for each in found.tolist()]


def test_a_prompt_grows_by_its_chunks_and_then_by_a_token_each() -> None:
    rows = [row("a", "prefill", 0, 0, 6), row("a", "prefill", 1, 1, 4), row("a", "decode", 2, 4)]
    # the first of its tokens is read in the iteration that makes the second
    assert read(log([1] * 5), rows, a=10) == [
        [6, 0, 0], [10, 0, 0], [0, 11, 0], [0, 12, 0], [0, 13, 0],
    ]  # fmt: skip


def test_what_a_prefix_cache_held_is_read_as_well() -> None:
    rows = [row("a", "prefill", 0, 0, 2), row("a", "prefill", 1, 1, 4), row("a", "decode", 2, 2)]
    assert read(log([1] * 3), rows, a=10) == [[6, 0, 0], [10, 0, 0], [0, 11, 0]]


def test_requests_add_up_by_work() -> None:
    rows = [row("a", "prefill", 0, 0, 10), row("a", "decode", 1, 3),
            row("b", "prefill", 2, 2, 7), row("b", "decode", 3, 3)]  # fmt: skip
    assert read(log([1, 1, 2, 2]), rows, a=10, b=7) == [
        [10, 0, 0], [0, 11, 0], [7, 12, 0], [0, 13 + 8, 0],
    ]  # fmt: skip


def test_after_a_preemption_all_of_it_is_computed_again() -> None:
    # three tokens were made until iteration 2; 13 are computed again, and the last makes the fourth
    rows = [row("a", "prefill", 0, 0, 10), row("a", "decode", 1, 2), row("a", "decode", 5, 7),
            row("a", "recompute", 5, 5, 8), row("a", "recompute", 6, 6, 5)]  # fmt: skip
    assert read(log([1, 1, 1, 0, 0, 1, 1, 1]), rows, a=10) == [
        [10, 0, 0], [0, 11, 0], [0, 12, 0], [0, 0, 0], [0, 0, 0],
        [0, 0, 8], [0, 6.5, 6.5], [0, 14, 0],
    ]  # fmt: skip


def test_a_sequence_that_does_two_works_at_once_is_read_for_both() -> None:
    # 3 of 12 tokens had been computed before a preemption
    rows = [row("a", "recompute", 1, 1, 3), row("a", "prefill", 1, 1, 9), row("a", "decode", 2, 2)]
    assert read(log([0, 1, 1]), rows, a=12) == [[0, 0, 0], [6, 0, 6], [0, 13, 0]]


def test_chunks_in_vain_before_a_preemption_are_not_known() -> None:
    rows = [row("a", "prefill", 0, 0, 8), row("a", "recompute", 2, 2, 8),
            row("a", "prefill", 2, 2, 4), row("a", "decode", 3, 3)]  # fmt: skip
    assert read(log([1, 0, 1, 1]), rows, a=12) == [NONE, [0, 0, 0], [6, 0, 6], [0, 13, 0]]


@pytest.mark.parametrize("case", ["prompt", "stretch", "request"])
def test_an_iteration_is_known_when_all_its_requests_are(case: str) -> None:
    other = [row("b", "prefill", 1, 1, None if case == "stretch" else 5), row("b", "decode", 2, 2)]
    rows = [row("a", "prefill", 0, 0, 10), row("a", "decode", 1, 3)]
    rows += other if case != "request" else []
    prompt = None if case == "prompt" else 5
    assert read(log([1, 2, 2, 1]), rows, a=10, b=prompt) == [[10, 0, 0], NONE, NONE, [0, 13, 0]]


def test_lives_of_engines_are_apart_and_rows_outside_the_log_are_nothing() -> None:
    second: Life = ("0", 1)
    iterations = pa.concat_tables([log([1, 1], first=1_000_000), log([1], life=second)])
    rows = [row("a", "prefill", 999_999, 999_999, 10), row("a", "decode", 1_000_000, 1_000_009)]
    rows += [row("b", "decode", 0, 0, life=second), row("c", "decode", 0, 0, life=("1", 0))]
    assert read(iterations, rows, a=10, b=20, c=30) == [[0, 11, 0], [0, 12, 0], [0, 21, 0]]


def test_numbers_that_lie_far_apart_are_no_axis() -> None:
    iterations = pa.concat_tables([log([1]), log([1], first=10**15)])
    assert read(iterations, [row("a", "decode", 0, 0)], a=10) == [NONE, NONE]


def test_the_columns_have_their_names() -> None:
    table = with_kv(log([1]), [row("a", "prefill", 0, 0, 10)], {"a": 10})
    assert [table.column(name).to_pylist() for name in KV_WORKS] == [[10.0], [0.0], [0.0]]
