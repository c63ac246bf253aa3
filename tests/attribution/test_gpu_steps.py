"""Steps of a profile: innermost annotations, kernels by launch, busy unions, all by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from trueput.arrow import conform
from trueput.attribution.gpu.profile.marks import read_marks
from trueput.attribution.gpu.steps.busy import MAX_OPERATIONS, busy_by_step
from trueput.attribution.gpu.steps.division import gpu_steps, speculated_tokens
from trueput.ingest.read import PartWriter

Rows = Sequence[Mapping[str, Any]] | pa.Table
OWN = {"run_id": "r", "source_id": "f"}
NO_ITERATIONS = pa.table(
    {
        name: pa.array([], pa.string() if name == "engine" else pa.int64())
        for name in ("engine", "incarnation", "step_ix", "recomputed_tokens", "context_requests",
                     "context_tokens", "generation_requests", "generation_tokens")
    }
)  # fmt: skip


def part(folder: Path, table: str, rows: Rows) -> list[Path]:
    """One part with these rows."""
    writer = PartWriter(table, folder / f"{table}.parquet")
    writer.add(conform(table, rows, OWN))
    writer.close()
    return [folder / f"{table}.parquet"]


def mark(
    start: int, end: int, process: str = "1", thread: str = "a", **tokens: int
) -> dict[str, Any]:
    """A step annotation: one decode sequence where nothing else is said."""
    composition = {"generation_requests": 1, "generation_tokens": 1, **tokens}
    return {"process_key": process, "thread_key": thread, "start_at_ns": start, "end_at_ns": end,
            "name": "step", "style": "push_pop", "dialect": "vllm", **composition}  # fmt: skip


def call(at: int, number: int, process: str = "1", thread: str = "a") -> dict[str, Any]:
    """A launching call."""
    return {"process_key": process, "thread_key": thread, "correlation_id": number,
            "api": "cudaLaunchKernel", "start_at_ns": at, "end_at_ns": at + 1}  # fmt: skip


def kernel(
    number: int | None, start: int, end: int, device: str = "G0", process: str = "1", **more: str
) -> dict[str, Any]:
    """A compute kernel."""
    return {"kind": "kernel", "class": "compute", "name": "k", "device_key": device,
            "process_key": process, "correlation_id": number, "start_at_ns": start,
            "end_at_ns": end, **more}  # fmt: skip


def test_the_innermost_annotation_is_the_step(tmp_path: Path) -> None:
    # the outer one holds both; of another thread the same span is no nesting
    rows = [mark(0, 100), mark(10, 20), mark(30, 40), mark(0, 100, thread="b")]
    marks = read_marks(part(tmp_path, "gpu_ranges", rows))
    assert marks is not None
    spans = zip(marks.start_ns.tolist(), marks.end_ns.tolist(), strict=True)
    assert sorted(spans) == [(0, 100), (10, 20), (30, 40)]


def test_annotations_without_a_composition_are_no_steps(tmp_path: Path) -> None:
    named = mark(0, 10)
    plain = {**named, "dialect": None}
    unread = {**named, "generation_tokens": None, "context_tokens": None}
    assert read_marks(part(tmp_path, "gpu_ranges", [plain, unread])) is None


def test_busy_is_the_union_of_the_kernels_that_the_step_launched(tmp_path: Path) -> None:
    marks = read_marks(part(tmp_path, "gpu_ranges", [mark(0, 10), mark(20, 30), mark(40, 50)]))
    assert marks is not None
    parts = {
        "gpu_launches": part(tmp_path, "gpu_launches", [
            call(1, 1), call(2, 2), call(21, 3), call(22, 4),
            call(15, 5),  # between the steps
            call(3, 6, thread="b"), call(4, 1, process="2", thread="a"),  # of others
            call(30, 7),  # on the very end
        ]),
        "gpu_ops": part(tmp_path, "gpu_ops", [
            kernel(1, 100, 110), kernel(2, 105, 130),  # overlap by 5: 30 ns
            kernel(3, 200, 210), kernel(4, 300, 330, "G1"),  # 10 and 30 on two devices: mean 20
            kernel(5, 400, 500), kernel(6, 500, 600), kernel(None, 600, 700),
            kernel(1, 700, 900, process="2"),
            kernel(7, 1000, 1002, "G1"),  # 32 on G1: mean of 10 and 32
            kernel(2, 120, 128, **{"class": "communication"}),
        ]),
    }  # fmt: skip
    busy = busy_by_step(parts, marks)
    assert busy.step.tolist() == [0, 1]  # the third step launched nothing
    assert busy.ns.tolist() == busy.most_ns.tolist() == [30, 21]
    assert busy.kernels.tolist() == [2, 3]
    assert not busy.is_hidden.any()


def test_a_graph_that_shows_its_span_alone_hides_what_its_step_computed(tmp_path: Path) -> None:
    ranges = [mark(20 * i, 20 * i + 10) for i in range(5)]
    marks = read_marks(part(tmp_path, "gpu_ranges", ranges))
    assert marks is not None
    graph = {"api": "cudaGraphLaunch"}
    parts = {
        "gpu_launches": part(tmp_path, "gpu_launches", [
            call(1, 1), {**call(2, 2), **graph},
            call(21, 3), {**call(22, 4), **graph},
            call(41, 5), {**call(42, 6), **graph},
            call(61, 7), call(62, 8),
            {**call(81, 9), **graph},
        ]),
        "gpu_ops": part(tmp_path, "gpu_ops", [
            kernel(1, 100, 110), kernel(2, 110, 140, kind="graph_span"),  # 10, 40 with the span
            kernel(3, 200, 210),  # of its graph nothing is seen
            kernel(5, 300, 310), kernel(6, 310, 320), kernel(6, 330, 340),  # a graph's kernels
            kernel(6, 310, 340, kind="graph_span"),  # beside its span: 30 all the same
            kernel(7, 400, 410),  # a lost kernel of no graph is another matter
        ]),
    }  # fmt: skip
    busy = busy_by_step(parts, marks)
    assert busy.step.tolist() == [0, 1, 2, 3]
    assert busy.ns.tolist() == [10, 10, 30, 10]
    assert busy.most_ns.tolist() == [40, 10, 30, 10]
    assert busy.is_hidden.tolist() == [True, True, False, False]
    assert busy.is_spanned.tolist() == [True, False, True, True]
    # the last step launched a graph as well, and nothing of it was seen at all
    assert busy.hidden_share == 3 / 5


@pytest.fixture(scope="module")
def long_profile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """More operations than are all looked at: 4000 steps of 30 kernels of 7 ns each."""
    folder = tmp_path_factory.mktemp("long")
    steps, each = 4000, 30
    number = np.arange(steps * each)
    assert number.size > MAX_OPERATIONS
    at = number * 10
    same = {"process_key": ["1"] * number.size, "correlation_id": number + 1}
    return {
        "gpu_ranges": part(
            folder, "gpu_ranges", [mark(300 * i, 300 * i + 299) for i in range(steps)]
        ),
        "gpu_launches": part(folder, "gpu_launches", pa.table({
            **same, "thread_key": ["a"] * number.size, "start_at_ns": at, "end_at_ns": at + 1,
        })),
        "gpu_ops": part(folder, "gpu_ops", pa.table({
            **same, "kind": ["kernel"] * number.size, "class": ["compute"] * number.size,
            "device_key": ["G0"] * number.size, "start_at_ns": at + 5, "end_at_ns": at + 12,
        })),
    }  # fmt: skip


def test_slices_of_a_long_profile_say_what_the_whole_would(
    long_profile: dict[str, list[Path]],
) -> None:
    marks = read_marks(long_profile["gpu_ranges"])
    assert marks is not None
    busy = busy_by_step(long_profile, marks)
    assert 1000 < busy.step.size < len(marks)
    assert set(busy.ns.tolist()) == {30 * 7}


def test_rows_come_in_pieces_and_on_utc(tmp_path: Path) -> None:
    parts = {"gpu_ranges": part(tmp_path, "gpu_ranges", [
        mark(20, 30, generation_tokens=4), mark(0, 10, context_requests=1, context_tokens=64),
    ])}  # fmt: skip
    pieces = gpu_steps("r", parts, NO_ITERATIONS, 0, {"f": 1000})
    assert pieces is not None
    rows = conform("gpu_steps", next(pieces), {}).to_pylist()
    assert [(r["start_at_ns"], r["gpu_step_ix"], r["step_ix"]) for r in rows] == [
        (1000, 0, None), (1020, 1, None),
    ]  # fmt: skip
    # 4 tokens for one sequence: 3 were computed before; the other step shows no such excess
    assert [r["recomputed_tokens"] for r in rows] == [None, 3]
    assert rows[1]["recompute_ratio"] == 0.75  # by tokens: too few steps to fit a cost


def test_steps_are_matched_with_the_log_in_order(tmp_path: Path) -> None:
    tokens = [5, 9, 7, 9, 3, 8]
    marks = [mark(10 * i, 10 * i + 5, generation_requests=t, generation_tokens=t)
             for i, t in enumerate(tokens[1:])]  # fmt: skip
    zero = [0] * len(tokens)
    log = pa.table({
        "engine": ["e"] * 6, "incarnation": zero, "step_ix": [40, 41, 42, 43, 44, 45],
        "recomputed_tokens": [0, 0, 2, 0, 0, 0], "context_requests": zero, "context_tokens": zero,
        "generation_requests": tokens, "generation_tokens": tokens,
    })  # fmt: skip
    pieces = gpu_steps("r", {"gpu_ranges": part(tmp_path, "gpu_ranges", marks)}, log, 0, {})
    assert pieces is not None
    rows = next(pieces).to_pylist()
    assert [r["step_ix"] for r in rows] == [41, 42, 43, 44, 45]
    assert [r["recomputed_tokens"] for r in rows] == [0, 2, 0, 0, 0]


SHARES = [f"{work}_ratio{end}" for work in ("prefill", "decode", "recompute")
          for end in ("", "_low", "_high")]  # fmt: skip


def shares_of(folder: Path, annotation: dict[str, Any], spec: int | None) -> list[float | None]:
    """Recomputed tokens of a profile's only step, then its shares, each with low and high."""
    pieces = gpu_steps(
        "r", {"gpu_ranges": part(folder, "gpu_ranges", [annotation])}, NO_ITERATIONS, spec, {}
    )
    assert pieces is not None
    (row,) = conform("gpu_steps", next(pieces), {}).to_pylist()
    return [row["recomputed_tokens"], *(row[name] for name in SHARES)]


