"""Sums that annotations tell of a step's requests, and divisions of tokens that come to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from attribution.test_gpu_steps import mark, part
from hypothesis import given
from hypothesis import strategies as st

from trueput.attribution.gpu.steps.shapes import (
    kv_by_annotation,
    read_with_shapes,
    shapes_of_iterations,
)
from trueput.attribution.records import EngineLimits
from trueput.attribution.replay.block_pool import BlockPool
from trueput.attribution.replay.division import Division
from trueput.attribution.replay.shapes import Open, Shape, agrees, divisions
from trueput.attribution.replay.stories import Job, Live, Story

BLOCK = 4
CACHED = EngineLimits(BLOCK, 65, 8, 64, prefix_caching=True, spec_tokens=0)


def shape(*given: tuple[int, int]) -> Shape:
    """The sums over requests of so many tokens and such lengths."""
    return Shape(
        sum(q * q for q, _ in given), sum(s for _, s in given), sum(q * s for q, s in given)
    )


def prompt(index: int, tokens: int) -> Live:
    """A new request of whose prompt the cache holds an unknown part."""
    job = Job(index, tokens, None, None, 0, None, None, None, None, False, False, None)
    live = Live(job, tokens)
    live.flexible = True
    return live


def test_squares_tell_how_two_prompts_share_a_sum_and_products_whose_is_which() -> None:
    parts = [Open(1, 20, BLOCK, 20, 0), Open(2, 30, BLOCK, 30, 0)]
    # 12 + 22 tokens; 8 + 26 and 16 + 18 come to the same sum
    assert divisions(parts, 34, shape((12, 20), (22, 30))) == [(12, 22)]
    assert divisions(parts, 34, shape((8, 20), (26, 30))) == [(8, 26)]
    # without the products: of equal lengths neither would they tell
    alike = [Open(4, 20, BLOCK, 20, 0), Open(4, 20, BLOCK, 20, 0)]
    assert divisions(alike, 28, shape((12, 20), (16, 20))) == [(12, 16), (16, 12)]
    assert divisions(parts, 34, shape((11, 20), (23, 30))) == []


def test_one_that_the_budget_cuts_is_told_by_what_the_others_leave() -> None:
    cut = Open(1, 40, 1, None, 0)
    # 8 tokens were found, and 10 given: it has 18
    assert divisions([Open(2, 30, BLOCK, 30, 0), cut], 32, shape((22, 30), (10, 18))) == [(22, 10)]
    # more than it has cannot be given: 22 of 30 leave 10 for one of 9
    wrong = Shape(22 * 22 + 10 * 10, 39, 22 * 30 + 10 * 9)
    assert divisions([Open(2, 30, BLOCK, 30, 0), cut], 32, wrong) == []


def test_too_many_ways_are_not_looked_at() -> None:
    many = [Open(1, 400, 1, 400, 0)] * 4
    assert divisions(many, 900, shape(*[(225, 400)] * 4)) is None


@given(st.data())
def test_the_true_division_is_always_found_and_all_found_come_to_the_sums(
    data: st.DataObject,
) -> None:
    count = data.draw(st.integers(2, 3))
    lengths = data.draw(st.lists(st.integers(1, 40), min_size=count, max_size=count))
    found = [BLOCK * data.draw(st.integers(0, (n - 1) // BLOCK)) for n in lengths]
    true = tuple(n - hit for n, hit in zip(lengths, found, strict=True))
    parts = [Open(n - (n - 1) // BLOCK * BLOCK, n, BLOCK, n, 0) for n in lengths]
    sums = shape(*zip(true, lengths, strict=True))
    all_found = divisions(parts, sum(true), sums)
    assert all_found is not None
    assert true in all_found
    for each in all_found:
        assert sum(each) == sum(true)
        assert agrees(sums, [*zip(each, lengths, strict=True)])
    # sum and squares are both odd or both even
    assert divisions(parts, sum(true), Shape(sums.squares + 1, None, None)) == []


def test_a_division_that_is_told_leaves_nothing_open() -> None:
    division, story = Division(BlockPool(CACHED)), Story((), 64)
    both = [prompt(0, 20), prompt(1, 30)]
    given: dict[int, int] = {}
    assert division.divide(story, both, 34, None, given, shape((8, 20), (26, 30)))
    assert division.is_told
    assert [given[id(live)] for live in both] == [8, 26]


def test_other_requests_than_the_annotation_s_do_not_fit() -> None:
    division, story = Division(BlockPool(CACHED)), Story((), 64)
    both = [prompt(0, 20), prompt(1, 30)]
    given: dict[int, int] = {}
    assert not division.divide(story, both, 34, None, given, shape((8, 20), (26, 34)))
    assert not division.is_told
    # a log without annotations has nothing that denies them
    assert division.divide(story, both, 34, None, given)


ITERATIONS = 20


def printed() -> pa.Table:
    """Iterations that print one prompt of 10, 11, 12, ... tokens each."""
    number = np.arange(ITERATIONS)
    return pa.table({
        "engine": ["000"] * ITERATIONS, "incarnation": number * 0, "step_ix": number + 5,
        "context_requests": number * 0 + 1, "context_tokens": number + 10,
        "generation_requests": number * 0, "generation_tokens": number * 0,
    })  # fmt: skip


def annotated(number: int, process: str, **told: int | None) -> dict[str, Any]:
    """The annotation of an iteration, whose prompt was found to 16 tokens in the cache."""
    tokens = 10 + number
    shapes: Mapping[str, int | None] = {
        "context_squares": tokens * tokens, "context_kv_tokens": tokens + 16,
        "context_products": tokens * (tokens + 16), "generation_squares": 0,
        "generation_kv_tokens": 0, "generation_products": 0,
    }  # fmt: skip
    return mark(
        100 * number, 100 * number + 50, process, context_requests=1, context_tokens=tokens,
        generation_requests=0, generation_tokens=0, **shapes, **told,
    )  # fmt: skip


def tied(folder: Path, rows: list[dict[str, Any]]) -> Any:
    """What the annotations of `rows` tell of the iterations."""
    parts = {"gpu_ranges": part(folder, "gpu_ranges", rows)}
    return shapes_of_iterations(parts, printed, {}, ())


def test_annotations_are_told_to_the_iterations_of_the_log(tmp_path: Path) -> None:
    # two ranks say the same; the first iterations are not in the profile
    found = tied(tmp_path, [annotated(n, p) for p in "12" for n in range(4, ITERATIONS)])
    assert found.keys() == {("000", 0)}
    step_ix, shapes = found["000", 0]
    assert step_ix.tolist() == list(range(9, 25))
    assert shapes[0].tolist() == [14 * 14, 30, 14 * 30, 0, 0, 0]


@pytest.mark.parametrize("number", ["context_squares", "context_kv_tokens", "context_products"])
def test_a_number_that_could_not_be_read_is_no_sum(tmp_path: Path, number: str) -> None:
    rows = [annotated(n, "1") for n in range(ITERATIONS)]
    rows[3][number] = None
    assert tied(tmp_path, rows) == {}


@pytest.mark.parametrize("number", ["context_squares", "context_products"])
def test_numbers_that_cannot_be_these_sums_are_not_used(tmp_path: Path, number: str) -> None:
    rows = [annotated(n, "1") for n in range(ITERATIONS)]
    rows[3][number] += 1
    assert tied(tmp_path, rows) == {}


def test_the_file_whose_numbers_contradict_is_named(tmp_path: Path) -> None:
    rows = [annotated(n, "1") for n in range(ITERATIONS)]
    rows[3]["context_kv_tokens"] = 1  # shorter than what it is given
    rows[3]["context_products"] = 13
    denied: list[str] = []
    marks = read_with_shapes(part(tmp_path, "gpu_ranges", rows), denied)
    assert marks is not None
    assert marks.shapes is None
    assert denied == ["f"]


def test_annotations_without_them_tell_nothing(tmp_path: Path) -> None:
    names = [n for n in annotated(0, "1") if n.endswith(("squares", "kv_tokens", "products"))]
    rows = [annotated(n, "1") | dict.fromkeys(names) for n in range(ITERATIONS)]
    assert tied(tmp_path, rows) == {}


def step(number: int, requests: Sequence[tuple[int, int]], prompts: Sequence[tuple[int, int]] = ()
) -> dict[str, Any]:  # fmt: skip
    """The annotation of a step: tokens and lengths of those with an output token, and without."""
    told: dict[str, int] = {}
    for group, pairs in (("context", prompts), ("generation", requests)):
        told |= {
            f"{group}_requests": len(pairs),
            f"{group}_tokens": sum(q for q, _ in pairs),
            f"{group}_kv_tokens": sum(s for _, s in pairs),
            f"{group}_squares": sum(q * q for q, _ in pairs),
            f"{group}_products": sum(q * s for q, s in pairs),
        }
    return mark(100 * number, 100 * number + 50, **told)


def test_an_annotation_tells_what_each_work_reads_of_the_kv(tmp_path: Path) -> None:
    rows = [
        step(0, [(1, 40), (1, 50)], [(16, 16), (8, 24)]),
        # beside them a victim computes ten of its thirty tokens again, and its next one
        step(1, [(1, 40), (1, 50), (11, 30)]),
        # two victims: their tokens and lengths are not told apart
        step(2, [(1, 40), (6, 30), (6, 60)]),
        # not told to be computed again: speculated, perhaps
        step(3, [(1, 40), (11, 30)]),
    ]
    marks = read_with_shapes(part(tmp_path, "gpu_ranges", rows))
    assert marks is not None
    found = kv_by_annotation(marks, np.array([0, 10, 10, 0]))
    assert found[0].tolist() == [40, 90, 0]
    assert found[1].tolist() == [0, 90 + 15, 15]
    assert np.isnan(found[2:]).all()


def test_annotations_without_lengths_tell_nothing_of_the_kv(tmp_path: Path) -> None:
    marks = read_with_shapes(part(tmp_path, "gpu_ranges", [mark(0, 10), mark(20, 30)]))
    assert marks is not None
    assert marks.shapes is None
    assert np.isnan(kv_by_annotation(marks, np.zeros(2, np.int64))).all()
