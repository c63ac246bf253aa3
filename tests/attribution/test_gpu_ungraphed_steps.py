"""Steps that decode and lost their graph with its launch, but not all kernels: by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trueput.arrow import arrow_schema
from trueput.attribution.gpu.losses.ungraphed_steps import ungraphed_steps
from trueput.attribution.gpu.profile.marks import read_marks

US = 1_000
STEPS = 100
"""A step each millisecond, annotated for 400 us."""
Launched = tuple[str, int, int]
"""Call, and from when to when what it launched ran (us from the start of the step)."""
GRAPH: Launched = ("cudaGraphLaunch", 100, 800)
SAMPLER: Launched = ("cudaLaunchKernel", 810, 830)
COPY: Launched = ("cudaMemcpyAsync", 840, 850)
LAYERS: list[Launched] = [("cudaLaunchKernel", 100 * n, 100 * n + 90) for n in range(1, 8)]
AS_A_GRAPH = [GRAPH, SAMPLER, COPY]
NO_GRAPH = [SAMPLER, COPY]
KINDS = {"cudaGraphLaunch": "graph_span", "cudaLaunchKernel": "kernel", "cudaMemcpyAsync": "memcpy"}
Ran = Callable[[int], list[Launched]]


def write(folder: Path, table: str, rows: list[dict[str, Any]]) -> Path:
    schema = arrow_schema(table)
    names = [n for n in schema.names if any(n in row for row in rows)]
    columns = {n: pa.array([row.get(n) for row in rows], schema.field(n).type) for n in names}
    pq.write_table(pa.table(columns), folder / f"{table}.parquet")
    return folder / f"{table}.parquet"


def asked(folder: Path, ran: Ran, prefills: Callable[[int], bool]) -> tuple[int, int, int]:
    """How many steps that decode were looked at, how many lost a graph, and the idle time (us)."""
    place = {"source_id": "f", "process_key": "p", "thread_key": "t"}
    ranges, launches, operations = [], [], []
    for n in range(STEPS):
        at, context = n * 1_000 * US, int(prefills(n))
        ranges.append(
            place
            | {"start_at_ns": at, "end_at_ns": at + 400 * US, "dialect": "vllm",
               "context_requests": context, "context_tokens": 50 * context,
               "generation_requests": 3, "generation_tokens": 3}
        )  # fmt: skip
        for k, (api, begin, end) in enumerate(ran(n)):
            called = at + (10 + k) * US
            launches.append(place | {"api": api, "start_at_ns": called})
            operations.append(
                place
                | {"device_key": "p:0", "kind": KINDS[api], "quality": None,
                   "start_at_ns": at + begin * US, "end_at_ns": at + end * US}
            )  # fmt: skip
    marks = read_marks([write(folder, "gpu_ranges", ranges)])
    assert marks is not None
    tables = write(folder, "gpu_ops", operations), write(folder, "gpu_launches", launches)
    found = ungraphed_steps(*tables, marks)
    return found.steps, found.empty, found.idle_ns // US


def no_step(_: int) -> bool:
    return False


def every_tenth(n: int) -> bool:
    return n % 10 == 0


def layers_or_graph(n: int) -> list[Launched]:
    return [*LAYERS, SAMPLER, COPY] if every_tenth(n) else AS_A_GRAPH


def test_steps_with_their_graphs_lost_none(tmp_path: Path) -> None:
    assert asked(tmp_path, layers_or_graph, every_tenth) == (0, 0, 0)


def test_a_step_that_ran_its_layers_one_by_one_lost_none(tmp_path: Path) -> None:
    """Batches for which no graph was captured run so."""
    assert asked(tmp_path, layers_or_graph, no_step) == (0, 0, 0)


def test_a_step_of_which_the_sampler_alone_is_left_lost_its_graph(tmp_path: Path) -> None:
    def ran(n: int) -> list[Launched]:
        return NO_GRAPH if n in (41, 42, 43, 44) else layers_or_graph(n)

    # of 98 steps that no end of the capture cuts, nine prefill
    # until the next kernel, which is the next sampler while graphs are missing: what is left takes
    # 30 us of each step; behind the last one the next step's graph begins after 100 us
    assert asked(tmp_path, ran, every_tenth) == (89, 4, 4 * 1_000 + 100 - 4 * 30)


@pytest.mark.parametrize("left", [[], [COPY]])
def test_so_did_one_of_which_less_is_left(tmp_path: Path, left: list[Launched]) -> None:
    def ran(n: int) -> list[Launched]:
        return left if n in (41, 42, 43, 44) else layers_or_graph(n)

    assert asked(tmp_path, ran, every_tenth)[1] == 4


def test_where_no_step_shows_a_graph_nothing_is_known(tmp_path: Path) -> None:
    assert asked(tmp_path, lambda _: NO_GRAPH, no_step)[1] == 0