@pytest.mark.parametrize(
    ("spec", "shares"),
    [
        # five of ten tokens are no decoding where nothing is speculated, all ten may be with one;
        # a single step allows no model, so that either work may be none of it, or nearly all
        (0, [5, 0, 0, 0, 0.5, 0, 1, 0.5, 0, 1]),
        (1, [None, 0, 0, 0, 1, 1, 1, 0, 0, 0]),
        (None, [None, 0, 0, 0, 1, 0, 1, 0, 0, 1]),
    ],
)
def test_tokens_beyond_one_a_sequence_are_either_where_nobody_tells_of_speculation(
    tmp_path: Path, spec: int | None, shares: list[float | None]
) -> None:
    step = mark(0, 10, context_tokens=0, generation_requests=5, generation_tokens=10)
    assert shares_of(tmp_path, step, spec) == shares


@pytest.mark.parametrize(
    ("told", "shares"),
    [
        # step[MIXED bs=2 c_sq=5 g_sk=7]: decoding is there, and not how much
        ({"context_tokens": 5}, [1, 0, 1, 0, 0, 1]),
        ({"context_requests": 2, "generation_requests": 3, "generation_tokens": 3},
         [0, 0, 1, 1, 0, 1]),
        # step[EXTEND bs=2]: all of it is prefill, however many tokens
        ({"context_requests": 2, "generation_requests": 0, "generation_tokens": 0},
         [1, 1, 1, 0, 0, 0]),
    ],
)  # fmt: skip
def test_what_an_annotation_does_not_tell_is_bounded(
    tmp_path: Path, told: dict[str, int], shares: list[float]
) -> None:
    nothing = {"generation_requests": None, "generation_tokens": None}
    found = shares_of(tmp_path, {**mark(0, 10), **nothing, **told}, 0)
    assert found[1:7] == shares


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({}, None),
        ({"config.block_size": 16}, None),
        ({"config.max_num_seqs": 8}, 0),
        ({"config.max_num_seqs": 8, "config.num_speculative_tokens": 3}, 3),
        ({"config.num_speculative_tokens": 3}, 3),
    ],
)
def test_speculation_is_known_with_the_engines_settings(
    config: dict[str, int], tokens: int | None
) -> None:
    assert speculated_tokens(config) == tokens
